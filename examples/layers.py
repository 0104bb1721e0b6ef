"""A network of a few layers, described, built and run: each row of x normalised, then the negative cut.

python examples/layers.py
"""

import numpy as np

import anyrt as trt

logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network()
network.name = "layers"

x = network.add_input("x", trt.float32, (4, 6))
rows = 1 << 1  # axes are bits of a mask
mean = network.add_reduce(x, trt.ReduceOperation.AVG, rows, keep_dims=True)
centred = network.add_elementwise(x, mean.get_output(0), trt.ElementWiseOperation.SUB)
square = network.add_elementwise(centred.get_output(0), centred.get_output(0), trt.ElementWiseOperation.PROD)
variance = network.add_reduce(square.get_output(0), trt.ReduceOperation.AVG, rows, True)
deviation = network.add_unary(variance.get_output(0), trt.UnaryOperation.SQRT)
scaled = network.add_elementwise(centred.get_output(0), deviation.get_output(0), trt.ElementWiseOperation.DIV)
relu = network.add_activation(scaled.get_output(0), trt.ActivationType.RELU)
y = relu.get_output(0)
y.name = "y"
network.mark_output(y)
print(network)
for i in range(network.num_layers):
    print(network.get_layer(i))

engine = builder.build_engine_with_config(network, builder.create_builder_config())
array = np.arange(24, dtype=np.float32).reshape(4, 6) ** 2
got = engine.run(x=array)["y"]
want = np.maximum((array - array.mean(1, keepdims=True)) / array.std(1, keepdims=True), 0)
print("NumPy agrees:", np.allclose(got, want, atol=1e-5))
