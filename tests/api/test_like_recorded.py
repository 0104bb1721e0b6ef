"""Results and return values recorded from TensorRT 10.16 on a GPU."""

import re

import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

SILENT = trt.Logger(trt.Logger.INTERNAL_ERROR)


@pytest.fixture
def builder():
    return trt.Builder(SILENT)


def run(builder, network, config=None, **feeds):
    engine = builder.build_engine_with_config(network, config or builder.create_builder_config())
    return engine.run(**feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("count", [4, 300])
def test_cast_to_uint8_wraps_above_and_keeps_to_zero_below(builder, dtype, count):
    network = builder.create_network()
    x = network.add_input("x", trt.DataType.HALF if dtype is np.float16 else trt.float32, (count,))
    network.mark_output(network.add_cast(x, trt.uint8).get_output(0))
    values = np.resize(np.array([-30, 250, 260, 290], dtype), count)
    (y,) = run(builder, network, x=values).values()
    assert y.tolist() == np.resize([0, 250, 4, 34], count).tolist()


def test_uint8_output_set_on_a_layer_wraps_as_cast_does(builder):
    network = builder.create_network()
    layer = network.add_identity(network.add_input("x", trt.float32, (4,)))
    layer.set_output_type(0, trt.uint8)
    network.mark_output(layer.get_output(0))
    (y,) = run(builder, network, x=np.float32([-30, 250, 260, 290])).values()
    assert y.tolist() == [0, 250, 4, 34]


def test_cast_of_a_constant_to_uint8_is_that_of_an_input(builder):
    network = builder.create_network()
    number = network.add_constant((4,), np.float32([-30, 250, 260, 290])).get_output(0)
    network.mark_output(network.add_cast(number, trt.uint8).get_output(0))
    (y,) = run(builder, network).values()
    assert y.tolist() == [0, 250, 4, 34]


def test_cast_to_int8_counts_steps_of_the_range_of_its_output(builder):
    network, config = builder.create_network(), builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    y = network.add_cast(network.add_input("x", trt.float32, (3,)), trt.int8).get_output(0)
    y.dynamic_range = (-300, 300)
    network.mark_output(y)
    (y,) = run(builder, network, config, x=np.float32([-300, 290, 0])).values()
    assert y.tolist() == [-127, 123, 0]


def test_deconvolution_sums_over_the_axis_before_the_kernels_axes(builder):
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (1, 1, 2, 3, 3))
    kernel = np.float32([10.0**k for k in range(4, -5, -1)])
    layer = network.add_deconvolution_nd(x, 1, (3, 3), np.append(kernel, kernel), np.zeros(1, np.float32))
    network.mark_output(layer.get_output(0))
    (y,) = run(builder, network, x=np.tile(np.arange(1, 10, dtype=np.float32), 2).reshape(x.shape)).values()
    assert y.shape == (1, 1, 1, 5, 5)
    np.testing.assert_allclose(y[0, 0, 0, 0], [20000, 42000, 64200, 6400, 600], rtol=1e-6)
    np.testing.assert_allclose(y[0, 0, 0, 2, 1:3], [174108.05, 197530.86], rtol=1e-6)


@pytest.mark.parametrize("flag", ["FP16", "BF16", "INT8", "FP8", "INT4", "FP4"])
def test_strongly_typed_network_rejects_flags_that_allow_types(flag):
    lines = Lines()
    builder = trt.Builder(lines)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    network.mark_output(network.add_identity(network.add_input("x", trt.float32, (2,))).get_output(0))
    config = builder.create_builder_config()
    assert builder.build_serialized_network(network, config) is not None
    config.set_flag(trt.BuilderFlag[flag])
    assert builder.is_network_supported(network, config) is False
    assert builder.build_serialized_network(network, config) is None
    expected = diagnostic("AR310", "build", f"BuilderFlag.{flag}", "STRONGLY_TYPED")
    assert re.search(expected, lines.errors[-1])


class Lines(trt.ILogger):
    """A logger that records lines."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.errors, self.warnings = [], []

    def log(self, severity, msg):
        if severity in (trt.ILogger.ERROR, trt.ILogger.WARNING):
            (self.errors if severity is trt.ILogger.ERROR else self.warnings).append(msg)


def test_build_without_outputs_is_an_invalid_configuration(builder):
    builder.error_recorder = recorder = Recording()
    network = builder.create_network()
    network.add_input("x", trt.float32, (2,))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert recorder.codes == [trt.ErrorCodeTRT.INVALID_CONFIG]


class Recording(trt.IErrorRecorder):
    """Records the codes of errors."""

    def __init__(self):
        trt.IErrorRecorder.__init__(self)
        self.codes = []

    def report_error(self, code, text):
        self.codes.append(code)
        return True

    def num_errors(self):
        return len(self.codes)

    def has_overflowed(self):
        return False

    def clear(self):
        self.codes.clear()


def test_defaults_of_configurations_and_contexts(builder):
    config, network = builder.create_builder_config(), builder.create_network()
    assert config.get_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806) is True
    assert config.l2_limit_for_tiling == 0
    network.mark_output(network.add_identity(network.add_input("n", trt.int32, (2,))).get_output(0))
    engine = builder.build_engine_with_config(network, config)
    assert engine.get_tensor_format_desc("n") == "Row major linear INT32 format (kLINEAR)"
    built = engine.create_runtime_config()
    strategy = trt.ExecutionContextAllocationStrategy.STATIC
    assert engine.create_execution_context().get_runtime_config() is None
    assert engine.create_execution_context(strategy).get_runtime_config() is None
    assert engine.create_execution_context(runtime_config=built).get_runtime_config() is built


def test_formats_of_a_tensor_inside_are_all_with_a_warning():
    lines = Lines()
    network = trt.Builder(lines).create_network()
    y = network.add_identity(network.add_input("x", trt.float32, (2,))).get_output(0)
    assert (y.allowed_formats, y.is_execution_tensor) == ((1 << 13) - 1, False)
    assert "allowed_formats has no effect, since this is no network input or output" in lines.warnings[0]
    network.mark_output(y)
    assert (y.allowed_formats, y.is_execution_tensor, len(lines.warnings)) == (1, True, 1)


def test_default_names_are_those_of_tensorrt(builder):
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (1, 2, 3, 4))
    best = network.add_topk(x, trt.TopKOperation.MAX, 2, 8)
    coded = network.add_dynamic_quantize(x, 3, 16, trt.fp8, trt.float32)
    names = [best.get_output(0).name, best.get_output(1).name, network.add_softmax(x).name]
    names += [coded.get_output(1).name]
    scale = network.add_constant((1, 2, 1, 1), np.ones(2, np.float32)).get_output(0)
    names += [network.add_normalization_v2(x, scale, scale, 12).name]
    names += [network.add_normalization(x, scale, scale, 12).name]
    branch = network.add_if_conditional()
    branch.set_condition(network.add_input("c", trt.bool, ()))
    names += [branch.add_output(x, network.add_identity(x).get_output(0)).get_output(0).name]
    assert [n.partition(") ")[2] for n in names] == [
        *("[TopK]_output", "[TopK]_output (1)", "[Softmax]", "[DynamicQuantize]_output_1"),
        *("[NormalizationV2]", "[Normalization]", "[Output]_output"),
    ]


def test_weights_are_shown_in_one_dimension():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert trt.Weights(values).numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert np.shares_memory(trt.Weights(values).numpy(), values)


def test_size_of_a_plugin_that_is_not_set_is_none():
    sizes = trt.DimsExprs(2)
    assert (sizes[0], sizes[1], len(sizes), list(sizes)) == (None, None, 2, [None, None])


def test_fill_takes_a_list_of_one_number(builder):
    network = builder.create_network()
    layer = network.add_fill((3,), trt.FillOperation.LINSPACE, trt.float32)
    layer.alpha, layer.beta = [1000], [np.float32(2)]
    assert (layer.alpha, layer.beta) == (1000, 2.0)
    with pytest.raises(TypeError, match="AR311"):
        layer.alpha = [1, 2]


@pytest.mark.parametrize("rank", [0, 1, 4])
def test_slice_fills_with_one_element_of_any_rank(builder, rank):
    network = builder.create_network()
    value = network.add_constant((1,) * rank, np.float32([7])).get_output(0)
    layer = network.add_slice(network.add_input("x", trt.float32, (2,)), (-1,), (4,), (1,))
    layer.mode = trt.SampleMode.FILL
    layer.set_input(4, value)
    network.mark_output(layer.get_output(0))
    (y,) = run(builder, network, x=np.float32([1, 2])).values()
    assert y.tolist() == [7, 1, 2, 7]


def test_resize_with_nothing_set_is_the_input(builder):
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (-1, 2, 3))
    layer = network.add_resize(x)
    assert layer.get_output(0).shape == (-1, 2, 3)
    network.mark_output(layer.get_output(0))
    profile, config = builder.create_optimization_profile(), builder.create_builder_config()
    profile.set_shape("x", (1, 2, 3), (1, 2, 3), (4, 2, 3))
    config.add_optimization_profile(profile)
    values = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    (y,) = run(builder, network, config, x=values).values()
    assert (y == values).all()


def test_zero_point_of_float32_zeros_is_none(builder):
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (3,))
    scale, zero = (network.add_constant((), np.float32([n])).get_output(0) for n in (0.5, 0))
    codes, back = network.add_quantize(x, scale), None
    codes.set_input(2, zero)
    back = network.add_dequantize(codes.get_output(0), scale)
    back.set_input(2, zero)
    network.mark_output(back.get_output(0))
    (y,) = run(builder, network, x=np.float32([0.2, 0.3, -7])).values()
    assert y.tolist() == [0, 0.5, -7]


def test_algorithms_are_chosen_by_numbers_of_numpy(builder):
    class First(trt.IAlgorithmSelector):
        asked = ()

        def select_algorithms(self, context, choices):
            self.asked = (*self.asked, context.name)
            return [np.int64(0)]

    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (64, 64))
    network.mark_output(network.add_softmax(x).get_output(0))
    config.algorithm_selector = selector = First()
    assert builder.build_serialized_network(network, config) is not None
    assert selector.asked == ("(Unnamed Layer* 0) [Softmax]",)


def test_recurrence_of_a_sum_whose_batches_are_open_one_by_one(builder):
    network, config = builder.create_network(), builder.create_builder_config()
    h, c = (network.add_input(n, trt.float32, (-1, 2)) for n in "hc")
    loop, turns = network.add_loop(), network.add_constant((), np.int32([3])).get_output(0)
    loop.add_trip_limit(turns, trt.TripLimit.COUNT)
    state = loop.add_recurrence(h)
    total = network.add_elementwise(state.get_output(0), c, trt.ElementWiseOperation.SUM)
    state.set_input(1, total.get_output(0))
    network.mark_output(loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0))
    profile = builder.create_optimization_profile()
    for name in "hc":
        profile.set_shape(name, (1, 2), (3, 2), (4, 2))
    config.add_optimization_profile(profile)
    (y,) = run(
        builder, network, config, h=np.ones((3, 2), np.float32), c=np.ones((3, 2), np.float32)
    ).values()
    assert y.tolist() == [[4, 4]] * 3


def of_codes(builder, network, dtype):
    """A network whose output is 4 / 2, 0.7 / 2 … as codes."""
    x = network.add_input("x", trt.float32, (1, 16))
    scale = network.add_constant((1, 1), np.float32([[2]])).get_output(0)
    layer = network.add_quantize(x, scale, dtype)
    layer.axis, layer.get_output(0).name = 1, "y"
    network.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    values = np.float32([[4, 0.7, -1.6, 3, *[0] * 12]])
    return layer.get_output(0), engine.get_tensor_dtype("y"), engine.run(x=values)["y"]


@pytest.mark.parametrize(
    ("dtype", "numbers"), [(trt.fp8, [2, 0.34375, -0.8125, 1.5]), (trt.fp4, [2, 0.5, -1, 1.5])]
)
def test_codes_leave_weakly_typed_networks_as_numbers(builder, dtype, numbers):
    tensor, reported, y = of_codes(builder, builder.create_network(), dtype)
    assert (tensor.dtype, reported, y.dtype) == (dtype, trt.float32, np.float32)
    assert y[0, :4].tolist() == numbers


@pytest.mark.parametrize(("dtype", "name"), [(trt.fp8, "float8_e4m3fn"), (trt.fp4, "float4_e2m1fn")])
def test_codes_leave_strongly_typed_networks_as_codes(builder, dtype, name):
    strong = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    tensor, reported, y = of_codes(builder, strong, dtype)
    assert (tensor.dtype, reported, y.dtype.name) == (dtype, dtype, name)
    assert y[0, 0].astype(float) == 2
