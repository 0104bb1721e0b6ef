"""A row of four pixels resized to eight, nearest and linear, by size and by factor."""

# ruff: noqa: F821  # the test defines network, inputs, outputs, expected, trt and np

row = network.add_input("row", dtype=trt.float32, shape=(1, 1, 1, 4))
nearest = network.add_resize(row)
nearest.resize_mode = trt.InterpolationMode.NEAREST
nearest.scales = (1, 1, 1, 2)
linear = network.add_resize(row)
linear.resize_mode = trt.InterpolationMode.LINEAR
linear.shape = (1, 1, 1, 8)
linear.coordinate_transformation = trt.ResizeCoordinateTransformation.HALF_PIXEL
network.mark_output(nearest.get_output(0))
network.mark_output(linear.get_output(0))

inputs[row.name] = np.array([[[[0, 4, 8, 4]]]])
outputs[nearest.get_output(0).name] = nearest.get_output(0).shape
outputs[linear.get_output(0).name] = linear.get_output(0).shape
expected[nearest.get_output(0).name] = np.array([[[0, 0, 4, 4, 8, 8, 4, 4]]])
expected[linear.get_output(0).name] = np.array([[[0, 1, 3, 5, 7, 7, 5, 4]]])
