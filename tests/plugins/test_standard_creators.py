"""Creators of the standard plug-ins: lookup, fields, serialization, and many layers at once."""

from __future__ import annotations

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.plugins.standard import STANDARD
from tests.messages import diagnostic
from tests.plugins.standards import Engine, added, create, field, holds

SLOPE = {"negSlope": 0.25}


def collected(**fields):
    """Fields as programs collect them."""
    return trt.PluginFieldCollection([field(n, x) for n, x in fields.items()])


@pytest.fixture
def creator(registry):
    """A creator by its name."""
    trt.init_libnvinfer_plugins(None, "")
    return lambda name, version="1": registry.get_creator(name, version, "")


def test_init_registers_the_creators(registry):
    assert trt.init_libnvinfer_plugins(trt.Logger(), "ours") is True
    before = len(registry.all_creators)
    assert trt.init_libnvinfer_plugins(None, "ours") is True
    assert len(registry.all_creators) == before
    result = registry.get_creator("EfficientNMS_TRT", "1", "ours")
    assert (result.name, result.plugin_version, result.plugin_namespace) == ("EfficientNMS_TRT", "1", "ours")
    assert result in registry.plugin_creator_list


def test_creators_list_their_fields_with_types(creator):
    names = creator("EfficientNMS_TRT").field_names
    reported = {names[k].name: names[k].type for k in range(len(names))}
    assert reported["score_threshold"] is trt.PluginFieldType.FLOAT32
    assert reported["max_output_boxes"] is trt.PluginFieldType.INT32


def test_standard_plugins_have_unique_names_and_versions():
    keys = [(s.name, v) for s in STANDARD for v in s.versions]
    assert len(keys) == len(set(keys))
    assert all(set(s.v3) <= set(s.versions) for s in STANDARD)


def test_plugins_have_name_version_and_namespace(creator):
    v2 = creator("LReLU_TRT").create_plugin("relu", collected(**SLOPE))
    assert isinstance(v2, trt.IPluginV2DynamicExt)
    assert (v2.plugin_type, v2.plugin_version, v2.num_outputs) == ("LReLU_TRT", "1", 1)
    v3 = create("CustomGeluPluginDynamic", "2", type_id=0)
    core = v3.get_capability_interface(trt.PluginCapabilityType.CORE)
    assert (core.plugin_name, core.plugin_version) == ("CustomGeluPluginDynamic", "2")


def test_the_inspector_shows_them_as_plugins(rng):
    engine = Engine(create("LReLU_TRT", **SLOPE), [rng.standard_normal((2, 3)).astype(np.float32)])
    (layer,) = engine.network
    assert layer.type is trt.LayerType.PLUGIN_V2
    layer.__class__ = trt.IPluginV2Layer
    assert layer.plugin.plugin_type == "LReLU_TRT"
    assert layer.get_output(0).shape == (2, 3)


def test_plugins_are_restored_from_their_serialized_form(creator, rng):
    x = rng.standard_normal((2, 3)).astype(np.float32)
    plugin = creator("LReLU_TRT").create_plugin("relu", collected(**SLOPE))
    again = creator("LReLU_TRT").deserialize_plugin("relu", plugin.serialize())
    holds(Engine(again, [x])(x), Engine(plugin.clone(), [x])(x), 0)
    fields = create("CustomGeluPluginDynamic", "2", bias=np.ones(3)).get_fields_to_serialize()
    assert fields[0].data.tolist() == [1, 1, 1]


def test_many_layers_fuse_with_their_neighbours_to_one_kernel(rng):
    x = rng.standard_normal((64, 64)).astype(np.float32)
    builder = trt.Builder(trt.Logger())
    network = builder.create_network()
    y = network.add_input("x", trt.float32, x.shape)
    for _ in range(8):
        y = added(network, [y], create("LReLU_TRT", **SLOPE)).get_output(0)
    network.mark_output(y)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan)
    assert engine.num_layers == 1


@pytest.mark.parametrize(
    ("name", "fields", "values"),
    [
        ("EfficientNMS_TRT", {"score_treshold": 0.5}, ("AR823", "'score_treshold'", "score_threshold")),
        ("EfficientNMS_TRT", {"score_threshold": 1}, ("AR304", "score_threshold", "INT32", "FLOAT32")),
        ("EfficientNMS_TRT", {"max_output_boxes": 5.0}, ("AR304", "max_output_boxes", "FLOAT32", "INT32")),
        ("EfficientNMS_TRT", {"max_output_boxes": 0}, ("AR304", "max_output_boxes", 0, 1)),
        ("EfficientNMS_TRT", {"box_coding": 2}, ("AR304", "box_coding", 2, 0, 1)),
        ("EfficientNMS_TRT", {"box_coding": [0, 1]}, ("AR304", "box_coding", 2, 1)),
        ("BatchedNMS_TRT", {"numClasses": 3}, ("AR822", "'topK'")),
        ("InstanceNormalization_TRT", {"scales": "abc"}, ("AR304", "scales", "CHAR", "FLOAT32")),
    ],
)
def test_invalid_fields_are_rejected(creator, name, fields, values):
    with trt.strict(), pytest.raises(trt.errors.AnyrtError, match=diagnostic(*values)):
        creator(name).create_plugin("p", collected(**fields))


def test_invalid_fields_return_none_and_log_a_line(registry, log):
    trt.init_libnvinfer_plugins(log, "logged")
    result = registry.get_creator("LReLU_TRT", "1", "logged")
    assert result.create_plugin("p", collected(slope=1.0)) is None
    assert log.lines
    assert "AR823" in log.lines[0]


def test_invalid_bytes_are_rejected(creator):
    for data in (b"", b"\xff\xfe", b"[1]", b'[["a", "NOTHING", []]]'):
        with trt.strict(), pytest.raises(trt.errors.PluginError, match="AR82"):
            creator("LReLU_TRT").deserialize_plugin("p", data)
