"""Winograd's minimal filtering: fewer products for windows of 3 × 3, the same results within the
error bound."""

from itertools import product

import numpy as np
import onnx
import pytest

import anyrt as trt
from anyrt.api.building.config import settings_of
from anyrt.api.building.freeze import freeze
from anyrt.compiler.bounds import bounded, differing, exact
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.compiler.verify import random_array
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.compute import Seen
from anyrt.ir.graph import Graph, Symbol, walk
from anyrt.ir.interpret import interpret
from anyrt.ir.text import parse_graph, print_graph
from anyrt.passes import passes_for
from anyrt.passes.winograd import matrices, winograd
from anyrt.plan.file import read_plan
from anyrt.prims import build as b
from anyrt.prims.const import Const, Param
from anyrt.prims.contract import Contract
from anyrt.prims.map import SELECT, Map
from anyrt.prims.mended import Mended
from anyrt.prims.scalar import SCALARS, Kind
from anyrt.prims.table import named_blobs, vocabulary
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load, verify
from tests.targets import choose

F = DataType.FLOAT
N, H, W = Sym("x.0", 1, 9), Sym("x.2", 1, 90), Sym("x.3", 1, 90)


def numbers(*shape):
    return random_array(np.random.default_rng(3), F, shape)


def convolution(shape, maps=16, size=3, border=1, stride=1, gap=1, dtype=F, weights=None, symbols=()):
    """Windows of size × size over x, padded with zeros; `weights` as (maps, channels, size, size)."""
    x, channels = b.param("x", shape, dtype), shape[1]
    padded = b.pad(x, (0, 0, border, border), (0, 0, border, border), 0.0)
    w = b.const(numbers(maps, channels, size, size), dtype) if weights is None else weights
    counts = [(d - gap * (size - 1) - 1) // stride + 1 for d in padded.shape[2:]]
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, stride, ((4, gap),)), Axis(0, 3, stride, ((5, gap),))]
    windows = b.windows(padded, axes, (*shape[:2], *counts, size, size))
    inputs = (("x", x), *((("w", w),) if isinstance(w.op, Param) else ()))
    result = tuple(Symbol(s, "x", int(s.name[-1])) for s in symbols)
    return Graph(inputs, (("y", b.contract("nchwij,kcij->nkhw", windows, w)),), {}, result)


def contractions(graph):
    return sum(isinstance(v.op, Contract) for v in walk(v for _, v in graph.outputs))


def built(graph, tiles, always=True):
    for step in passes_for(REFERENCE, tiles, always):
        graph = step.run(graph)
    return graph


@pytest.mark.parametrize("m", [2, 4])
def test_matrices_filter_a_row_exactly(m):
    inputs, weights, outputs = matrices(m)
    d, g = np.arange(1.0, m + 3) ** 2, np.array([2.0, -3.0, 5.0])
    np.testing.assert_allclose(outputs @ ((weights @ g) * (inputs @ d)), np.correlate(d, g), rtol=1e-13)


@pytest.mark.parametrize("m", [2, 4])
def test_transforms_of_tiles_are_exact_in_float32(m):
    inputs, _, outputs = matrices(m)
    for matrix in (np.kron(inputs, inputs), np.kron(outputs, outputs)):
        np.testing.assert_array_equal(matrix, matrix.astype(np.float32))


SHAPES = [
    ((1, 16, 8, 8), 1),
    ((2, 17, 7, 9), 1),
    ((1, 16, 5, 3), 0),
    ((1, 16, 6, 70), 2),
    ((3, 18, 9, 67), 1),
]


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize(("shape", "border"), SHAPES)
def test_odd_sizes_batches_and_borders_have_the_same_sums(shape, border, m):
    graph, x = convolution(shape, 19, border=border), numbers(*shape)
    after = winograd(graph, (m,), always=True)
    assert contractions(after) == 3
    expected, got = (interpret(g, {"x": x})["y"] for g in (graph, after))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("m", [2, 4])
def test_open_sizes_have_whole_tiles_at_each_size(m):
    graph = convolution((N.dim, 16, H.dim, W.dim), symbols=(N, H, W))
    after = winograd(graph, (m,), always=True)
    assert contractions(after) == 3
    for shape in ((1, 16, 1, 1), (2, 16, 8, 13)):
        x = numbers(*shape)
        expected, got = (interpret(g, {"x": x})["y"] for g in (graph, after))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    "value",
    [
        {"stride": 2},
        {"gap": 2},
        {"size": 5, "border": 2},
        {"maps": 15},
        {"shape": (1, 15, 8, 8)},
        {"dtype": DataType.HALF},
        {"weights": b.param("w", (16, 16, 3, 3), F)},
    ],
    ids=lambda value: next(iter(value)),
)
def test_other_windows_stay_as_they_are(value):
    graph = convolution(**{"shape": (1, 16, 8, 8), **value})
    assert winograd(graph, always=True) is graph


@pytest.mark.parametrize("worst", [np.inf, np.nan, 3.4e38])
def test_weights_that_are_large_or_no_numbers_stay_as_they_are(worst):
    weights = np.ones((16, 16, 3, 3))
    weights[3, 2, 1, 0] = worst
    graph = convolution((1, 16, 8, 8), weights=b.const(weights, F))
    assert winograd(graph, always=True) is graph


def test_groups_stay_as_they_are():
    x = b.param("x", (1, 32, 10, 10), F)
    axes = [Axis(0, 0), Axis(0, 1, 16, ((2, 1),)), Axis(0, 3, 1, ((5, 1),)), Axis(0, 4, 1, ((6, 1),))]
    windows = b.windows(x, axes, (1, 2, 16, 8, 8, 3, 3))
    y = b.contract("ngchwij,gkcij->ngkhw", windows, b.const(numbers(2, 16, 16, 3, 3), F))
    graph = Graph((("x", x),), (("y", y),))
    assert winograd(graph, always=True) is graph


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "maps", "places"),
    [
        ((1, 128, 64, 64), 128, 36),
        ((1, 64, 56, 56), 64, 36),
        ((1, 1024, 16, 16), 1024, 16),
        ((1, 512, 7, 7), 512, 0),
        ((1, 32, 9, 9), 32, 0),
    ],
)
def test_the_least_work_decides(shape, maps, places):
    after = winograd(convolution(shape, maps, weights=None))
    transformed = [v for v in walk(v for _, v in after.outputs) if isinstance(v.op, Const)]
    assert (places == 0) == (contractions(after) == 1)
    assert places == 0 or any(v.op.blob.size == places * shape[1] * maps for v in transformed)


@pytest.mark.parametrize(("size", "sums"), [(64, 3), (3, 1)])
def test_open_sizes_count_as_the_usual_ones(size, sums):
    graph = convolution((N.dim, 128, H.dim, W.dim), 128, symbols=(N, H, W))
    after = winograd(graph, usual={"x.0": 1, "x.2": size, "x.3": size})
    assert contractions(after) == sums


def test_open_sizes_that_nobody_knows_leave_the_sum():
    graph = convolution((N.dim, 128, H.dim, W.dim), 128, symbols=(N, H, W))
    assert winograd(graph) is graph


def test_an_engine_for_open_images_takes_fewer_products_where_the_usual_ones_do():
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (1, 64, -1, -1))
    network.mark_output(network.add_convolution_nd(x, 64, (3, 3), numbers(64, 64, 3, 3)).get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 64, 8, 8), (1, 64, 66, 66), (1, 64, 70, 70))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert read_plan(bytes(plan)).plan.graph_text.count("= Contract(") == 3


@pytest.mark.sampled(9)
@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize(("shape", "border"), SHAPES)
@pytest.mark.parametrize("cpu", [None, "avx2"])
def test_kernels_compute_what_the_interpreter_does(shape, border, m, cpu):
    graph = built(convolution(shape, 33, border=border), (m,))
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}))
    assert [str(x) for x in verify(lowered, choose(cpu), [{}])] == []


def test_open_sizes_are_verified_too():
    graph = built(convolution((N.dim, 16, H.dim, W.dim), symbols=(N, H, W)), (2,))
    sizes = [{"x.0": n, "x.2": h, "x.3": w} for n, h, w in ((1, 1, 1), (2, 7, 12), (1, 32, 50))]
    lowered = native.lower(graph, constant_offsets(graph), Sizes(sizes[1]))
    assert [str(x) for x in verify(lowered, choose(None), sizes)] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tiles", ["F(2,3)", "F(4,3)"])
@pytest.mark.parametrize("shape", [(1, 16, 16, 64), (1, 64, 28, 28)])
def test_errors_stay_within_the_bound_of_the_sum_itself(shape, tiles):
    graph, x = convolution(shape, 32), numbers(*shape)
    ((_, y),) = graph.outputs
    view, w = y.args
    windows = interpret(Graph(graph.inputs, (("y", view),)), {"x": x})["y"]
    expected = bounded(y, (exact(windows, F), exact(w.op.blob.data.reshape(w.shape), F)), {})
    got = engine(shape, w.op.blob.data, tiles).run(x=x)["y"]
    assert not differing(got, expected, F).any()


@pytest.mark.parametrize("tiles", ["F(2,3)", "F(4,3)"])
@pytest.mark.parametrize("size", [2.0**-60, 1e-3, 1.0, 2.0**44, 1e20])
@pytest.mark.parametrize("largest", [2.0**63.9, 3.4e38])
def test_the_largest_inputs_overflow_where_their_sum_does(tiles, size, largest):
    """Weights of all magnitudes; the sums of each map are at most as large as an input. Some inputs are in
    the range of tiles, others are not."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-largest, largest, (1, 16, 9, 20)) / max(1.0, size * largest / 3.4e38)
    w = rng.standard_normal((24, 16, 3, 3)) * size
    w *= np.exp2(-rng.integers(8, 40, (24, 1, 1, 1)))
    x, w = x.astype(np.float32), w.astype(np.float32)
    y = engine(x.shape, w, tiles).run(x=x)["y"]
    expected, most = summed(x, w), summed(np.abs(x), np.abs(w)).max((0, 2, 3), keepdims=True)
    assert np.isfinite(y).all()
    assert (np.abs(y - expected) / most).max() < 2e-5


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (3, 4), (5, 15), (8, 7), (12, 69)])
@pytest.mark.parametrize("tiles", ["F(2,3)", "F(4,3)"])
@pytest.mark.parametrize("width", [17, 70])
def test_nan_and_infinities_reach_exactly_the_windows_that_hold_them(width, tiles, place, value):
    x, w = (numbers(*s).astype(np.float32) for s in ((2, 16, 13, width), (20, 16, 3, 3)))
    x[1, 5, place[0], min(place[1], width - 1)] = value
    got, expected = (engine(x.shape, w, t).run(x=x)["y"] for t in (tiles, "off"))
    assert 4 * 20 <= (~np.isfinite(expected)).sum() <= 9 * 20
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(got) * np.sign(got), np.isinf(expected) * np.sign(expected))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("after", trt.ActivationType.__members__.values(), ids=str)
def test_no_activation_hides_what_is_to_be_mended(after):
    x, w = (numbers(*s).astype(np.float32) for s in ((1, 16, 13, 37), (20, 16, 3, 3)))
    x[0, 3, 5, 9], x[0, 2, 8, 33] = np.nan, -np.inf
    got, expected = (engine(x.shape, w, tiles, after).run(x=x)["y"] for tiles in ("F(4,3)", "off"))
    agree(got, expected)


def agree(got, expected):
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(
        got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected[np.isfinite(expected)]).max()
    )


@pytest.mark.parametrize("fn", sorted({*SCALARS} - {"to_fp4", "to_fp8", "to_e8m0", "select"}))
def test_results_of_functions_for_nan_are_as_declared(fn):
    scalar, results = SCALARS[fn], set()
    if not scalar.kinds & {Kind.FLOAT, Kind.DOUBLE}:
        return
    for k in range(scalar.arity):
        others = product((0.0, 1.0, -2.0, np.inf, -np.inf, np.nan), repeat=scalar.arity - 1)
        operands = np.float32([(*rest[:k], np.nan, *rest[k:]) for rest in others]).T
        with np.errstate(all="ignore"):
            results |= {str(y) for y in np.asarray(scalar.ref(*operands))}
    one = {"nan": Seen.NAN, "True": Seen.YES, "False": Seen.NO}.get(min(results), Seen.ANY)
    known = Map(fn, F).compute().of_nan([Seen.NAN, Seen.ANY, Seen.ANY][: scalar.arity])
    assert known is (one if len(results) == 1 else Seen.ANY)


@pytest.mark.parametrize("condition", list(Seen))
def test_of_two_choices_nan_is_known_where_it_is_chosen_whatever_the_condition(condition):
    select = Map(SELECT, F).compute().of_nan
    assert select((condition, Seen.NAN, Seen.NAN)) is Seen.NAN
    assert (select((condition, Seen.NAN, Seen.ANY)) is Seen.NAN) == (condition is Seen.YES)
    assert (select((condition, Seen.ANY, Seen.NAN)) is Seen.NAN) == (condition is Seen.NO)


def test_bools_are_known_as_far_as_they_are_decided():
    known = {fn: Map(fn, DataType.BOOL).compute().of_nan for fn in ("and", "or", "not")}
    assert known["and"]((Seen.NO, Seen.ANY)) is known["not"]((Seen.YES,)) is Seen.NO
    assert known["or"]((Seen.ANY, Seen.YES)) is known["and"]((Seen.YES, Seen.YES)) is Seen.YES
    assert known["and"]((Seen.YES, Seen.ANY)) is known["or"]((Seen.NO, Seen.ANY)) is Seen.ANY


def network(operator, attributes, inputs=()):
    """A convolution of 128 maps, followed by the operator of this ONNX name."""
    f, w = onnx.TensorProto.FLOAT, np.ones((128, 128, 3, 3), np.float32)
    initializers = [onnx.numpy_helper.from_array(np.float32(x), f"c{k}") for k, x in enumerate(inputs)]
    initializers += [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(w[:, 0, 0, 0], "b")]
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w", "b"], ["s"], pads=[1, 1, 1, 1]),
        onnx.helper.make_node(operator, ["s", *(f"c{k}" for k in range(len(inputs)))], ["y"], **attributes),
    ]
    ends = [[onnx.helper.make_tensor_value_info(n, f, (1, 128, 28, 28))] for n in "xy"]
    graph = onnx.helper.make_graph(nodes, "conv", *ends, initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10)
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network()
    assert trt.OnnxParser(network, trt.Logger(trt.Logger.ERROR)).parse(model.SerializeToString())
    return freeze(network, (), settings_of(builder.create_builder_config())).graph


AFTER = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "Elu", "Selu", "Celu", "Softplus", "Softsign"), ({},)),
    **dict.fromkeys(("LeakyRelu", "HardSigmoid", "HardSwish", "Mish", "Gelu", "Abs", "Erf", "Sin"), ({},)),
    "PRelu": ({}, np.full((128, 1, 1), 0.25)),
    "Clip": ({}, -1.0, 1.0),
    "Pow": ({}, 2.0),
}


@pytest.mark.parametrize("after", AFTER)
def test_functions_that_propagate_nan_are_computed_in_the_kernel_of_the_convolution(after):
    attributes, *inputs = AFTER[after]
    kinds = kinds_of(network(after, attributes, inputs))
    assert kinds == ["map", "map", *["contraction"] * 3, "mend"]


@pytest.mark.parametrize("after", ["ThresholdedRelu", "Shrink"])
def test_functions_that_hide_nan_are_a_separate_kernel(after):
    assert kinds_of(network(after, {})) == ["map", "map", *["contraction"] * 3, "mend", "map"]


@pytest.mark.parametrize("after", trt.ActivationType.__members__.values(), ids=str)
def test_an_activation_is_computed_in_the_kernel_of_the_convolution(after):
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    result = described(builder, (1, 128, 28, 28), np.ones((128, 128, 3, 3), np.float32), after)
    kinds = kinds_of(freeze(result, (), settings_of(builder.create_builder_config())).graph)
    apart = ["map"] if after is trt.ActivationType.THRESHOLDED_RELU else []
    assert kinds == ["map", "map", *["contraction"] * 3, "mend", *apart]


def kinds_of(graph):
    graph = built(graph, (4,))
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE)
    return [launch.kind for launch in lowered.schedules[0].launches]


def summing(x, maps=16):
    """A convolution with padding of one element; all weights are equal."""
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
    padded = b.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), 0.0)
    windows = b.windows(padded, axes, (*x.shape, 3, 3))
    return b.contract("nchwij,kcij->nkhw", windows, b.const(numbers(maps, x.shape[1], 3, 3), F))


def test_one_that_chooses_by_elements_elsewhere_is_a_kernel_of_its_own():
    sums = summing(b.param("x", (1, 16, 9, 20), F))
    turned, zero = b.slice_(sums, (0, 0, 8, 0), sums.shape, (1, 1, -1, 1)), b.scalar(0.0, sums)
    twice = b.map_("add", sums, sums)
    for chosen, apart in ((sums, False), (turned, True)):
        y = b.map_("select", b.map_("lt", chosen, zero), sums, twice)
        graph = built(Graph((("x", b.param("x", (1, 16, 9, 20), F)),), (("y", y),)), (4,))
        stored = native.lower(graph, constant_offsets(graph), Sizes({})).schedules[0].buffers
        assert any(isinstance(v.op, Mended) for v in stored) == apart


def test_a_border_and_pieces_are_mended_where_they_lie():
    x = b.param("x", (1, 16, 9, 20), F)
    first = b.map_("max", summing(x), b.scalar(0.0, x))
    y = b.concat([summing(first), summing(first, 17)], 1)
    plain = Graph((("x", x),), (("y", y),))
    graph = built(plain, (4,))
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}))
    mends = [launch.group for launch in lowered.schedules[0].launches if launch.group.mends]
    assert [group.part is not None for group in mends] == [True, True, True]
    values = numbers(*x.shape)
    values[0, 3, 5, 9], values[0, 2, 8, 1] = np.nan, -np.inf
    trial, ends = Trial(load(lowered, choose(None)), {}), {b.name: b for b in lowered.module.places}
    trial.write(ends["in_x"], values, F)
    trial.run()
    agree(trial.read(ends["out_y"], F, y.shape), interpret(plain, {"x": values})["y"])


@pytest.mark.parametrize("tiles", ["F(2,3)", "F(4,3)"])
@pytest.mark.parametrize("power", [-80, -110])
def test_small_numbers_keep_their_digits(power, tiles):
    x, w = (numbers(*s).astype(np.float32) for s in ((1, 16, 8, 8), (16, 16, 3, 3)))
    plain, small = engine(x.shape, w, tiles), np.float32(2.0**power)
    np.testing.assert_array_equal(plain.run(x=x * small)["y"], plain.run(x=x)["y"] * small)


def chain(shape, weights, tiles, joined=False, threads=0):
    """Convolutions with padding of one element, in sequence: the intermediate result has its channels
    innermost, so neither transform has loops. `joined`: the last kernel also computes biases, the first
    layer's result and an activation."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = builder.create_network(), builder.create_builder_config()
    config.winograd, config.num_threads = tiles, threads or config.num_threads
    tensors = [network.add_input("x", trt.float32, shape)]
    for w in weights:
        bias = numbers(len(w)).astype(np.float32)
        layer = network.add_convolution_nd(tensors[-1], len(w), (3, 3), w, bias if joined else None)
        layer.padding_nd = (1, 1)
        tensors.append(layer.get_output(0))
    y = tensors[-1]
    if joined:
        y = network.add_elementwise(y, tensors[-2], trt.ElementWiseOperation.SUM).get_output(0)
        y = network.add_activation(y, trt.ActivationType.RELU).get_output(0)
    y.name = "y"
    network.mark_output(y)
    plan = builder.build_serialized_network(network, config)
    return trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)


OVERFLOWING = {
    "channels": ((1, 64, 56, 56), {}),
    "more channels": ((1, 128, 28, 28), {}),
    "batch": ((2, 32, 20, 20), {"threads": 2}),
    "columns": ((1, 32, 12, 70), {"threads": 2}),
    "joined": ((2, 32, 20, 20), {"joined": True, "threads": 1}),
    "joined columns": ((1, 32, 12, 70), {"joined": True}),
}


@pytest.mark.parametrize("kind", OVERFLOWING)
@pytest.mark.parametrize("tiles", ["F(2,3)", "F(4,3)"])
@pytest.mark.parametrize("layer", [0, 1])
def test_where_one_map_overflows_no_other_sum_does(kind, tiles, layer):
    """One map whose weights are 1e9 times as large, with an input of 3e38, in the first or second layer."""
    shape, values = OVERFLOWING[kind]
    x, weights = numbers(*shape), [numbers(shape[1], shape[1], 3, 3) / 50 for _ in range(2)]
    x[-1, 3, shape[2] // 2, shape[3] // 2] = 3e38
    weights[layer][31] *= 1e9
    x, weights = x.astype(np.float32), [w.astype(np.float32) for w in weights]
    got, expected = (chain(shape, weights, t, **values).run(x=x)["y"] for t in (tiles, "off"))
    is_number = np.isfinite(expected)
    assert 0.4 < is_number.mean() < 1
    np.testing.assert_array_equal(np.isfinite(got), is_number)
    inner = summed(np.abs(x), np.abs(weights[0]))
    most = 1 + inner + summed(inner, np.abs(weights[1]))
    assert (np.abs(got[is_number] - expected[is_number]) <= 1e-5 * most[is_number]).all()


def two(size, tiles):
    """Two convolutions, and their weights."""
    weights = [numbers(n, c, 3, 3).astype(np.float32) for n, c in ((32, 16), (16, 32))]
    return chain((1, 16, *size), weights, tiles), weights


@pytest.mark.parametrize("tiles", ["F(2,3)", "F(4,3)"])
@pytest.mark.parametrize("size", [(8, 12), (7, 14), (3, 5)])
@pytest.mark.parametrize("most", [2.0**-40, 1.0, 2.0**100])
def test_transforms_without_loops_are_as_near_float64_as_their_bound(size, tiles, most):
    engine, (first, second) = two(size, tiles)
    x = np.random.default_rng(1).uniform(-most, most, (1, 16, *size)).astype(np.float32)
    expected = summed(summed(x, first), second)
    grown = summed(summed(np.abs(x), np.abs(first)), np.abs(second))
    assert (np.abs(engine.run(x=x)["y"] - expected) / grown.max()).max() < 4e-6


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (3, 4), (6, 13), (5, 9)])
def test_nan_passes_through_transforms_without_loops(place, value):
    x = numbers(1, 16, 7, 14).astype(np.float32)
    x[0, 5, place[0], place[1]] = value
    got, expected = (two((7, 14), tiles)[0].run(x=x)["y"] for tiles in ("F(4,3)", "off"))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(got) * np.sign(got), np.isinf(expected) * np.sign(expected))


def summed(x, w):
    """The convolution in float64, with padding of one element."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,kcij->nkhw", windows, w.astype(np.float64), optimize=True)


def engine(shape, weights, tiles, after=None):
    """A convolution with padding of one element, followed by an activation."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = described(builder, shape, weights, after), builder.create_builder_config()
    config.winograd = tiles
    plan = builder.build_serialized_network(network, config)
    return trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)


def described(builder, shape, weights, after=None):
    network = builder.create_network()
    x = network.add_input("x", trt.float32, shape)
    layer = network.add_convolution_nd(x, weights.size // (9 * shape[1]), (3, 3), weights)
    layer.padding_nd = (1, 1)
    last = layer if after is None else network.add_activation(layer.get_output(0), after)
    last.get_output(0).name = "y"
    network.mark_output(last.get_output(0))
    return network


def test_each_transform_is_one_kernel_and_the_last_one_has_the_rest():
    x = convolution((1, 64, 32, 64), 64)
    ((_, y),) = x.outputs
    bias = b.expand(b.const(numbers(64, 1, 1), F), y.shape)
    relu = b.map_("max", b.map_("add", y, bias), b.scalar(0.0, y))
    graph = built(Graph(x.inputs, (("y", relu),)), (4,))
    schedule = native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE).schedules[0]
    kinds = [launch.kind for launch in schedule.launches if launch.kind != "map"]
    assert kinds == ["contraction", "contraction", "contraction", "mend"]


def test_the_graph_reads_back_from_its_text():
    graph = built(convolution((1, 16, 9, 9)), (4,))
    words = vocabulary(named_blobs(graph))
    assert print_graph(parse_graph(print_graph(graph, words), words), words) == print_graph(graph, words)


def test_the_pass_changes_nothing_where_it_is_switched_off():
    graph = convolution((1, 128, 64, 64), 128)
    assert winograd(graph, ()) is graph
