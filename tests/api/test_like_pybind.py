"""Behaviour of objects that pybind11 would create: the result of `dir`, of copying, of enums."""

import copy
import enum
import inspect
import pickle

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of
from tests.messages import diagnostic


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


def enums():
    """Every enum of the API."""
    results = {getattr(trt, name) for name in dir(trt)} | {trt.ILogger.Severity}
    return sorted((x for x in results if isinstance(x, enum.EnumMeta)), key=lambda x: x.__qualname__)


@pytest.mark.parametrize("kind", enums(), ids=lambda kind: kind.__qualname__)
def test_enum_has_the_entries_that_pybind11_keeps(kind):
    entries = getattr(kind, "__entries")
    assert {name: m for name, (m, _) in entries.items()} == dict(kind.__members__)
    assert all(text.lower().startswith(name.lower().replace("_", " ")) for name, (_, text) in entries.items())
    for name, member in kind.__members__.items():
        number = int(member)
        assert (kind(number), getattr(kind, name), member.value) == (member, member, number)
        assert repr(member) == f"<{kind.__name__}.{member.name}: {number}>"
        assert str(member) == f"{kind.__name__}.{member.name}"
        assert pickle.loads(pickle.dumps(member)) is copy.deepcopy(member) is member
        assert (member == number, member | 0, 1 << member) == (False, number, 1 << number)
        assert hash(member) == hash(kind(number))


def test_enums_look_like_types_of_pybind11():
    assert getattr(trt.LayerType, "__entries")["RAGGED_SOFTMAX"][1] == "Ragged softmax layer type"
    assert {type(kind).__name__ for kind in enums()} == {"pybind11_type"}
    assert {type(c).__name__ for c in (trt.ILayer, trt.Dims, trt.ILogger, trt.Builder)} == {"pybind11_type"}
    assert (trt.DataType.name.fget(trt.int8), trt.DataType.value.fget(trt.int8)) == ("INT8", 2)
    assert {"name", "value", "INT8", "itemsize"} <= set(dir(trt.DataType))


def test_itemsize_is_a_function_of_the_module():
    assert [trt._itemsize(t) for t in (trt.float32, trt.int64, trt.bool, trt.int4)] == [4, 8, 1, 0.5]


def classes():
    named = (getattr(module, name) for module in (trt, trt.plugin) for name in dir(module))
    return sorted({c for c in named if inspect.isclass(c)}, key=lambda c: c.__qualname__)


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__qualname__)
def test_dir_of_a_class_names_what_can_be_had(kind):
    assert [name for name in dir(kind) if not hasattr(kind, name)] == []


def things():
    """Objects of public classes, and layers whose class a program reassigned."""
    instance = layer()
    network, builder = state_of(instance).network.it, trt.Builder(trt.Logger(trt.Logger.ERROR))
    yield from (instance, instance.get_input(0), network, builder, builder.create_builder_config())
    yield from (builder.create_optimization_profile(), trt.Runtime(trt.Logger()), weights(), trt.int8)
    for kind in (c for c in classes() if issubclass(c, trt.ILayer)):
        other = layer()
        other.__class__ = kind
        yield other


@pytest.mark.parametrize("thing", [*things()], ids=lambda x: type(x).__name__)
def test_dir_of_an_object_names_what_can_be_had(thing):
    assert [name for name in dir(thing) if not hasattr(thing, name)] == []
    assert "__class__" in dir(thing)


def test_attribute_of_another_kind_of_layer_is_rejected_by_name():
    relu = layer()
    relu.__class__ = trt.IPoolingLayer
    with pytest.raises(AttributeError, match=diagnostic("AR313", "'window_size_nd'", "IActivationLayer")):
        _ = relu.window_size_nd
    relu.window_size_nd = (2, 2)
    assert not hasattr(relu, "window_size_nd")


@pytest.mark.parametrize("module", [trt, trt.plugin])
def test_dir_of_a_class_shows_public_names_only(module):
    for kind in filter(inspect.isclass, (getattr(module, name) for name in dir(module))):
        assert not [n for n in dir(kind) if n[0] == "_" != n[1:2]], kind
        assert dict(inspect.getmembers(kind)).keys() == set(dir(kind)), kind


def test_dir_of_a_class_that_a_program_derives_shows_its_own_names():
    class Mine(trt.IGpuAllocator):
        def _kept(self):
            return 3

    assert "_kept" in dir(Mine)
    assert {"_kept", "allocate"} <= set(dir(Mine())) & set(dir(Mine))
    assert "_initialised" not in dir(Mine)


def test_dir_of_attention_shows_public_names_only():
    network = trt.Builder(trt.Logger()).create_network()
    q, k, v = (network.add_input(n, trt.float32, (1, 2, 3, 4)) for n in "qkv")
    attention = network.add_attention(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, False)
    assert not [n for n in dir(attention) if n[0] == "_" != n[1:2]]
    assert "causal" in dir(attention)


def test_wrong_number_of_arguments_raises():
    builder, layered = trt.Builder(trt.Logger(trt.Logger.ERROR)), layer()
    network = builder.create_network()
    for call in (
        lambda: network.add_input("x"),
        lambda: network.add_plugin_v2([]),
        lambda: layered.set_input(0),
    ):
        with pytest.raises(TypeError, match="missing"):
            call()
