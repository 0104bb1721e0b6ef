"""Builders, configurations, profiles, and the frozen request made from a network."""

import re

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.building import builder as builder_module
from anyrt.compiler.request import Point, Verify, Winograd
from anyrt.ir.interpret import interpret
from anyrt.plan.file import PlanParts
from tests.messages import diagnostic

F = trt.float32


@pytest.fixture
def builder(log):
    return trt.Builder(log)


@pytest.fixture
def config(builder):
    return builder.create_builder_config()


@pytest.fixture
def asked(monkeypatch):
    """The requests that reach the compiler, which is replaced by one that returns b"plan"."""
    requests = []
    plan = PlanParts((memoryview(b"plan"),), b"")
    monkeypatch.setattr(builder_module, "compile_request", lambda r: requests.append(r) or plan)
    return requests


def identity(net, shape=(2, 3), name="x"):
    layer = net.add_shuffle(net.add_input(name, F, shape))
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    return layer


def test_a_static_network_freezes_into_a_request(builder, config, asked):
    net = builder.create_network()
    identity(net)
    assert bytes(builder.build_serialized_network(net, config)) == b"plan"
    request = asked[0]
    assert [n for n, _ in request.graph.inputs + request.graph.outputs] == ["x", "y"]
    assert [(b.name, b.is_input, b.shape) for b in request.bindings] == [
        ("x", True, (2, 3)),
        ("y", False, (2, 3)),
    ]
    assert request.sizes(0, Point.OPT) == {}
    assert request.layers[0].kind == "Shuffle"
    assert "test_build.py:" in dict(request.layers[0].details)["source"]


def test_dynamic_sizes_become_symbols_with_the_range_of_all_profiles(builder, config, asked):
    net = builder.create_network()
    identity(net, (-1, 3))
    for low, high in ((1, 4), (2, 8)):
        profile = builder.create_optimization_profile()
        profile.set_shape("x", (low, 3), (low, 3), (high, 3))
        config.add_optimization_profile(profile)
    builder.build_serialized_network(net, config)
    (symbol,) = asked[0].graph.symbols
    assert (symbol.sym.name, symbol.sym.lo, symbol.sym.hi) == ("x.0", 1, 8)
    assert asked[0].sizes(1, Point.MAX) == {"x.0": 8}


def test_equal_dimension_names_share_a_symbol(builder, config, asked):
    net = builder.create_network()
    a, b = net.add_input("a", F, (-1, 2)), net.add_input("b", F, (-1, 2))
    a.set_dimension_name(0, "batch")
    b.set_dimension_name(0, "batch")
    net.mark_output(net.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("a", (1, 2), (2, 2), (4, 2))
    profile.set_shape("b", (2, 2), (2, 2), (9, 2))
    config.add_optimization_profile(profile)
    assert builder.build_serialized_network(net, config) is not None
    assert [(s.sym.name, s.sym.lo, s.sym.hi) for s in asked[0].graph.symbols] == [("batch", 2, 4)]
    assert asked[0].bindings[1].dim_names == ("batch", "")


def test_weights_are_read_when_building(builder, config, asked):
    net, array = builder.create_network(), np.ones(3, np.float32)
    layer = net.add_constant((3,), array)
    net.mark_output(layer.get_output(0))
    array[:] = 5
    builder.build_serialized_network(net, config)
    ((_, value),) = asked[0].graph.outputs
    assert value.op.blob.data.tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("code", "shape", "ranges"),
    [
        ("AR501", (-1, 3), None),
        ("AR502", (-1, 3), {"x": (4,)}),
        ("AR504", (-1, 3), {"x": (1, 4)}),
        ("AR506", (-1, 3), {"x": (1, 3), "z": (1,)}),
    ],
)
def test_profiles_that_do_not_fit_are_found_at_build(builder, config, log, code, shape, ranges):
    net = builder.create_network()
    identity(net, shape)
    profile = builder.create_optimization_profile()
    for name, size in (ranges or {}).items():
        profile.set_shape(name, size, size, size)
    config.add_optimization_profile(profile)
    assert builder.build_serialized_network(net, config) is None
    assert code in log.lines[0]


def test_shape_tensors_need_values_in_the_profile(builder, config, log):
    net = builder.create_network()
    identity(net).set_input(1, net.add_input("n", trt.int32, (2,)))
    config.add_optimization_profile(builder.create_optimization_profile())
    assert builder.build_serialized_network(net, config) is None
    assert "set_shape_input" in log.lines[0]


def test_a_network_without_outputs_is_rejected(builder, config, log):
    assert builder.build_serialized_network(builder.create_network(), config) is None
    assert "AR401" in log.lines[0]


def test_equal_names_of_outputs_are_rejected_at_build(builder, config, log):
    net = builder.create_network()
    identity(net).get_output(0).name = "x"
    assert builder.build_serialized_network(net, config) is None
    assert "AR402" in log.lines[0]


def test_every_mistake_is_logged_at_build(builder, config, log):
    net = builder.create_network()
    x = net.add_input("x", F, (1, 1, 2, 2))
    identity(net, name="z")
    net.add_resize(x).scales = (2, 2)
    net.add_shuffle(x).reshape_dims = (-1, -1)
    assert not builder.is_network_supported(net, config)
    assert len([line for line in log.lines if "AR108" in line or "AR104" in line]) == 2


def test_a_cycle_is_an_error(builder, config, log):
    net = builder.create_network()
    layer = identity(net)
    after = net.add_shuffle(layer.get_output(0))
    layer.set_input(0, after.get_output(0))
    assert builder.build_serialized_network(net, config) is None
    assert "AR408" in log.lines[0]


def test_strict_raises_the_mistake(builder, config):
    with trt.strict(), pytest.raises(trt.errors.GraphError, match="AR401"):
        builder.build_serialized_network(builder.create_network(), config)


def test_a_fault_of_ours_is_reported_and_survived(builder, config, log, monkeypatch):
    monkeypatch.setattr(builder_module, "compile_request", lambda request: 1 // 0)
    net = builder.create_network()
    identity(net)
    assert builder.build_serialized_network(net, config) is None
    assert "AR807" in log.lines[0]
    assert "ZeroDivisionError" in log.lines[0]


def test_ctrl_c_passes(builder, config, monkeypatch):
    def interrupted(request):
        raise KeyboardInterrupt

    monkeypatch.setattr(builder_module, "compile_request", interrupted)
    net = builder.create_network()
    identity(net)
    with pytest.raises(KeyboardInterrupt):
        builder.build_serialized_network(net, config)


def test_the_progress_monitor_gets_phases_and_can_cancel(builder, config, asked):
    class Monitor(trt.IProgressMonitor):
        def __init__(self):
            trt.IProgressMonitor.__init__(self)
            self.heard = []

        def phase_start(self, name, parent, steps):
            self.heard.append((name, parent, steps))

        def step_complete(self, name, step):
            return step < 1

        def phase_finish(self, name):
            self.heard.append(name)

    config.progress_monitor = Monitor()
    net = builder.create_network()
    identity(net)
    builder.build_serialized_network(net, config)
    monitor = asked[0].monitor
    monitor.start("build", None, 2)
    assert (monitor.step("build", 0), monitor.step("build", 1)) == (True, False)
    monitor.finish("build")
    assert config.progress_monitor.heard == [("build", None, 2), "build"]


def test_plans_can_be_written_to_a_stream(builder, config, asked):
    class Writer(trt.IStreamWriter):
        def write(self, data):
            self.data = data
            return len(data)

    class Full(trt.IStreamWriter):
        def write(self, data):
            return 0

    net = builder.create_network()
    identity(net)
    writer = Writer()
    assert builder.build_serialized_network_to_stream(net, config, writer)
    assert writer.data == b"plan"
    assert not builder.build_serialized_network_to_stream(net, config, Full())


def test_builder_answers_for_the_machine(builder, log):
    assert (builder.logger, builder.platform_has_tf32, builder.num_DLA_cores) == (log, False, 0)
    assert builder.platform_has_fast_fp16
    assert builder.platform_has_fast_int8
    builder.max_threads = 3
    builder.reset()
    assert (builder.max_threads, builder.max_DLA_batch_size) == (1, 4096)
    assert builder.get_plugin_registry() is trt.get_plugin_registry()
    with pytest.warns(DeprecationWarning, match="does nothing"), builder as same:
        assert same is builder


def test_builder_rejects_objects_other_than_loggers():
    with pytest.raises(TypeError, match="ILogger"):
        trt.Builder(None)


def test_builder_flags_are_bits(config):
    config.set_flag(trt.BuilderFlag.FP16)
    assert config.flags == 1 << int(trt.BuilderFlag.FP16) | 1 << int(trt.BuilderFlag.TF32)
    config.clear_flag(trt.BuilderFlag.TF32)
    assert (config.get_flag(trt.BuilderFlag.TF32), config.flags) == (False, 1)
    with pytest.raises(TypeError):
        config.set_flag(0)


def test_quantization_flags_and_preview_features(config):
    flag, feature = trt.QuantizationFlag.CALIBRATE_BEFORE_FUSION, trt.PreviewFeature.PROFILE_SHARING_0806
    config.set_quantization_flag(flag)
    config.set_preview_feature(feature, True)
    assert (config.get_quantization_flag(flag), config.quantization_flags) == (True, 1)
    assert config.get_preview_feature(feature)
    config.clear_quantization_flag(flag)
    config.set_preview_feature(feature, False)
    assert (config.get_quantization_flag(flag), config.get_preview_feature(feature)) == (False, False)


def test_memory_pools_have_limits(config, log):
    pool = trt.MemoryPoolType.WORKSPACE
    assert config.get_memory_pool_limit(pool) > 1 << 28
    config.set_memory_pool_limit(pool, 1 << 20)
    config.set_memory_pool_limit(pool, -1)
    assert (config.get_memory_pool_limit(pool), "AR304" in log.lines[0]) == (1 << 20, True)
    assert config.get_memory_pool_limit(trt.MemoryPoolType.DLA_LOCAL_DRAM) == 1 << 30


def test_settings_check_type_and_range_and_reset(config, log):
    config.builder_optimization_level = 5
    config.builder_optimization_level = 6
    assert (config.builder_optimization_level, "AR304" in log.lines[0]) == (5, True)
    with pytest.raises(TypeError):
        config.profiling_verbosity = 2
    config.add_optimization_profile(trt.Builder(log).create_optimization_profile())
    config.reset()
    assert (config.builder_optimization_level, config.num_optimization_profiles) == (3, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("avg_timing_iterations", 4),
        ("int8_calibrator", None),
        ("engine_capability", trt.EngineCapability.SAFETY),
        ("default_device_type", trt.DeviceType.DLA),
        ("DLA_core", 1),
        ("profile_stream", 7),
        ("algorithm_selector", None),
        ("hardware_compatibility_level", trt.HardwareCompatibilityLevel.AMPERE_PLUS),
        ("runtime_platform", trt.RuntimePlatform.WINDOWS_AMD64),
        ("plugins_to_serialize", ["a.so"]),
        ("max_aux_streams", 2),
        ("max_num_tactics", 3),
        ("tiling_optimization_level", trt.TilingOptimizationLevel.FAST),
        ("l2_limit_for_tiling", 1024),
        ("remote_auto_tuning_config", "host"),
        ("build_route", "r"),
        ("num_threads", 2),
        ("winograd", "F(2,3)"),
    ],
)
def test_settings_return_the_values_that_were_set(config, name, value):
    setattr(config, name, value)
    assert getattr(config, name) == value


def test_settings_reach_the_compiler(builder, config, asked):
    net = builder.create_network()
    identity(net)
    config.verify, config.num_threads, config.builder_optimization_level = "full", 3, 1
    config.winograd, config.checked = "F(4,3)", True
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 4096)
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    builder.build_serialized_network(net, config)
    result = asked[0].settings
    assert (result.verify, result.num_threads, result.optimization_level) == (Verify.FULL, 3, 1)
    assert (result.memory_limit, result.flags) == (4096, config.flags)
    assert (result.winograd, result.checked) == (Winograd.F4, True)


def test_verify_takes_three_words(builder, config, log):
    net = builder.create_network()
    identity(net)
    config.verify = "some"
    assert builder.build_serialized_network(net, config) is None
    expected = diagnostic("AR304", "config.verify", "'some'", "off", "sample", "full")
    assert re.search(expected, log.lines[0])


def test_winograd_takes_four_words(builder, config, log):
    net = builder.create_network()
    identity(net)
    config.winograd = "F(6,3)"
    assert builder.build_serialized_network(net, config) is None
    expected = diagnostic("AR304", "config.winograd", "'F(6,3)'", "auto", "off", "F(2,3)", "F(4,3)")
    assert re.search(expected, log.lines[0])


def test_device_types_belong_to_layers(builder, config):
    layer = identity(builder.create_network())
    config.set_device_type(layer, trt.DeviceType.DLA)
    assert (config.get_device_type(layer), config.is_device_type_set(layer)) == (trt.DeviceType.DLA, True)
    config.reset_device_type(layer)
    assert (config.get_device_type(layer), config.is_device_type_set(layer)) == (trt.DeviceType.GPU, False)


def test_dla_takes_scales_without_power_in_half_types(builder, config):
    net, one = builder.create_network(), np.ones(1, np.float16)
    x = net.add_input("x", trt.float16, (1, 1, 2, 2))
    scale = net.add_scale(x, trt.ScaleMode.UNIFORM, scale=one)
    assert config.can_run_on_DLA(scale)
    scale.power = one * 2
    assert not config.can_run_on_DLA(scale)
    assert not config.can_run_on_DLA(net.add_shuffle(x))


def test_dla_takes_float32_where_flags_allow_half_precision(builder, config):
    net = builder.create_network()
    relu = net.add_activation(net.add_input("x", F, (1, 1, 2, 2)), trt.ActivationType.RELU)
    assert not config.can_run_on_DLA(relu)
    config.set_flag(trt.BuilderFlag.FP16)
    assert config.can_run_on_DLA(relu)


def test_tactic_sources_and_calibration_profile_are_kept(builder, config):
    assert config.get_tactic_sources() == 24
    assert config.set_tactic_sources(8)
    profile = builder.create_optimization_profile()
    assert (config.get_tactic_sources(), config.get_calibration_profile()) == (8, None)
    assert config.set_calibration_profile(profile)
    assert config.get_calibration_profile() is profile
    assert config.all_build_routes == ""


def test_timing_caches_serialize_and_combine(config):
    first, second = config.create_timing_cache(b""), config.create_timing_cache(b"")
    key = trt.TimingCacheKey.parse("k")
    assert second.update(key, trt.TimingCacheValue(3, 0.5))
    assert first.combine(second, False)
    again = config.create_timing_cache(first.serialize())
    assert (again.query(key).tacticHash, again.query(key).timingMSec) == (3, 0.5)
    assert [str(k) for k in again.queryKeys()] == ["k"]
    assert again.reset()
    assert again.query(key) is None


def test_timing_caches_of_other_kinds_are_rejected(config, log):
    assert config.create_timing_cache(b"anything") is None
    assert config.create_timing_cache(b"anyrt timing cache 1\n[[") is None
    assert ["AR606" in log.lines[0], "AR605" in log.lines[1]] == [True, True]


def test_builds_fill_the_timing_cache(builder, config, asked):
    net = builder.create_network()
    identity(net)
    builder.build_serialized_network(net, config)
    asked[0].timings["k"] = (1, 2.0)
    assert config.get_timing_cache().query(trt.TimingCacheKey("k")).timingMSec == 2.0
    cache = config.create_timing_cache(b"")
    assert config.set_timing_cache(cache, False)
    assert config.get_timing_cache() is cache


def test_profiles_keep_shapes_and_values(builder):
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1,), trt.Dims([2]), [3])
    profile.set_shape_input("n", [1], [2], [3])
    assert profile.get_shape("x") == [(1,), (2,), (3,)]
    assert (profile.get_shape_input("n"), profile.get_shape("n"), profile.get_shape_input("x")) == (
        [[1], [2], [3]],
        [],
        [],
    )
    profile.extra_memory_target = 0.5
    assert (profile.extra_memory_target, bool(profile), profile.__nonzero__()) == (0.5, True, True)


@pytest.mark.parametrize("shapes", [((2,), (1,), (3,)), ((1,), (1, 1), (1,)), ((-1,), (1,), (1,))])
def test_profiles_out_of_order_are_runtime_errors(builder, shapes):
    with pytest.raises(RuntimeError, match="AR50"):
        builder.create_optimization_profile().set_shape("x", *shapes)


def test_int8_tensors_take_their_scales_from_dynamic_ranges(builder, config, asked):
    net = builder.create_network()
    x = net.add_input("x", trt.int8, (1, 1, 1, 3))
    layer = net.add_scale(x, trt.ScaleMode.UNIFORM, scale=np.float32([2]))
    y = layer.get_output(0)
    x.dynamic_range, y.dynamic_range, y.name = (-12.7, 12.7), (-127, 127), "y"
    net.mark_output(y)
    builder.build_serialized_network(net, config)
    outputs = interpret(asked[0].graph, {"x": np.int8([[[[10, -20, 100]]]])}, {})
    assert outputs["y"].reshape(-1).tolist() == [2, -4, 20]


def test_output_types_convert_values(builder, config, asked):
    net = builder.create_network()
    layer = identity(net)
    layer.set_output_type(0, trt.int32)
    builder.build_serialized_network(net, config)
    outputs = interpret(asked[0].graph, {"x": np.full((2, 3), 2.7, np.float32)}, {})
    assert outputs["y"].tolist() == [[2, 2, 2]] * 2
