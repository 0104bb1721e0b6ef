"""The effects of build settings; settings without an effect log that they have none."""

import json

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of
from anyrt.schedule.tuning import MODEL, Tuning

Config, Flag, Pool = trt.IBuilderConfig, trt.BuilderFlag, trt.MemoryPoolType
HALF = trt.float16


@pytest.fixture
def builder(log):
    return trt.Builder(log)


@pytest.fixture
def config(builder):
    return builder.create_builder_config()


def passing(builder, *shape):
    """A network y = x."""
    network = builder.create_network()
    layer = network.add_identity(network.add_input("x", trt.float32, shape))
    layer.name, layer.get_output(0).name = "pass", "y"
    network.mark_output(layer.get_output(0))
    return network


# Stored, read back, cleared by reset, and without effect on an engine.
KEPT = {
    "avg_timing_iterations": (1, 4),
    "engine_capability": (trt.EngineCapability.STANDARD, trt.EngineCapability.DLA_STANDALONE),
    "default_device_type": (trt.DeviceType.GPU, trt.DeviceType.DLA),
    "DLA_core": (-1, 1),
    "quantization_flags": (0, 1),
    "profile_stream": (0, 7),
    "hardware_compatibility_level": (
        trt.HardwareCompatibilityLevel.NONE,
        trt.HardwareCompatibilityLevel.SAME_COMPUTE_CAPABILITY,
    ),
    "runtime_platform": (trt.RuntimePlatform.SAME_AS_BUILD, trt.RuntimePlatform.WINDOWS_AMD64),
    "plugins_to_serialize": ([], ["a.so"]),
    "max_aux_streams": (-1, 2),
    "tiling_optimization_level": (trt.TilingOptimizationLevel.NONE, trt.TilingOptimizationLevel.MODERATE),
    "l2_limit_for_tiling": (0, 1024),
    "remote_auto_tuning_config": ("", "host"),
    "build_route": ("", "r"),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_setting_is_read_back_and_says_that_it_is_kept(config, name):
    default, other = KEPT[name]
    assert getattr(config, name) == default
    setattr(config, name, other)
    assert getattr(config, name) == other
    config.reset()
    assert getattr(config, name) == default
    assert vars(Config)[name].__doc__.startswith("Kept")


def test_a_list_that_was_read_back_is_no_setting(builder, config):
    config.plugins_to_serialize.append("a.so")
    assert config.plugins_to_serialize == builder.create_builder_config().plugins_to_serialize == []


@pytest.mark.parametrize("owner", [trt.Builder, trt.Runtime])
def test_thread_limits_of_building_and_loading_say_that_they_are_kept(log, owner):
    built = owner(log)
    built.max_threads = 3
    assert (built.max_threads, owner.max_threads.__doc__[:4]) == (3, "Kept")
    built.max_threads = 0
    assert (built.max_threads, "AR304" in log.lines[0]) == (3, True)


@pytest.mark.parametrize(
    ("name", "default", "other"),
    [
        ("DLA_core", -1, 1),
        ("temporary_directory", "", "/tmp"),
        ("tempfile_control_flags", 3, 1 << trt.TempfileControlFlag.ALLOW_TEMPORARY_FILES),
        ("engine_host_code_allowed", False, True),
    ],
)
def test_settings_of_a_runtime_are_kept_and_say_so(log, name, default, other):
    runtime = trt.Runtime(log)
    assert getattr(runtime, name) == default
    setattr(runtime, name, other)
    assert (getattr(runtime, name), vars(trt.Runtime)[name].__doc__[:4]) == (other, "Kept")


def test_kept_settings_change_no_plan_but_for_what_the_plan_keeps(builder):
    plans = []
    for position in (0, 1):
        config = builder.create_builder_config()
        for name, values in KEPT.items():
            setattr(config, name, values[position])
        network = passing(builder, 2)
        network.name = "same"
        plans.append(bytes(builder.build_serialized_network(network, config)))
    assert plans[0] == plans[1]


# ---- settings in the plan --------------------------------------------------------------------------------


@pytest.fixture
def settings_of(builder, log):
    """The settings stored in the plan of a build."""

    def build(config):
        engine = builder.build_engine_with_config(passing(builder, 2), config)
        return dict(state_of(engine).plan.settings)

    return build


@pytest.mark.parametrize("level", [0, 5])
def test_the_optimization_level_is_in_the_plan(config, settings_of, level):
    config.builder_optimization_level = level
    assert settings_of(config)["level"] == str(level)


def test_the_memory_limit_threads_and_verification_are_in_the_plan(config, settings_of):
    config.set_memory_pool_limit(Pool.WORKSPACE, 1 << 20)
    config.num_threads, config.verify = 1, "sample"
    result = settings_of(config)
    assert (result["memory_limit"], result["threads"], result["verify"]) == ("1048576", "1", "sample")


def test_requested_tiles_are_in_the_plan(config, settings_of):
    config.winograd = "F(2,3)"
    assert settings_of(config)["winograd"] == "F(2,3)"


def test_checked_kernels_are_in_the_plan_and_have_a_place_of_their_own_in_the_cache(builder, config):
    engines = []
    for checked in (False, True):
        config.checked = checked
        engines.append(builder.build_engine_with_config(passing(builder, 2), config))
    assert [dict(state_of(e).plan.settings).get("checked") for e in engines] == [None, "on"]
    assert [e.run(x=np.ones((2,), np.float32))["y"].tolist() for e in engines] == [[1, 1], [1, 1]]
    assert [len(state_of(e).loaded.program.fences) for e in engines] == [0, 1]


def test_the_environment_asks_for_checks_where_nobody_else_says(config, settings_of, monkeypatch):
    monkeypatch.setenv("ANYRT_CHECKED", "1")
    assert settings_of(config)["checked"] == "on"
    config.checked = False
    assert "checked" not in settings_of(config)


@pytest.mark.parametrize(
    ("verbosity", "layer"),
    [
        (trt.ProfilingVerbosity.NONE, ""),
        (trt.ProfilingVerbosity.LAYER_NAMES_ONLY, "pass"),
        (trt.ProfilingVerbosity.DETAILED, "Name: pass, LayerType: Identity"),
    ],
)
def test_verbosity_determines_the_description_of_a_layer(builder, config, verbosity, layer):
    config.profiling_verbosity = verbosity
    engine = builder.build_engine_with_config(passing(builder, 2), config)
    inspector = engine.create_engine_inspector()
    line = inspector.get_layer_information(0, trt.LayerInformationFormat.ONELINE)
    whole = inspector.get_layer_information(0, trt.LayerInformationFormat.JSON)
    assert engine.profiling_verbosity is verbosity
    assert line.startswith(layer)
    assert (line == layer) == (verbosity is not trt.ProfilingVerbosity.DETAILED)
    assert isinstance(json.loads(whole), dict) == (verbosity is trt.ProfilingVerbosity.DETAILED)


# ---- flags -------------------------------------------------------------------------------------------------


def test_every_flag_is_a_bit_of_its_own_that_is_set_read_and_cleared(config):
    config.flags = 0
    for flag in Flag:
        config.set_flag(flag)
        assert (config.flags, config.get_flag(flag)) == (1 << int(flag), True)
        assert [f for f in Flag if config.get_flag(f)] == [flag]
        config.clear_flag(flag)
        assert config.flags == 0


def test_flags_are_documented_as_kept_but_for_some(config):
    assert "OBEY_PRECISION_CONSTRAINTS makes `layer.precision` a constraint" in Config.set_flag.__doc__
    assert "With FP16 or INT8, DLA supports float32" in Config.set_flag.__doc__
    assert "The other flags have no effect" in Config.set_flag.__doc__
    with pytest.raises(TypeError):
        config.flags = "FP16"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], 0),
        ([Flag.EXCESS_PRECISION], 1),
        ([Flag.FP16], 1),
        ([Flag.BF16], 1),
        ([Flag.FP16, Flag.OBEY_PRECISION_CONSTRAINTS], 0),
    ],
)
def test_tensors_are_rounded_to_their_types_unless_a_flag_allows_more(builder, config, flags, expected):
    network, total = builder.create_network(), trt.ElementWiseOperation.SUM
    x = network.add_input("x", HALF, (2,))
    big, small = (network.add_constant((2,), np.full(2, v, np.float16)).get_output(0) for v in (2048, -2048))
    larger = network.add_elementwise(x, big, total).get_output(0)
    network.mark_output(network.add_elementwise(larger, small, total).get_output(0))
    for flag in flags:
        config.set_flag(flag)
    engine = builder.build_engine_with_config(network, config)
    (y,) = engine.run(x=np.ones(2, np.float16)).values()
    assert y.tolist() == [expected] * 2  # float16 cannot represent 1 + 2048


@pytest.mark.parametrize("flag", [Flag.FP16, Flag.INT8])
def test_flags_of_half_precision_let_dla_take_float32(builder, config, flag):
    network = builder.create_network()
    relu = network.add_activation(network.add_input("x", trt.float32, (1, 1, 2, 2)), trt.ActivationType.RELU)
    assert not config.can_run_on_DLA(relu)
    config.set_flag(flag)
    assert config.can_run_on_DLA(relu)
    config.clear_flag(flag)
    assert not config.can_run_on_DLA(relu)


@pytest.mark.parametrize("flag", ["REFIT", "REFIT_INDIVIDUAL", "REFIT_IDENTICAL", "STRIP_PLAN"])
def test_an_engine_built_for_refitting_says_so(builder, config, flag):
    config.set_flag(Flag.__members__[flag])
    assert builder.build_engine_with_config(passing(builder, 2), config).refittable is True


@pytest.mark.parametrize("feature", [*trt.PreviewFeature])
def test_preview_features_are_kept_one_by_one(config, feature):
    shared = trt.PreviewFeature.PROFILE_SHARING_0806
    config.set_preview_feature(feature, True)
    assert {f for f in trt.PreviewFeature if config.get_preview_feature(f)} == {feature, shared}
    config.set_preview_feature(feature, False)
    assert not config.get_preview_feature(feature)
    config.set_preview_feature(feature, True)
    config.reset()
    assert config.get_preview_feature(feature) is (feature is shared)
    assert "kept" in Config.set_preview_feature.__doc__


def test_quantization_flags_are_kept(config):
    flag = trt.QuantizationFlag.CALIBRATE_BEFORE_FUSION
    config.set_quantization_flag(flag)
    assert (config.get_quantization_flag(flag), config.quantization_flags) == (True, 1 << int(flag))
    config.clear_quantization_flag(flag)
    assert (config.get_quantization_flag(flag), config.quantization_flags) == (False, 0)
    assert "kept" in Config.set_quantization_flag.__doc__


# ---- memory, devices, tactics ----------------------------------------------------------------------------


def test_every_pool_has_a_limit_of_its_own(config):
    before = {pool: config.get_memory_pool_limit(pool) for pool in Pool}
    assert before[Pool.DLA_MANAGED_SRAM] == 0
    assert (before[Pool.DLA_LOCAL_DRAM], before[Pool.DLA_GLOBAL_DRAM]) == (1 << 30, 1 << 29)
    for number, pool in enumerate(Pool, 100):
        config.set_memory_pool_limit(pool, number)
    assert [config.get_memory_pool_limit(pool) for pool in Pool] == [*range(100, 100 + len(Pool))]
    config.reset()
    assert {pool: config.get_memory_pool_limit(pool) for pool in Pool} == before
    assert "others are kept" in Config.set_memory_pool_limit.__doc__


def test_device_types_are_kept_for_each_layer_and_reset(builder, config):
    network = passing(builder, 2)
    layer, other = network.get_layer(0), network.add_identity(network.get_input(0))
    config.set_device_type(layer, trt.DeviceType.DLA)
    assert [config.is_device_type_set(x) for x in (layer, other)] == [True, False]
    config.default_device_type = trt.DeviceType.DLA
    assert config.get_device_type(other) is trt.DeviceType.DLA
    config.reset()
    assert [config.get_device_type(x) for x in (layer, other)] == [trt.DeviceType.GPU] * 2
    assert "kept" in Config.set_device_type.__doc__


def test_tactic_sources_are_kept_as_bits(config):
    edge, jit = trt.TacticSource.EDGE_MASK_CONVOLUTIONS, trt.TacticSource.JIT_CONVOLUTIONS
    assert config.get_tactic_sources() == 1 << edge | 1 << jit
    assert config.set_tactic_sources(1 << trt.TacticSource.CUDNN)
    assert config.get_tactic_sources() == 1 << trt.TacticSource.CUDNN
    config.reset()
    assert config.get_tactic_sources() == 1 << edge | 1 << jit
    assert "kept" in Config.set_tactic_sources.__doc__
    with pytest.raises(TypeError):
        config.set_tactic_sources(None)


def test_the_calibration_profile_is_read_back(builder, config):
    profile = builder.create_optimization_profile()
    assert config.set_calibration_profile(profile)
    assert config.get_calibration_profile() is profile
    config.reset()
    assert config.get_calibration_profile() is None


# ---- profiles and timing caches --------------------------------------------------------------------------


def test_profiles_are_numbered_and_become_those_of_the_engine(builder, config):
    ranges = [((1,), (2,), (3,)), ((4,), (5,), (6,))]
    for number, shapes in enumerate(ranges):
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *shapes)
        assert config.add_optimization_profile(profile) == number
    assert config.num_optimization_profiles == 2
    engine = builder.build_engine_with_config(passing(builder, -1), config)
    assert [tuple(engine.get_tensor_profile_shape("x", p)) for p in (0, 1)] == ranges


def test_the_memory_target_of_a_profile_is_kept_from_0_to_1(builder):
    profile = builder.create_optimization_profile()
    assert profile.extra_memory_target == 1
    profile.extra_memory_target = 0.25
    for bad in (-0.1, 1.1):
        with pytest.raises(ValueError, match="0 to 1"):
            profile.extra_memory_target = bad
    assert profile.extra_memory_target == 0.25
    assert trt.IOptimizationProfile.extra_memory_target.__doc__.startswith("Kept")


@pytest.mark.parametrize("values", [((2,), (1,), (3,)), ((1,), (1, 1), (1,))])
def test_values_out_of_order_are_runtime_errors(builder, values):
    profile = builder.create_optimization_profile()
    with pytest.raises(RuntimeError, match="AR50"):
        profile.set_shape_input("n", *values)
    assert profile.get_shape_input("n") == []
    profile.set_shape_input("n", (-3,), (0,), (3,))
    assert profile.get_shape_input("n") == [[-3], [0], [3]]


def test_a_build_makes_a_timing_cache_and_measures_nothing(builder, config):
    assert config.get_timing_cache() is None
    assert builder.build_serialized_network(passing(builder, 2), config) is not None
    assert config.get_timing_cache().queryKeys() == []


def many_rows(builder):
    """A network y = x / sum of the row, whose rows may be folded two at a time."""
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (67, 130))
    total = network.add_reduce(x, trt.ReduceOperation.SUM, 2, True).get_output(0)
    y = network.add_elementwise(x, total, trt.ElementWiseOperation.DIV).get_output(0)
    y.name = "y"
    network.mark_output(y)
    return network


@pytest.mark.parametrize("threads", [1, 2])
def test_a_build_that_measures_fills_the_timing_cache_and_gives_a_right_engine(builder, config, threads):
    config.builder_optimization_level, config.num_threads = 4, threads
    engine = builder.build_engine_with_config(many_rows(builder), config)
    (key,) = config.get_timing_cache().queryKeys()
    assert config.get_timing_cache().query(key).timingMSec > 0
    assert f"measured on {threads} threads, at most 0.2 s for a kernel:" in state_of(engine).plan.report
    x = np.arange(67 * 130, dtype=np.float32).reshape(67, 130)
    np.testing.assert_allclose(engine.run(x=x)["y"], x / x.sum(1, keepdims=True), rtol=1e-5)


def test_entries_of_a_timing_cache_are_built_whatever_their_origin(builder, config):
    config.builder_optimization_level = 4
    network = many_rows(builder)
    assert builder.build_serialized_network(network, config) is not None
    again = config.create_timing_cache(config.get_timing_cache().serialize())
    (key,) = again.queryKeys()
    other = Tuning(without=("distribute",))
    for tuning, settings in ((MODEL, None), (other, "2 without distribute")):
        again.update(key, trt.TimingCacheValue(tuning.tactic, 9.0))
        config.set_timing_cache(again, False)
        engine = builder.build_engine_with_config(network, config)
        assert dict(state_of(engine).plan.settings).get("tunings") == settings
        assert f"{tuning}, as the timing cache says" in state_of(engine).plan.report
    assert again.query(key) == trt.TimingCacheValue(other.tactic, 9.0)


def test_a_build_may_be_kept_from_the_timing_cache(builder, config):
    config.builder_optimization_level = 4
    config.set_flag(trt.BuilderFlag.DISABLE_TIMING_CACHE)
    assert builder.build_serialized_network(many_rows(builder), config) is not None
    assert config.get_timing_cache().queryKeys() == []


def test_the_number_of_variants_to_measure_reaches_the_build(builder, config):
    config.builder_optimization_level, config.max_num_tactics = 4, 1
    engine = builder.build_engine_with_config(many_rows(builder), config)
    assert "model, its only variant" in state_of(engine).plan.report
    config.reset()
    assert (config.builder_optimization_level, config.max_num_tactics) == (3, -1)


def test_a_timing_cache_that_was_set_outlives_the_build(builder, config):
    cache, key = config.create_timing_cache(b""), trt.TimingCacheKey.parse("k")
    cache.update(key, trt.TimingCacheValue(3, 0.5))
    assert config.set_timing_cache(cache, False)
    assert builder.build_serialized_network(passing(builder, 2), config) is not None
    again = config.create_timing_cache(config.get_timing_cache().serialize())
    assert again.query(key) == trt.TimingCacheValue(3, 0.5)
    config.reset()
    assert config.get_timing_cache() is None


def test_combining_timing_caches_keeps_what_is_known_already(config):
    mine, other = config.create_timing_cache(b""), config.create_timing_cache(b"")
    both, new = trt.TimingCacheKey.parse("both"), trt.TimingCacheKey.parse("new")
    mine.update(both, trt.TimingCacheValue(1, 1.0))
    other.update(both, trt.TimingCacheValue(2, 2.0))
    other.update(new, trt.TimingCacheValue(3, 3.0))
    assert mine.combine(other, True)
    assert [mine.query(k).tacticHash for k in (both, new)] == [1, 3]
    value = mine.query(new)
    value.tacticHash, value.timingMSec = 7, 0.25
    assert mine.update(new, value)
    assert (mine.query(new).tacticHash, mine.query(new).timingMSec) == (7, 0.25)
    assert mine.reset()
    assert mine.queryKeys() == []


def test_the_progress_monitor_is_dropped_by_reset(builder, config):
    class Monitor(trt.IProgressMonitor):
        def phase_start(self, phase_name, parent_phase, num_steps):
            phases.append(phase_name)

        def step_complete(self, phase_name, step):
            return True

        def phase_finish(self, phase_name):
            phases.append(f"end of {phase_name}")

    phases = []
    config.progress_monitor = Monitor()
    builder.build_serialized_network(passing(builder, 2), config)
    assert (phases.pop(0), phases.pop()) == ("Building engine", "end of Building engine")
    phases.clear()
    config.reset()
    builder.build_serialized_network(passing(builder, 3), config)
    assert phases == []


def test_a_monitor_that_raises_lets_the_build_go_on(builder, config, capsys):
    config.progress_monitor = trt.IProgressMonitor()
    assert builder.build_serialized_network(passing(builder, 2), config) is not None
    assert "must override step_complete" in capsys.readouterr().err


def test_a_network_without_mistakes_is_supported(builder, config, log):
    assert builder.is_network_supported(passing(builder, 2), config)
    assert log.lines == []
    assert not builder.is_network_supported(builder.create_network(), config)
    assert "AR401" in log.lines[0]


def test_reset_of_a_builder_drops_its_error_recorder(builder):
    builder.error_recorder = trt.IErrorRecorder()
    builder.reset()
    assert builder.error_recorder is None
