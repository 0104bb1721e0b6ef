"""Helpers for networks that several test files use: they name the outputs, build with every kernel verified,
and check that the text of each kernel parses back to it.

marked(net, y=tensor)
engine(net, x=((1, 2), (4, 2), (8, 2))).run(x=x)["y"]
"""

from unittest.mock import patch

import anyrt as trt
from anyrt.compiler import native
from anyrt.ir.kernel import Kernel
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.kerneltext import print_kernels
from tests.targets import parsed

Shapes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def marked(net: trt.INetworkDefinition, **outputs: trt.ITensor) -> None:
    """Mark tensors as outputs with these names."""
    for name, tensor in outputs.items():
        tensor.name = name
        net.mark_output(tensor)


def assert_readable(kernel: Kernel) -> None:
    """Check that the kernel is valid and that its text parses back to it."""
    assert next(kernel_faults(kernel), None) is None
    assert parsed(print_kernels([kernel])) == (kernel,)


def engine(net: trt.INetworkDefinition, **ranges: Shapes) -> trt.ICudaEngine:
    """The engine; each input has these minimum, optimum and maximum shapes. Raises the error that a build
    would log."""
    config = net.builder.create_builder_config()
    config.verify = "full"
    profile = net.builder.create_optimization_profile()
    for name, shapes in ranges.items():
        profile.set_shape(name, *shapes)
    if ranges:
        config.add_optimization_profile(profile)
    with trt.strict(), patch.object(native, "assert_kernel", assert_readable):
        return net.builder.build_engine_with_config(net, config)
