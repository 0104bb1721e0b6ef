"""Invalid quantized weights: an error with a code that names the node, or the right outputs.

In every spelling: DequantizeLinear with blocks along either axis before MatMul, Gemm and Gather, and the INT4
layers that TensorRT's own tools write. test_few_bits.py tests the mistakes that only MatMulNBits can have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

from anyrt.core.errors import AnyrtError
from anyrt.onnx.backend import prepare

K, N, SIZE, ROWS = 64, 48, 32, 3
INT4, UINT4 = ml_dtypes.int4, ml_dtypes.uint4
X = np.random.default_rng(1).standard_normal((ROWS, K)).astype(np.float32)
AT = np.array([[3, 0], [63, 31]], np.int64)


@dataclass(frozen=True)
class Coded:
    """Codes of shape (K, N), with scales and zero points for blocks of `size` along `axis`."""

    kind: type = INT4
    size: int = SIZE
    axis: int = 0
    tail: str = "MatMul"
    trt: bool = False

    @property
    def arrays(self):
        rng, (low, high) = np.random.default_rng(2), (0, 16) if self.kind in (UINT4, np.uint8) else (-8, 8)
        few = (K // SIZE, N) if self.axis == 0 else (K, N // 16)
        return {
            "c": rng.integers(low, high, (K, N)).astype(self.kind),
            "s": rng.uniform(0.1, 1, few).astype(np.float32),
            "z": rng.integers(low, high, few).astype(self.kind),
        }

    @property
    def wide(self):
        return self.size if self.axis == 0 else self.size // 2

    def run(self, inputs, **attributes):
        name, domain = ("TRT_INT4DequantizeLinear", "trt") if self.trt else ("DequantizeLinear", "")
        more = {"axis": self.axis, "block_size": self.wide} | attributes
        order = [n for n in ("c", "s", "z") if n in inputs]
        coded = helper.make_node(name, order, ["w"], "codes", domain=domain, **more)
        x, reads = (AT, ["w", "x"]) if self.tail == "Gather" else (X, ["x", "w"])
        nodes = [coded, helper.make_node(self.tail, reads, ["y"])]
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", kind, x.shape)],
            [helper.make_empty_tensor_value_info("y")],
            [numpy_helper.from_array(a, n) for n, a in inputs.items()],
        )
        sets = [helper.make_opsetid(d, v) for d, v in (("", 21), ("trt", 1))]
        return prepare(helper.make_model(graph, opset_imports=sets)).run({"x": x})[0]

    def expected(self, inputs):
        """The outputs in float64."""

        def each(a):
            return np.repeat(a.astype(np.float64), self.wide, self.axis)[:K, :N]

        zero = each(inputs["z"]) if "z" in inputs else 0
        real = (inputs["c"].astype(np.float64) - zero) * each(inputs["s"])
        return real[AT] if self.tail == "Gather" else X.astype(np.float64) @ real


SPELLINGS = {
    f"{'trt' if trt else 'onnx'} {tail} axis {axis}": Coded(axis=axis, tail=tail, trt=trt)
    for trt in (False, True)
    for tail in ("MatMul", "Gemm", "Gather")
    for axis in (0, 1)
}
spelled = pytest.mark.parametrize("coded", SPELLINGS.values(), ids=SPELLINGS)


def agrees(coded, inputs, **attributes):
    expected = coded.expected(inputs)
    np.testing.assert_allclose(
        coded.run(inputs, **attributes), expected, rtol=1e-5, atol=1e-4, equal_nan=True
    )


def refused(code, words, coded, inputs, **attributes):
    """Check that the error has this code, and names the node and all these words."""
    with pytest.raises(AnyrtError) as error:
        coded.run(inputs, **attributes)
    message = str(error.value)
    assert code in message, message
    assert all(word in message for word in ("codes", *words)), message


# ---- numbers of blocks ----------------------------------------------------------------------------


@spelled
@pytest.mark.parametrize("size", [-1, -32, -(1 << 40)])
def test_blocks_of_fewer_than_no_elements_are_rejected(size, coded):
    refused("AR304", [f"block_size {size}", "0 (no blocks) or more"], coded, coded.arrays, block_size=size)


@pytest.mark.sampled(4)
@spelled
@pytest.mark.parametrize("size", [1, 8, 15, 64, 65, 1 << 40])
def test_blocks_of_another_number_than_scales_are_rejected(size, coded):
    refused("AR123", [f"blocks of {size}", f"along axis {coded.axis}"], coded, coded.arrays, block_size=size)


@spelled
@pytest.mark.parametrize("axis", [2, -3, 1 << 40])
def test_an_axis_that_is_not_there_is_rejected(axis, coded):
    refused("AR304", [f"axis {axis}", "-2 to 1"], coded, coded.arrays, axis=axis)


@spelled
def test_the_last_block_may_not_be_full(coded):
    part = replace(coded, size=SIZE + 4)  # and 16 + 2 along the other axis
    agrees(part, part.arrays)


CUT = {
    "fewer blocks": lambda s: s[:1],
    "fewer lanes": lambda s: s[:, :1],
    "a row": lambda s: s.reshape(-1)[:N],
    "one more axis": lambda s: s[None],
    "turned": lambda s: s.T,
}


@pytest.mark.sampled(4)
@spelled
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("change", CUT.values(), ids=CUT)
@pytest.mark.parametrize(("name", "what"), [("s", "a scale"), ("z", "a zero point")])
def test_scales_and_zero_points_of_other_shapes_are_rejected(name, what, change, sign, coded):
    """Other layers multiply scales below 0, with the same requirements."""
    inputs = coded.arrays
    inputs["s"] *= np.float32(sign)
    inputs[name] = change(inputs[name])
    refused("AR123", [what, f"blocks of {coded.wide}"], coded, inputs)


# ---- types ----------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@spelled
@pytest.mark.parametrize("other", [np.int8, np.int32, UINT4, np.float16])
def test_zero_points_of_another_type_than_the_codes_are_rejected(other, coded):
    inputs = coded.arrays
    inputs["z"] = abs(inputs["z"].astype(np.int8)).astype(other)
    refused("AR203", [f"a zero point of {np.dtype(other)}", "codes of int4"], coded, inputs)


@spelled
def test_scales_that_are_integers_are_rejected(coded):
    inputs = coded.arrays
    inputs["s"] = np.ones(inputs["s"].shape, np.int32)
    refused("AR202", ["a scale of int32", "floats"], coded, inputs)


# ---- numbers --------------------------------------------------------------------------------------


@spelled
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("scale", [0.0, -0.25, np.nan])
def test_scales_of_0_below_and_nan_give_their_numbers(scale, zeros, coded):
    inputs = coded.arrays if zeros else {n: a for n, a in coded.arrays.items() if n != "z"}
    inputs["s"][1, 1] = scale
    agrees(coded, inputs)


@spelled
def test_scales_that_are_infinite_are_rejected(coded):
    inputs = coded.arrays
    inputs["s"][1, 1] = np.inf
    refused("AR304", ["a scale of inf", "finite"], coded, inputs)


@spelled
@pytest.mark.parametrize("kind", [INT4, UINT4, np.int8, np.uint8])
def test_zero_points_are_taken_away_in_every_spelling(kind, coded):
    other = replace(coded, kind=kind)
    agrees(other, other.arrays)


def test_zeros_of_float32_are_no_zero_point_of_tensorrts_layers():
    coded = SPELLINGS["trt MatMul axis 0"]
    agrees(coded, coded.arrays | {"z": np.zeros((K // SIZE, N), np.float32)})
