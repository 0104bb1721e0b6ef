"""Signatures describe the parameters for `inspect.signature`, editors and `help`."""

import inspect

import numpy as np
import pytest

import anyrt as trt

CLASSES = [
    x
    for x in (getattr(trt, n) for n in dir(trt))
    if isinstance(x, type) and x.__module__.startswith("anyrt") and not hasattr(x, "__members__")
]
# These parameters have no type: TensorRT's own types come from other libraries.
ANYTHING = {"communicator", "kernel_text", "func", "plugin", "int8_calibrator", "algorithm_selector"}


def methods(cls):
    """Names and functions of the public methods and of property setters."""
    for name, x in inspect.getmembers(cls):
        if not name.startswith("_") and inspect.isfunction(x) and x.__module__.startswith("anyrt"):
            yield name, x
        if not name.startswith("_") and isinstance(x, property) and x.fset is not None:
            yield name, x.fset


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_parameter_has_a_type(cls):
    if cls.__module__ == "anyrt":
        return  # the stub declares their properties
    untyped = [
        f"{name}: {p.name}"
        for name, f in methods(cls)
        for p in list(inspect.signature(f).parameters.values())[1:]
        if p.annotation in (p.empty, "object") and p.name not in ANYTHING and p.name != "args"
    ]
    assert untyped == []


def test_shapes_are_dims_or_sequences():
    shown = inspect.signature(trt.INetworkDefinition.add_input).parameters["shape"].annotation
    assert shown == "Dims | Sequence[int]"


def test_derived_methods_say_what_they_take():
    shown = {
        n: p.annotation for n, p in inspect.signature(trt.INetworkDefinition.add_scale).parameters.items()
    }
    assert shown["input"] == "ITensor"
    assert shown["mode"] == "ScaleMode"
    assert shown["shift"] == "Weights | NDArray[Any] | None"


def test_classes_with_callbacks_show_the_parameters_of_their_own():
    class Mine(trt.ILogger):
        def __init__(self, path, mode="w"):
            trt.ILogger.__init__(self)

    assert str(inspect.signature(Mine)) == "(path, mode='w')"
    assert list(inspect.signature(trt.Logger).parameters) == ["min_severity"]


def test_dims_are_a_sequence():
    shape = trt.Dims((1, -1, 3))
    assert (-1 in shape, shape.index(3), [*reversed(shape)]) == (True, 2, [3, -1, 1])
    assert np.empty(trt.Dims((2, 3))).shape == (2, 3)
