"""Transpose, reshape with a copied and an inferred dimension, transpose again."""

# ruff: noqa: F821  # the test defines network, inputs, outputs, expected, trt and np

x = network.add_input("x", dtype=trt.int32, shape=(2, 3, 4))
layer = network.add_shuffle(x)
layer.first_transpose = trt.Permutation([2, 0, 1])
layer.reshape_dims = trt.Dims([0, -1])
layer.second_transpose = trt.Permutation([1, 0])
network.mark_output(layer.get_output(0))

inputs[x.name] = np.arange(24).reshape(2, 3, 4)
outputs[layer.get_output(0).name] = layer.get_output(0).shape
expected[layer.get_output(0).name] = np.arange(24).reshape(6, 4)
