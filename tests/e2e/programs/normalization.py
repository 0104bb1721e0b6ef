"""Each row normalised to mean 0 and variance 1, then scaled and shifted."""

# ruff: noqa: F821  # the test defines network, inputs, outputs, expected, trt and np

x = network.add_input("x", dtype=trt.float32, shape=(2, 5))
scale = network.add_input("scale", dtype=trt.float32, shape=(1, 5))
bias = network.add_input("bias", dtype=trt.float32, shape=(1, 5))
layer = network.add_normalization(x, scale, bias, 1 << 1)
layer.epsilon = 0.25
network.mark_output(layer.get_output(0))

values = np.array([[1, 2, 3, 4, 5], [0, 0, 0, 10, 0]])
factors, offsets = np.array([[1, 2, 1, 0, -1]]), np.array([[0, 0, 1, 1, 0]])
inputs[x.name], inputs[scale.name], inputs[bias.name] = values, factors, offsets
outputs[layer.get_output(0).name] = layer.get_output(0).shape
centred = values - values.mean(1, keepdims=True)
expected[layer.get_output(0).name] = (
    centred / np.sqrt((centred**2).mean(1, keepdims=True) + 0.25) * factors + offsets
)
