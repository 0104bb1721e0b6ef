"""Resize beyond TensorRT's: scales and regions from tensors, kernels that widen as axes shrink."""

import numpy as np

import anyrt as trt

LINEAR, HALF_PIXEL = trt.InterpolationMode.LINEAR, trt.ResizeCoordinateTransformation.HALF_PIXEL


def finished(net, layer):
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    return net.builder.build_engine_with_config(net, net.builder.create_builder_config())


def test_scales_are_a_constant_tensor(net):
    layer = net.add_resize(net.add_input("x", trt.float32, (4, 2)))
    layer.scales = (9, 9)
    layer.set_input(2, net.add_constant((2,), np.float32([0.5, 1.5])).get_output(0))
    assert (list(layer.scales), layer.get_output(0).shape) == ([], (2, 3))


def test_a_region_may_change_from_run_to_run(net):
    layer = net.add_resize(net.add_input("x", trt.float32, (5,)))
    layer.resize_mode, layer.shape, layer.extrapolation_value = LINEAR, (3,), -1
    layer.set_input(3, net.add_input("roi", trt.float32, (2,)))
    engine, x = finished(net, layer), np.float32([0, 10, 20, 30, 40])
    assert engine.run(x=x, roi=np.float32([0, 1]))["y"].tolist() == [0, 20, 40]
    assert engine.run(x=x, roi=np.float32([0.5, 1.5]))["y"].tolist() == [20, 40, -1]
    assert engine.run(x=x, roi=np.float32([np.nan, np.inf]))["y"].tolist() == [-1, -1, -1]


def test_a_smooth_resize_averages_what_it_leaves_out(net):
    layer = net.add_resize(net.add_input("x", trt.float32, (1000,)))
    layer.resize_mode, layer.shape, layer.coordinate_transformation = LINEAR, (10,), HALF_PIXEL
    layer.antialias = layer.exclude_outside = True
    y = finished(net, layer).run(x=np.float32([1, -1] * 500))["y"]
    assert np.abs(y[1:-1]).max() < 1e-6
    assert np.abs(y).max() < 0.01  # elements at the ends see half as many
