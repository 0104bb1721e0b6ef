"""Names of TensorRT's API that AnyRT lacks: the error says so, and `hasattr` returns False."""

import pickle

import pytest

import anyrt as trt
from anyrt.api.edge.missing import ADVICE, REMOVED, lookup_error
from anyrt.core.errors import MissingName
from anyrt.ops import OPS

# An entry of the list may stay after its operator is implemented.
CAME = {op.cls for op in OPS.values()}
CAME |= {f"INetworkDefinition.{m.name}" for op in OPS.values() for m in op.methods}
OF_CLASSES = [n.split(".") for n in ADVICE if "." in n and n not in CAME]
OF_THE_MODULE = [n for n in ADVICE if "." not in n and n not in CAME]
OLD = [(owner, name) for owner, names in REMOVED.items() for name in names if owner != "anyrt"]


@pytest.mark.parametrize("name", ["UffParser", "CaffeParser"])
def test_a_missing_class_looks_absent_and_says_what_to_do(name):
    assert (hasattr(trt, name), name in dir(trt), getattr(trt, name, None)) == (False, False, None)
    with pytest.raises(MissingName, match=rf"^\[AR902\] anyrt.{name}: .+; \w+"):
        getattr(trt, name)


def test_importing_a_missing_name_is_an_import_error():
    with pytest.raises(ImportError, match="cannot import name 'UffParser'"):
        from anyrt import UffParser  # noqa: F401


@pytest.mark.parametrize("name", OF_THE_MODULE)
def test_no_name_of_the_module_is_listed_as_missing_and_there(name):
    assert not hasattr(trt, name)
    assert ADVICE[name][0].islower() or ADVICE[name].startswith("TensorRT")


@pytest.mark.parametrize(("owner", "name"), OF_CLASSES)
def test_a_missing_method_says_what_to_do(owner, name, net):
    place = net if owner == "INetworkDefinition" else trt.get_plugin_registry()
    assert not hasattr(place, name)
    with pytest.raises(MissingName, match=rf"^\[AR902\] {owner}.{name}: .+; "):
        getattr(place, name)
    assert (hasattr(getattr(trt, owner), name), name in dir(place)) == (False, False)


@pytest.mark.parametrize(("owner", "name"), OLD)
def test_a_name_that_tensorrt_10_removed_names_its_successor_and_the_mode(owner, name):
    kind = getattr(trt, owner)
    assert not hasattr(kind, name)
    with pytest.raises(AttributeError, match=rf"^\[AR903\] {owner}.{name}: .*; use .*compat --api 8.6"):
        getattr(kind, name)


@pytest.mark.parametrize(("owner", "name"), OLD)
def test_the_successor_of_a_removed_name_is_there(owner, name):
    successor = REMOVED[owner][name].split("(")[0]
    kinds = (
        getattr(trt, owner),
        trt.Builder,
        trt.ICudaEngine,
        trt.IExecutionContext,
        trt.IBuilderConfig,
        trt.INetworkDefinition,
    )
    assert " " in successor or any(hasattr(kind, successor) for kind in kinds)


def test_a_removed_setting_is_not_taken_in_silence(log):
    config = trt.Builder(log).create_builder_config()
    with pytest.raises(AttributeError, match=r"use set_memory_pool_limit\(MemoryPoolType.WORKSPACE, bytes\)"):
        config.max_workspace_size = 1 << 30


def test_old_names_of_enums_are_absent():
    assert (hasattr(trt, "ResizeMode"), hasattr(trt.BuilderFlag, "STRICT_TYPES")) == (False, False)
    with pytest.raises(AttributeError, match=r"AR903.*use InterpolationMode"):
        trt.ResizeMode  # noqa: B018


def test_a_name_that_nobody_knows_is_an_ordinary_attribute_error(net):
    with pytest.raises(AttributeError, match=r"^module 'anyrt' has no attribute 'OnnxPasrer'$") as caught:
        trt.OnnxPasrer  # noqa: B018
    assert not isinstance(caught.value, MissingName)
    assert not hasattr(net, "add_sofmax")


def test_a_missing_name_survives_pickling():
    error = pickle.loads(pickle.dumps(lookup_error("anyrt", "UffParser")))
    assert (type(error), error.where, error.code) == (MissingName, "anyrt.UffParser", "AR902")
