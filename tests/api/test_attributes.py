"""Objects have only the attributes of their class; the error for a misspelt one suggests the right name."""

import weakref

import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic


@pytest.fixture
def layer(net):
    return net.add_resize(net.add_input("x", trt.float32, (1, 1, 4, 4)))


def test_misspelt_attribute_of_a_layer_names_the_nearest(layer):
    with pytest.raises(AttributeError, match=r"AR313.*IResizeLayer.*'resize_mod'.*'resize_mode'"):
        layer.resize_mod = trt.InterpolationMode.LINEAR


def test_misspelt_setting_names_the_nearest(net):
    config = net.builder.create_builder_config()
    with pytest.raises(
        AttributeError,
        match=diagnostic(
            "AR313", "IBuilderConfig", "'builder_optimisation_level'", "'builder_optimization_level'"
        ),
    ):
        config.builder_optimisation_level = 5


def test_errors_distinguish_read_only_attributes_from_missing_ones(net, golden_text):
    with pytest.raises(
        AttributeError, match=diagnostic("AR313", "INetworkDefinition", "'num_layers'")
    ) as caught:
        net.num_layers = 3
    golden_text(caught.value)


def test_attribute_like_no_other_is_rejected_without_a_guess(net):
    with pytest.raises(AttributeError, match=r"AR313.*'zzz'.*help\(INetworkDefinition\)"):
        net.zzz = 3


def everything(net, engine):
    """One object of every public class that programs use."""
    builder, layer, logger = net.builder, net.add_shuffle(net.add_input("x", trt.float32, (2,))), trt.Logger()
    config = builder.create_builder_config()
    described = (builder, net, layer, layer.get_output(0), config, builder.create_optimization_profile())
    cached = (trt.TimingCacheKey.parse("k"), trt.TimingCacheValue(1, 0.5), config.create_timing_cache(b""))
    loaded = (engine, engine._runtime, engine.create_execution_context(), engine.create_engine_inspector())
    settings = (engine.create_runtime_config(), engine.create_serialization_config())
    shapes = (trt.Dims(), trt.Dims2(), trt.Dims3(), trt.Dims4(), trt.DimsHW(), trt.Permutation())
    memory = (trt.Weights(np.ones(1, np.float32)), engine.serialize())
    kinds = (logger, trt.Profiler(), trt.ILogger(), trt.IStreamWriter(), trt.IGpuAllocator())
    rest = (builder.get_plugin_registry(), trt.InterfaceInfo())
    return (*described, *cached, *loaded, *settings, *shapes, *memory, *kinds, *rest)


def test_every_object_rejects_an_attribute_of_no_meaning_and_takes_weak_references(net, engine):
    result = everything(net, engine)
    assert [x for x in result if hasattr(x, "__dict__")] == []
    for x in result:
        with pytest.raises(AttributeError, match="anything"):
            x.anything = 1
        assert weakref.ref(x)() is x


def test_every_layer_class_has_the_layout_of_the_others(net, layer):
    named = (getattr(trt, name) for name in dir(trt))
    for kind in (k for k in named if isinstance(k, type) and issubclass(k, trt.ILayer)):
        layer.__class__ = kind
        assert type(layer) is kind


def test_subclasses_have_attributes_of_their_own():
    class Counting(trt.Logger):
        def __init__(self):
            trt.Logger.__init__(self)
            self.count = 0

    class Times(trt.IProfiler):
        lines = 3

    logger, times = Counting(), Times()
    logger.count, times.anything = 5, 7
    assert (logger.count, times.anything) == (5, 7)


def test_one_class_may_be_several_interfaces():
    class Both(trt.ILogger, trt.IErrorRecorder):
        def __init__(self):
            trt.ILogger.__init__(self)
            self.lines = []

    assert isinstance(Both(), trt.ILogger)
