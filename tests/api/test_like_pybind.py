"""What objects are like that C++ has made: what `dir` shows, what copying does, what enums keep."""

import copy
import pickle

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.enums import DataType


def layer():
    network = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_network()
    return network.add_activation(network.add_input("x", trt.float32, (2,)), trt.ActivationType.RELU)


def memory():
    return trt.IHostMemory(b"plan")


def weights():
    return trt.Weights(np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (layer, "alpha"),
        (lambda: layer().get_input(0), "shape"),
        (lambda: trt.Builder(trt.Logger()), "create_network"),
        (lambda: trt.Dims([1]), "MAX_DIMS"),
    ],
)
def test_dir_of_an_object_shows_public_names_only(make, shown):
    names = dir(make())
    assert shown in names
    assert [n for n in names if n[0] == "_" and not n.endswith("__")] == []


def test_dir_of_a_derived_class_shows_what_the_program_declares():
    class Quiet(trt.ILogger):
        def __init__(self):
            super().__init__()
            self._lines = []

        def log(self, severity, msg): ...

        def _own(self): ...

    assert {"log", "_own", "_lines"} <= set(dir(Quiet()))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("make", [layer, lambda: trt.Dims([1]), weights, memory])
def test_object_can_be_neither_copied_nor_pickled(copied, make):
    thing = make()
    with pytest.raises(TypeError, match=f"cannot pickle 'anyrt.{type(thing).__name__}' object"):
        copied(thing)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_enum_member_is_itself_after_copying(copied):
    assert copied(trt.DataType.HALF) is trt.DataType.HALF


def test_enum_has_the_entries_that_pybind11_keeps():
    entries = getattr(DataType, "__entries")
    assert list(entries) == list(DataType.__members__)
    assert entries["HALF"] == (DataType.HALF, None)
