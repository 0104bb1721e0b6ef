"""Three coefficients per channel, and one set for all elements with a power."""

# ruff: noqa: F821  # the test defines network, inputs, outputs, expected, trt and np

x = network.add_input("x", dtype=trt.float32, shape=(2, 3, 1, 2))
by_channel = network.add_scale(
    x,
    trt.ScaleMode.CHANNEL,
    shift=np.array([1, 0, -1], np.float32),
    scale=np.array([2, -1, 0.5], np.float32),
)
squared = network.add_scale_nd(
    x,
    trt.ScaleMode.UNIFORM,
    shift=np.array([0.5], np.float32),
    power=np.array([2], np.float32),
    channel_axis=1,
)
network.mark_output(by_channel.get_output(0))
network.mark_output(squared.get_output(0))

inputs[x.name] = np.arange(12).reshape(2, 3, 1, 2)
outputs[by_channel.get_output(0).name] = by_channel.get_output(0).shape
outputs[squared.get_output(0).name] = squared.get_output(0).shape
expected[by_channel.get_output(0).name] = np.array(
    [[[[1, 3]], [[-2, -3]], [[1, 1.5]]], [[[13, 15]], [[-8, -9]], [[4, 4.5]]]]
)
expected[squared.get_output(0).name] = (np.arange(12).reshape(2, 3, 1, 2) + 0.5) ** 2
