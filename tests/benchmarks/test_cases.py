"""The benchmark cases are well-formed: names, shapes, the table of required rows, the reference."""

import doctest

import numpy as np
import pytest

from benchmarks import leads, record, steps, table
from benchmarks.layers import arrays, formula, reference, spellings, taps
from benchmarks.layers.cases import ALL, CASES, SPELLED, TINY, Case, Layer, traffic
from benchmarks.layers.formula import Formula, Line, Number, Op, Weights, evaluate, shapes_of
from benchmarks.layers.goals import GOALS, SPECIAL
from benchmarks.layers.taps import table as taps_of
from benchmarks.registry import CROWDED
from benchmarks.steps import (
    Cast,
    Dequantize,
    Element,
    Grid,
    Mode,
    Norm,
    Quantize,
    Reach,
    Reshape,
    Resize,
    Rounding,
    Scale,
    Silu,
    Statistics,
    Tensor,
    Transpose,
    infer,
    types,
)
from benchmarks.values import constant_values, input_values, norm_values, scale_values

F32 = Element.F32
# The rows that issue 3 lists with the best time of other programs.
REQUIRED = """
scale_u_8x64x112x112 scale_c_8x64x112x112 scale_c_pow1.7_8x64x112x112 scale_e_8x64x112x112
scale_c_1x3x224x224 scale_u_pow2_1x3x224x224 scale_c_f16_8x64x112x112 scale_c_bf16_8x64x112x112
scale_c_i8qdq_8x64x112x112 resize_nearest2x_1x320x64x64 resize_bilinear_hp_1x3x224to320
resize_bilinear_hp_8x64x56to112 resize_bilinear_hp_1080p_to640_u8_nhwc resize_bicubic_hp_1x3x224to320
resize_trilinear_hp_1x32x16x56x56_2x resize_bilinear_hp_f16_8x64x56to112
resize_bilinear_hp_bf16_8x64x56to112 shuffle_nchw2nhwc_8x64x112x112 shuffle_nhwc2nchw_8x112x112x64
shuffle_nchw2nhwc_1x3x224x224 shuffle_heads_8x128x12x64 shuffle_pixelshuffle2_1x256x64x64 shuffle_t2d_4096
shuffle_t2d_bf16_4096 shuffle_t2d_512 shuffle_u8_hwc2chw_1080p norm_ln_8x512x768 norm_ln_f16_8x512x768
norm_rms_1x512x4096 norm_gn32_2x320x64x64 norm_gn32_bf16_2x320x64x64 norm_in_4x64x128x128
chain_preproc_1080p_rst chain_preproc_1080p_trs chain_preproc_1080p_u8resize
chain_gn_scale_silu_resize2x_nhwc_1x320x64x64 chain_ln_scale_heads_8x128x768
"""


def test_every_row_of_the_comparison_with_peers_is_a_case():
    assert set(REQUIRED.split()) <= {c.name for c in CASES}


def test_names_are_unique_and_every_layer_has_a_goal():
    assert len({c.name for c in ALL}) == len(ALL)
    assert {c.layer.value for c in ALL} == set(GOALS)
    assert {*SPECIAL, *CROWDED} <= {c.name for c in CASES}


def test_other_spellings_are_beside_the_cases_and_write_each_part_in_each_way():
    assert len(CASES) == 146
    assert Layer.SPELLED not in {c.layer for c in CASES}
    assert {c.layer for c in SPELLED} == {Layer.SPELLED}
    words = [set(c.name.split("_")) for c in SPELLED]
    for kind, others in {
        "rms": "mul pow powfull avg sum sqrt pow0.5 pow-0.5 recip bf16",
        "ln": "mul pow powfull avg sum sqrt pow0.5 pow-0.5 recip f16 twice",
        "var": "mul pow avg sum f16 twice",
    }.items():
        assert set(others.split()) <= set().union(*(w for w in words if kind in w))


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_shapes_go_through_all_steps(case):
    result = types(case.steps, case.input)[-1]
    read, written = traffic(case)
    assert written == result.nbytes > 0
    assert 0 < read <= case.input.nbytes + 2 * 4 * max(result.nbytes, case.input.nbytes)


def test_an_engine_of_several_shapes_has_a_case_for_each():
    families = {c.dynamic for c in CASES if c.dynamic}
    assert len(families) >= 5
    for shapes in families:
        assert len(shapes) == 3
        assert {c.input.shape for c in CASES if c.dynamic == shapes} == set(shapes)


def test_nearest_reads_only_the_rows_that_it_needs():
    case = Case("", Layer.RESIZE, Tensor((1, 8, 8, 4), Element.U8), (Resize(Mode.NEAREST, (1, 2, 4, 4)),))
    assert traffic(case) == (64, 32)


def test_reshape_copies_and_infers_sizes():
    assert infer(Reshape((0, -1, 2)), Tensor((3, 4, 5), F32)).shape == (3, 10, 2)


def test_taps_of_each_rounding():
    def nearest(rounding):
        return taps_of(Resize(Mode.NEAREST, grid=Grid.ASYMMETRIC, rounding=rounding), 3, 6)[0].T.tolist()[0]

    assert nearest(Rounding.FLOOR) == [0, 0, 1, 1, 2, 2]
    assert nearest(Rounding.CEIL) == [0, 1, 1, 2, 2, 2]
    assert nearest(Rounding.HALF_UP) == [0, 1, 1, 2, 2, 2]
    assert nearest(Rounding.HALF_DOWN) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("grid", list(Grid))
@pytest.mark.parametrize("mode", [Mode.LINEAR, Mode.CUBIC])
def test_weights_sum_to_one(mode, grid):
    assert np.allclose(taps_of(Resize(mode, grid=grid), 7, 11)[1].sum(1), 1)


def run(steps, x):
    x = np.asarray(x)
    case = Case("", Layer.CHAIN, Tensor(x.shape, Element(x.dtype.name)), steps)
    return reference.run(case, x)


def test_reference_of_scale_is_the_formula():
    x = np.full((1, 2, 1, 1), 0.5, np.float32)
    step = Scale(Reach.CHANNEL, power=2.0)
    scale, shift = scale_values(step, x.shape)
    assert run((step,), x) == pytest.approx((0.5 * scale + shift) ** 2)


def test_reference_of_resize_interpolates():
    x = np.float32([[[0, 1], [2, 3]]])
    assert run((Resize(Mode.LINEAR, (1, 2, 4)),), x)[0, 0].tolist() == [0, 0.25, 0.75, 1]


@pytest.mark.parametrize("kind", list(Statistics))
def test_reference_of_normalization_has_mean_of_bias(kind):
    x = np.random.default_rng(1).random((2, 4, 3, 5)).astype(np.float32)
    step = Norm(kind, groups=2)
    scale, bias = norm_values(step, x.shape)
    y = run((step,), x) / scale - (0 if kind is Statistics.RMS else bias / scale)
    axes = {Statistics.LAYER: 3, Statistics.RMS: 3, Statistics.INSTANCE: (2, 3)}.get(kind, (2, 3))
    if kind is Statistics.GROUP:
        y, axes = y.reshape(2, 2, -1), 2
    assert np.square(y).mean(axes) == pytest.approx(1, abs=1e-3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", SPELLED, ids=lambda c: c.name)
def test_every_spelling_means_the_same(case):
    x = np.random.default_rng(1).random((2, 3, case.input.shape[-1])).astype(np.float32)
    (step,) = (s for s in case.steps if isinstance(s, Formula))
    scale, bias = (a.astype(np.float64) for a in norm_values(Norm(Statistics.LAYER), x.shape))
    wide = x.astype(np.float64)
    centred = wide if "_rms_" in case.name else wide - wide.mean(-1, keepdims=True)
    variance = np.square(centred).mean(-1, keepdims=True)
    normal = centred / np.sqrt(variance + 1e-5) * scale
    expected = {"rms": normal, "ln": normal + bias, "var": variance}[case.name.split("_")[1]]
    assert run((step,), x) == pytest.approx(expected, rel=1e-5, abs=1e-6)


FORMULA = Formula(
    (
        Line("total", Op.TOTAL, ("x",)),
        Line("part", Op.DIV, ("x", "total")),
        Line("y", Op.MUL, ("part", Number(3.0))),
    )
)


def test_a_formula_is_computed_line_by_line_and_each_line_once():
    names = []

    def apply(line, operands):
        names.append(line.name)
        return f"{line.op.value}({', '.join(operands)})"

    assert evaluate(FORMULA, "x", lambda c: f"{c.value:g}", apply) == "mul(div(x, total(x)), 3)"
    assert names == ["total", "part", "y"]
    assert shapes_of(FORMULA, (2, 5)) == {"total": (2, 1), "part": (2, 5), "y": (2, 5)}


def test_constants_of_formulas_have_as_many_axes_as_they_say():
    shapes = {Number(2.0): (), Number(2.0, full_rank=True): (1, 1, 1), Weights.BIAS: (4,)}
    assert {c: constant_values(c, (2, 3, 4)).shape for c in shapes} == shapes


def test_a_formula_reads_its_weights_and_writes_what_it_leaves():
    (ln,) = (c for c in SPELLED if c.name == "spelled_ln_pow_avg_sqrt_8x512x768")
    (var,) = (c for c in SPELLED if c.name == "spelled_var_mul_avg_8x512x768")
    size = 4 * 8 * 512 * 768
    assert traffic(ln) == (size + 2 * 4 * 768, size)
    assert traffic(var) == (size, 4 * 8 * 512)


def test_integers_between_steps_are_rounded_and_results_are_not():
    x = np.uint8([[[0, 1], [2, 3]]])
    half = Resize(Mode.LINEAR, (1, 1, 2))
    assert run((half,), x).tolist() == [[[1.0, 2.0]]]
    assert run((Resize(Mode.LINEAR, (1, 2, 4)),), x)[0, 0].tolist() == [0, 0.25, 0.75, 1]
    assert run((Resize(Mode.LINEAR, (1, 2, 4)), Cast(F32)), x)[0, 0].tolist() == [0, 0, 1, 1]


def test_quantised_codes_saturate():
    x = np.int8([[[-128, 0, 100]]])
    assert run((Dequantize(0.5), Quantize(0.25)), x).tolist() == [[[-128, 0, 127]]]


def test_error_is_in_ulp_and_catches_mistakes():
    case = Case("", Layer.CHAIN, Tensor((2,), F32), (Silu(),))
    expected = np.array([1.0, 1.0])
    assert reference.error(case, expected, np.float32([1.0, 1.0 + 2**-23])) == (1.0, True)
    assert reference.error(case, expected, np.float32([1.0, np.nan]))[1] is False
    assert reference.error(case, expected, np.float32([1.0, 1.1]))[1] is False
    assert reference.error(case, expected, np.float64([1.0, 1.0]))[1] is False


def test_coefficients_are_numbers_that_bfloat16_holds():
    step = Scale(Reach.ELEMENTWISE)
    for array in scale_values(step, (1, 3, 4, 5)):
        assert (array.astype(Element.BF16.numpy).astype(np.float32) == array).all()


def test_input_begins_at_a_page_and_is_the_same_each_time():
    tensor = Tensor((3, 5), Element.BF16)
    a, b = (input_values(tensor, -1, 1) for _ in range(2))
    assert a.ctypes.data % 4096 == 0
    assert (a == b).all()
    assert a.dtype == Element.BF16.numpy


def test_the_smallest_network_is_small():
    assert types(TINY.steps, TINY.input)[-1].shape == (1, 1, 3, 3)


def test_transposing_back_and_forth_is_nothing():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert (run((Transpose((2, 0, 1)), Transpose((1, 2, 0))), x) == x).all()


@pytest.mark.parametrize(
    "module", [arrays, formula, leads, record, spellings, steps, table, taps], ids=lambda m: m.__name__
)
def test_examples_in_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0
