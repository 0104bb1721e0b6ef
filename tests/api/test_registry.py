"""The plug-in registry without any plug-ins: it finds none and keeps its settings."""

import pytest

import anyrt as trt
from tests.messages import diagnostic


def test_the_registry_finds_no_creators_of_any_kind():
    registry = trt.get_plugin_registry()
    assert registry.all_creators == registry.all_creators_recursive == registry.plugin_creator_list == []
    assert registry.get_plugin_creator("x", "1") is registry.get_creator("x", "1", "ns") is None


def test_builders_and_runtimes_have_the_registry_of_the_process(log):
    for owner in (trt.Builder(log), trt.Runtime(log)):
        assert owner.get_plugin_registry() is trt.get_plugin_registry()
    for capability in trt.EngineCapability:
        assert trt.get_builder_plugin_registry(capability) is trt.get_plugin_registry()
    with pytest.raises(TypeError, match="EngineCapability"):
        trt.get_builder_plugin_registry(0)


def test_plugins_need_no_loading_and_a_namespace_is_text(log):
    assert trt.init_libnvinfer_plugins(log, "") is trt.init_libnvinfer_plugins(None, "ns") is True
    with pytest.raises(TypeError, match="namespace"):
        trt.init_libnvinfer_plugins(log, 1)


def test_settings_of_a_registry_are_kept():
    registry = trt.IPluginRegistry()
    assert (registry.parent_search_enabled, registry.error_recorder) == (True, None)
    registry.parent_search_enabled, registry.error_recorder = False, (recorder := trt.IErrorRecorder())
    assert (registry.parent_search_enabled, registry.error_recorder) == (False, recorder)


def test_a_text_of_plug_ins_is_like_a_str():
    text = trt.FallbackString("ns")
    assert (str(text), text == "ns", text == trt.FallbackString("ns")) == ("ns", True, True)
    assert text != trt.FallbackString()
    assert {text: 1} == {"ns": 1}
    with pytest.raises(TypeError, match=diagnostic("AR311", "FallbackString", "int", "str")):
        trt.FallbackString(3)
