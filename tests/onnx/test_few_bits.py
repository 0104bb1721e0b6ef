"""MatMulNBits: products with packed weights of 2, 4 or 8 bits, compared with float64.

A product is computed in float32: its error is at most a millionth of the sum of all magnitudes. At
accuracy_level 4, each block of x is rounded to multiples of its largest magnitude / 127, which adds an error
of half a step.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

import anyrt
import anyrt.passes  # the fixtures change its modules
from anyrt.backends.cpu import processors
from anyrt.core.errors import AnyrtError
from anyrt.ir.kerneltext import print_kernels
from anyrt.onnx.backend import prepare
from tests.emulated import emulated
from tests.messages import diagnostic
from tests.mmla import MODELS, usdot
from tests.onnx.conftest import of_node
from tests.targets import ARM_MM
from tools.replays import lowering
from tools.replays.canonical import canonical_kernel

RNG = np.random.default_rng(28)
NEAR = 1e-6
HERE = processors.host().arch is processors.forced(processors.Level.AVX2).arch
MACHINES = [None, *(["avx2", "sse2"] if HERE else [])]


@pytest.fixture(scope="module")
def _cache(tmp_path_factory):
    """A cache for plans in which few weights stay codes: only the tests here use it."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _codes_of_any_number(monkeypatch, _cache):
    """Keep codes for any number of weights; by default, few weights become numbers."""
    for name in ("fold_constants", "split_codes"):
        monkeypatch.setattr(sys.modules[f"anyrt.passes.{name}"], "SMALL", 1)
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(_cache))


class Weights:
    """Packed codes, scales and zero points as inputs of the operator, and the numbers they represent in
    float64."""

    def __init__(self, rows, columns, size, bits=4, zeros=None, dtype=np.float32, scale=None):
        self.rows, self.columns, self.size, self.bits = rows, columns, size, bits
        blocks = -(-columns // size)
        self.codes = RNG.integers(0, 1 << bits, (rows, blocks * size)).astype(np.uint8)
        shape = (rows, blocks)
        self.scale = (RNG.uniform(0.01, 0.1, shape) if scale is None else np.full(shape, scale)).astype(dtype)
        self.zero = np.full(shape, float(1 << (bits - 1)))
        self.inputs = {"b": self.pack(self.codes).reshape(rows, blocks, -1), "s": self.scale.reshape(-1)}
        if zeros == "codes":
            self.zero = RNG.integers(0, 1 << bits, shape)
            self.inputs["z"] = self.pack(self.zero.astype(np.uint8)).reshape(-1)
        if zeros == "numbers":
            self.zero = RNG.uniform(0, (1 << bits) - 1, shape).astype(dtype)
            self.inputs["z"] = self.zero
        self.block = np.arange(columns) // size
        self.order = ["x", *self.inputs]

    def pack(self, codes):
        """Pack codes into bytes, the low ones first; rows are padded."""
        each = 8 // self.bits
        whole = np.zeros((len(codes), -(-codes.shape[1] // each) * each), np.uint8)
        whole[:, : codes.shape[1]] = codes
        return sum(whole[:, k::each] << (k * self.bits) for k in range(each)).astype(np.uint8)

    def ordered(self, block):
        """With the block index of each column."""
        self.block, self.inputs["g"] = np.asarray(block)[: self.columns], np.asarray(block, np.int32)
        self.order = ["x", "b", "s", "z" if "z" in self.inputs else "", "g"]
        return self

    @property
    def real(self):
        """The weights as numbers, (K, N)."""
        zero, scale = (np.asarray(a, np.float64)[:, self.block] for a in (self.zero, self.scale))
        return ((self.codes[:, : self.columns] - zero) * scale).T

    def attributes(self, level=0):
        return {
            "K": self.columns,
            "N": self.rows,
            "bits": self.bits,
            "block_size": self.size,
            "accuracy_level": level,
        }

    def node(self, level=0):
        more = self.attributes(level)
        return helper.make_node("MatMulNBits", self.order, ["y"], "node", domain="com.microsoft", **more)

    def run(self, x, level=0, dynamic=()):
        model = of_node(self.node(level), {"x": x}, self.inputs, 21, dynamic)
        (got,) = prepare(model).run({"x": x})
        assert got.dtype == x.dtype
        return got.astype(np.float64)

    def bound(self, x, level=0):
        """The largest permitted difference from float64."""
        x, real = np.abs(x.astype(np.float64)), np.abs(self.real)
        error = NEAR * (x @ real)
        if level == 4:
            blocks = self.scale.shape[1]
            most = np.stack([x[..., self.block == k].max(-1, initial=0) for k in range(blocks)], -1)
            error = error + most[..., self.block] / 254 @ real
        return error

    def agrees(self, x, level=0, dynamic=(), digits=0.0):
        expected = x.astype(np.float64) @ self.real
        error = np.abs(self.run(x, level, dynamic) - expected)
        assert np.all(error <= self.bound(x, level) + digits * np.abs(expected))


def numbers(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


# ---- sizes, machines and types --------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("size", [16, 32, 64, 128, 256, 1024])
@pytest.mark.parametrize("lanes", [1, 5, 32, 37, 257])
@pytest.mark.parametrize("rows", [1, 2, 6, 7, 16, 33])
def test_rows_of_every_number_meet_weights(rows, lanes, size, level):
    Weights(lanes, max(512, size), size).agrees(numbers(rows, max(512, size)), level)


@pytest.mark.sampled(6)
@pytest.mark.here
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zeros", [None, "codes", "numbers"])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("rows", [1, 6, 33])
def test_weights_of_all_forms_on_every_machine(machine, level, zeros, bits, rows, monkeypatch):
    if machine is not None:
        monkeypatch.setenv("ANYRT_CPU", machine)
    Weights(37, 192, 64, bits, zeros).agrees(numbers(rows, 192), level)


@pytest.mark.here
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("level", [0, 4])
def test_weights_on_an_emulated_processor(rows, level):
    with emulated():
        Weights(20, 64, 32, zeros="codes" if level == 0 else None).agrees(numbers(rows, 64), level)


@pytest.mark.parametrize("rows", [9, 33])
def test_rows_of_int8_are_summed_by_usdot(rows, monkeypatch):
    seen, code = [], next(code for code, model in MODELS.items() if model is usdot)
    monkeypatch.setitem(MODELS, code, lambda *values: seen.append(values) or usdot(*values))
    with emulated(ARM_MM):
        Weights(20, 64, 32).agrees(numbers(rows, 64), 4)
    assert seen


@pytest.mark.here
def test_devices_have_pools_of_their_own():
    """Threads of another device's pool crashed the process when they ran its code."""
    for device in (emulated(), nullcontext()):
        with device:
            Weights(37, 128, 32).agrees(numbers(2, 1, 128), 0, dynamic=("x",))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zeros", [None, "codes"])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("columns", [8, 72, 100, 1000, 1001])
@pytest.mark.parametrize("rows", [1, 9])
def test_blocks_that_are_not_full(columns, zeros, bits, level, rows):
    Weights(21, columns, 32, bits, zeros).agrees(numbers(rows, columns), level)


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_one_plan_serves_all_numbers_of_rows(rows, level):
    Weights(37, 128, 32).agrees(numbers(2, rows, 128), level, dynamic=("x",))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("rows", [1, 4, 33])
@pytest.mark.parametrize(("dtype", "step"), [(np.float16, 2.0**-11), (ml_dtypes.bfloat16, 2.0**-8)])
def test_halves_are_computed_in_float32_and_rounded_once(dtype, step, rows, level):
    Weights(37, 256, 32, dtype=dtype).agrees(numbers(rows, 256, dtype=dtype), level, digits=step)


def test_a_bias_is_added_before_rounding():
    w, x = Weights(8, 64, 32, dtype=np.float16), numbers(3, 64, dtype=np.float16)
    w.inputs["c"], w.order = numbers(8, dtype=np.float16), ["x", "b", "s", "", "", "c"]
    expected = x.astype(np.float64) @ w.real + w.inputs["c"]
    assert np.all(np.abs(w.run(x) - expected) <= w.bound(x) + 2.0**-11 * np.abs(expected))


# ---- values at the ends of their types ------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("rows", [1, 7, 33])
def test_the_largest_numbers_overflow_where_the_sum_does_alone(rows, level):
    w = Weights(37, 256, 32, scale=1e-3)
    x = (RNG.choice([-1, 1], (rows, 256)) * 3e38).astype(np.float32)
    x[:, 7:] *= np.float32(1e-2)
    w.agrees(x, level)


@pytest.mark.parametrize("rows", [1, 7, 33])
def test_the_largest_scales_overflow_where_the_sum_does_alone(rows):
    Weights(37, 64, 32, scale=1e37).agrees(numbers(rows, 64) * np.float32(1e-6))


@pytest.mark.parametrize("rows", [1, 7, 33])
def test_the_least_numbers_lose_only_what_a_step_down_has_no_digits_for(rows):
    """Rows are scaled down by a block of the largest codes, 2 ** (8 + 5): numbers then below 2 ** -149 are
    lost."""
    w = Weights(37, 64, 32, scale=0.5)
    x = numbers(rows, 64) * np.float32(1e-38)
    error = np.abs(w.run(x) - x.astype(np.float64) @ w.real)
    assert np.all(error <= w.bound(x) + 2.0 ** (13 - 149) * np.abs(w.real).sum(0))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("rows", [1, 7, 33])
def test_infinities_and_nan_are_where_the_sums_have_them(rows, bits):
    w, x = Weights(37, 128, 32, bits), numbers(rows, 128)
    w.codes[:5, :] = 1 << (bits - 1)  # weights that are 0
    w.inputs["b"] = w.pack(w.codes).reshape(w.inputs["b"].shape)
    x[0, 3], x[-1, 40], x[rows // 2, 100] = np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = x.astype(np.float64) @ w.real
    got = w.run(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(got[np.isinf(expected)], expected[np.isinf(expected)])
    assert np.isfinite(got[np.isfinite(expected)]).all()


@pytest.mark.parametrize("rows", [1, 7])
def test_nonfinite_elements_stay_nonfinite_where_rows_are_quantised(rows):
    w, x = Weights(37, 128, 32), numbers(rows, 128)
    x[0, 3] = np.nan
    x[-1, 40] = np.inf
    with np.errstate(invalid="ignore"):
        expected = x.astype(np.float64) @ w.real
    got = w.run(x, 4)
    assert not np.isfinite(got[~np.isfinite(expected)]).any()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zeros", [None, "codes"])
@pytest.mark.parametrize("rows", [1, 33])
def test_codes_equal_to_their_zero_points_give_exactly_0(rows, zeros, level):
    w = Weights(37, 128, 32, zeros=zeros)
    w.codes = np.repeat(w.zero, 32, 1).astype(np.uint8)
    w.inputs["b"] = w.pack(w.codes).reshape(w.inputs["b"].shape)
    assert not w.run(numbers(rows, 128) * np.float32(1e30), level).any()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("scale", [0.0, -0.2, 0.5, 1.0])
@pytest.mark.parametrize("rows", [1, 7])
def test_scales_may_be_0_and_below_and_alike(scale, rows, level):
    Weights(37, 128, 32, scale=scale).agrees(numbers(rows, 128), level)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [None, "codes", "numbers"])
@pytest.mark.parametrize(("step", "scale"), [(-115, 1e-6), (-20, 1e-34), (100, 1e-36)])
def test_scales_whose_product_is_below_the_normal_range_lose_no_digits(step, scale, zeros, bits):
    """The product of two scales is subnormal, but the sum of a block is not. Rows are exact."""
    w, codes = Weights(37, 128, 64, bits, zeros, scale=scale), RNG.integers(-127, 128, (3, 128))
    codes[:, ::64] = 127
    x = (codes * 2.0**step).astype(np.float32)
    expected = x.astype(np.float64) @ w.real
    assert np.all(np.abs(w.run(x, 4) - expected) <= w.bound(x))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("zeros", [None, "codes", "numbers"])
def test_the_largest_sums_of_bytes_are_right(zeros, machine, monkeypatch):
    """All codes 255 and all rows 127, in the longest block that int32 can sum."""
    if machine is not None:
        monkeypatch.setenv("ANYRT_CPU", machine)
    w = Weights(3, 1 << 17, 1 << 16, 8, zeros)
    w.codes[...] = 255
    w.zero[...] = 0 if zeros else 128
    w.inputs["b"] = w.pack(w.codes).reshape(w.inputs["b"].shape)
    if zeros:
        w.inputs["z"] = w.zero.astype(np.float32) if zeros == "numbers" else np.zeros(3 * 2, np.uint8)
    w.agrees(np.ones((1, 1 << 17), np.float32), 4)


def test_scales_may_differ_in_sign():
    w = Weights(37, 128, 32, zeros="codes")
    w.scale[::2] *= -1
    w.scale[3] = 0
    w.inputs["s"] = w.scale.reshape(-1)
    w.agrees(numbers(2, 128))


# ---- columns in another order ---------------------------------------------------------------------

ORDERS = {
    "as they are": np.arange(128) // 32,
    "in turn": np.arange(128) % 4,
    "any": RNG.permutation(np.arange(128) // 32),
    "of different numbers": np.sort(RNG.integers(0, 4, 128)),
    "of very different numbers": np.array([0, 1, 2, *[3] * 125]),
    "none in some": RNG.permutation(np.arange(128) % 2),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zeros", [None, "codes", "numbers"])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("rows", [1, 9])
def test_columns_belong_to_the_blocks_that_g_idx_says(order, zeros, rows, level):
    Weights(21, 128, 32, zeros=zeros).ordered(order).agrees(numbers(rows, 128), level)


def test_blocks_may_be_named_for_more_columns_than_there_are():
    order = [*RNG.permutation(np.arange(100) // 32), *[3] * 28]
    Weights(21, 100, 32).ordered(order).agrees(numbers(3, 100))


# ---- constants of plans ---------------------------------------------------------------------------


def built(w, level=0, rows=1):
    """The plan, and the names of its kernels."""
    builder = anyrt.Builder(anyrt.Logger())
    network = builder.create_network()
    model = of_node(w.node(level), {"x": np.zeros((rows, w.columns), np.float32)}, w.inputs, 21)
    assert anyrt.OnnxParser(network, anyrt.Logger()).parse(model.SerializeToString())
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = anyrt.Runtime(anyrt.Logger()).deserialize_cuda_engine(plan)
    information = engine.create_engine_inspector().get_engine_information(anyrt.LayerInformationFormat.JSON)
    return memoryview(plan).nbytes, json.loads(information)["Layers"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rows", [1, 33])
@pytest.mark.parametrize("zeros", [None, "codes"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_plans_hold_codes_and_one_kernel_reads_them(bits, zeros, rows):
    w = Weights(512, 512, 32, bits, zeros)
    size, kernels = built(w, rows=rows)
    each = 512 * 512 // 32  # zero points are few, and bytes
    held = 512 * 512 * bits // 8 + 4 * each + (each if zeros else 0)
    assert size <= 1.02 * held + (1 << 16)  # all other constants have different sizes
    assert len(kernels) == 1


# ---- rejected operands ----------------------------------------------------------------------------


def refused(w, code, *words, attributes=(), x=None):
    """Check that the error has this code, and contains all these words."""
    node = helper.make_node(
        "MatMulNBits",
        w.order,
        ["y"],
        "node",
        domain="com.microsoft",
        **{**w.attributes(), **dict(attributes)},
    )
    x = np.zeros((2, w.columns), np.float32) if x is None else x
    with pytest.raises(AnyrtError) as error:
        prepare(of_node(node, {"x": x}, w.inputs, 21))
    message = str(error.value)
    assert code in message
    assert all(word in message for word in ("node", *words)), message


@pytest.mark.parametrize("bits", [0, 1, 3, 5, 6, 7, 16])
def test_other_bits_are_rejected(bits):
    refused(Weights(5, 64, 32), "AR901", f"{bits} bits", "2, 4 or 8", attributes={"bits": bits})


@pytest.mark.parametrize("level", [-1, 5])
def test_other_levels_of_accuracy_are_rejected(level):
    refused(Weights(5, 64, 32), "AR304", f"accuracy_level {level}", attributes={"accuracy_level": level})


@pytest.mark.parametrize("size", [0, -32, 8, 24, 48])
def test_other_blocks_are_rejected(size):
    refused(
        Weights(5, 64, 32), "AR304", f"block_size {size}", "power of two", attributes={"block_size": size}
    )


@pytest.mark.parametrize("name", ["K", "N"])
def test_sizes_of_0_are_rejected(name):
    refused(Weights(5, 64, 32), "AR304", "sizes above 0", attributes={name: 0})


@pytest.mark.parametrize("name", ["K", "N", "block_size"])
def test_attributes_that_are_missing_are_named(name):
    w = Weights(5, 64, 32)
    more = {k: v for k, v in w.attributes().items() if k != name}
    node = helper.make_node("MatMulNBits", w.order, ["y"], "node", domain="com.microsoft", **more)
    with pytest.raises(AnyrtError, match=diagnostic("AR417", "node", name, name, "MatMulNBits")):
        prepare(of_node(node, {"x": np.zeros((2, 64), np.float32)}, w.inputs, 21))


@pytest.mark.parametrize(
    "change", [lambda b: b[:-1], lambda b: np.concatenate([b, b[:1]])], ids=["short", "long"]
)
@pytest.mark.parametrize(
    ("name", "words"), [("b", "bytes of weights"), ("s", "scales"), ("z", "zero points")]
)
def test_too_few_or_many_are_rejected(name, words, change):
    w = Weights(5, 128, 32, zeros="codes")
    w.inputs[name] = change(w.inputs[name])
    refused(w, "AR123", words)


def test_too_many_zero_points_that_are_numbers_are_rejected():
    w = Weights(5, 128, 32, zeros="numbers")
    w.inputs["z"] = w.inputs["z"][:4]
    refused(w, "AR123", "16 zero points", "20, 5 rows of 4")


@pytest.mark.parametrize(("name", "what"), [("z", "zero points"), ("s", "scales")])
def test_rows_of_scales_and_zero_points_that_are_turned_are_rejected(name, what):
    w = Weights(5, 128, 32, zeros="numbers")
    w.inputs[name] = np.ascontiguousarray(w.inputs[name].reshape(5, 4).T)
    refused(w, "AR123", f"20 {what} of shape (4, 5)", "5 rows of 4")


@pytest.mark.parametrize("zero", [np.nan, np.inf, -np.inf])
def test_zero_points_that_are_not_finite_are_rejected(zero):
    w = Weights(5, 128, 32, zeros="numbers")
    w.inputs["z"][1, 2] = zero
    refused(w, "AR304", f"a zero point of {zero}", "finite")


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zero", [-100.0, 1e6])
def test_zero_points_may_be_numbers_beyond_the_codes(zero, level):
    w = Weights(37, 128, 32, zeros="numbers")
    w.zero[...] = zero
    w.agrees(numbers(3, 128), level)


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
@pytest.mark.parametrize(("name", "what"), [("s", "a scale"), ("c", "a bias"), ("x", "an input")])
def test_numbers_of_other_types_are_rejected(name, what, dtype):
    w = Weights(5, 128, 32)
    w.inputs["c"], w.order = np.zeros(5, np.float32), ["x", "b", "s", "", "", "c"]
    x = np.zeros((2, 128), dtype if name == "x" else np.float32)
    if name != "x":
        w.inputs[name] = w.inputs[name].astype(dtype)
    refused(w, "AR202", f"{what} of {np.dtype(dtype)}", "float32, float16 or bfloat16", x=x)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 5), (1, 5)])
def test_a_bias_of_another_shape_is_rejected(shape):
    w = Weights(5, 128, 32)
    w.inputs["c"], w.order = np.zeros(shape, np.float32), ["x", "b", "s", "", "", "c"]
    refused(w, "AR123", f"a bias of shape {shape}", "(5,)")


def test_weights_of_another_type_are_rejected():
    w = Weights(5, 128, 32)
    w.inputs["b"] = w.inputs["b"].astype(np.int32)
    refused(w, "AR202", "weights of int32", "uint8")


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_scales_that_are_not_finite_are_rejected(scale):
    w = Weights(5, 128, 32)
    w.inputs["s"][7] = scale
    refused(w, "AR304", f"a scale of {scale}", "finite")


def test_an_input_of_another_width_is_rejected():
    refused(Weights(5, 128, 32), "AR123", "K = 128", x=np.zeros((2, 64), np.float32))


@pytest.mark.parametrize(
    ("order", "code"), [([4] * 128, "AR304"), ([-1] * 128, "AR304"), ([0] * 64, "AR123")]
)
def test_blocks_of_columns_that_are_not_there_are_rejected(order, code):
    w = Weights(5, 128, 32)
    w.inputs["g"], w.order = np.asarray(order, np.int32), ["x", "b", "s", "", "g"]
    refused(w, code, "g_idx")


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.uint8])
def test_blocks_of_columns_are_named_by_int32(dtype):
    w = Weights(5, 128, 32)
    w.inputs["g"], w.order = np.zeros(128, dtype), ["x", "b", "s", "", "g"]
    refused(w, "AR202", f"g_idx of {np.dtype(dtype)}", "int32")


# ---- spellings ------------------------------------------------------------------------------------

K, N, SIZE = 256, 96, 32
SIGNED = {"int4": (ml_dtypes.int4, 8), "uint4": (ml_dtypes.uint4, 0)}


def model_of(nodes, values, rows=3, wide=K, element=np.float32, shape=None):
    inputs = [
        helper.make_tensor_value_info(
            "x", helper.np_dtype_to_tensor_dtype(np.dtype(element)), shape or [rows, wide]
        )
    ]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in values.items()]
    )
    sets = [helper.make_opsetid(d, v) for d, v in (("", 21), ("com.microsoft", 1), ("trt", 1))]
    return helper.make_model(graph, opset_imports=sets)


@dataclass
class Built:
    """A network with its engine, and the texts of its kernels for a machine."""

    builder: anyrt.Builder
    network: anyrt.INetworkDefinition

    @staticmethod
    def of(model):
        builder = anyrt.Builder(anyrt.Logger())
        network = builder.create_network()
        with anyrt.strict():
            anyrt.OnnxParser(network, anyrt.Logger()).parse(model.SerializeToString())
        return Built(builder, network)

    @cached_property
    def engine(self):
        with anyrt.strict():
            return self.builder.build_engine_with_config(self.network, self.builder.create_builder_config())

    def kernels(self, machine="avx512"):
        config = self.builder.create_builder_config()
        lowered = lowering.lowering(lowering.request_of(self.network, config))(lowering.machine(machine))
        return [print_kernels([canonical_kernel(k)]) for k in lowered]


def spellings(w, kind):
    """Models that multiply by the same weights; zero points are omitted if they equal the default."""
    numpy_kind, less = SIGNED[kind]
    zeros = "z" in w.inputs or kind == "uint4"
    codes, zero = ((a.astype(np.int16) - less).astype(numpy_kind) for a in (w.codes, w.zero))
    order = ["c", "s", "z"] if zeros else ["c", "s"]

    def dequantized(axis):
        turned = [a if axis else np.ascontiguousarray(a.T) for a in (codes, w.scale, zero)]
        node = helper.make_node("DequantizeLinear", order, ["w"], axis=axis, block_size=SIZE)
        return node, dict(zip(order, turned, strict=False))

    (by_rows, rows), (by_columns, columns) = dequantized(1), dequantized(0)
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    yield [by_columns, product], columns
    yield [by_columns, helper.make_node("Gemm", ["x", "w"], ["y"])], columns
    yield [by_rows, helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], rows
    turn = helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0])
    yield [by_rows, turn, helper.make_node("MatMul", ["x", "t"], ["y"])], rows
    if not zeros:
        few = helper.make_node(
            "TRT_INT4DequantizeLinear", order, ["w"], domain="trt", axis=0, block_size=SIZE
        )
        yield [few, product], columns


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", SIGNED)
@pytest.mark.parametrize("zeros", [None, "codes"])
@pytest.mark.parametrize("rows", [1, 7, 33])
def test_the_same_weights_have_one_kernel_however_they_are_spelled(rows, zeros, kind):
    w, x = Weights(N, K, SIZE, zeros=zeros), numbers(rows, K)
    w.zero = w.zero.astype(np.int16)
    inputs = {**w.inputs}
    if zeros is None and kind == "uint4":  # the model then names it
        inputs["z"] = w.pack(w.zero.astype(np.uint8)).reshape(-1)
    node = helper.make_node("MatMulNBits", ["x", *inputs], ["y"], domain="com.microsoft", **w.attributes())
    plain = Built.of(model_of([node], inputs, rows))
    expected, kernels = plain.engine.run(x=x)["y"], [plain.kernels(m) for m in lowering.MACHINES]
    assert all(len(some) == 1 and "INT4 const" in some[0] for some in kernels)
    for nodes, constants in spellings(w, kind):
        other = Built.of(model_of(nodes, constants, rows))
        assert [other.kernels(m) for m in lowering.MACHINES] == kernels
        np.testing.assert_array_equal(other.engine.run(x=x)["y"], expected)


@pytest.mark.parametrize(("level", "rows", "asked"), [(0, 1, 10), (0, 6, 10), (4, 1, 10), (0, 16, 20)])
def test_values_computed_from_few_rows_serve_many_panels_of_codes(level, rows, asked):
    """The kernel prefetches codes and scales of later blocks while the sums of blocks are in registers."""
    w = Weights(4096, 512, 32)
    *_, text = Built.of(model_of([w.node(level)], w.inputs, rows, 512)).kernels()
    assert "0.. < 16 work" in text
    assert text.count("fetch ") == asked


@pytest.mark.parametrize("zeros", [None, "codes", "numbers"])
@pytest.mark.parametrize(("bits", "shifts"), [(2, [0, 2, 4, 6]), (4, [0, 4]), (8, [])])
def test_rows_of_int8_are_summed_by_dots_with_codes_of_all_sizes(bits, shifts, zeros):
    w = Weights(256, 512, 32, bits, zeros)
    *_, text = Built.of(model_of([w.node(4)], w.inputs, 3, 512)).kernels()
    assert [k for k in range(32) if f", {k}:i32), {((1 << bits) - 1) * 0x01010101}:i32)" in text] == shifts
    assert text.count("dot4u(") >= 2  # of the rows' codes, for zero points, and of both
    assert "fma" not in text


@pytest.mark.parametrize(("machine", "copied"), [("avx512", [False, True]), ("avx2", [True, True])])
def test_codes_of_many_rows_are_decoded_once_or_for_each_of_a_few_tiles(machine, copied):
    w = Weights(256, 512, 32)
    result = [Built.of(model_of([w.node()], w.inputs, n, 512)).kernels(machine)[-1] for n in (24, 33)]
    lines = ([line.split("=")[0] for line in text.splitlines() if "code(" in line] for text in result)
    assert [any("store" in line for line in some) for some in lines] == copied


@pytest.mark.parametrize("bits", [4, 8])
def test_layers_that_quantise_rows_have_the_kernels_of_level_4(bits):
    w, x = Weights(N, K, SIZE, bits), numbers(3, K)
    network = (builder := anyrt.Builder(anyrt.Logger())).create_network()
    codes = (w.codes.astype(np.int16) - (1 << (bits - 1))).astype({4: ml_dtypes.int4, 8: np.int8}[bits])
    coded, scale = (network.add_constant(a.shape, anyrt.Weights(a)).get_output(0) for a in (codes, w.scale))
    real = network.add_dequantize(coded, scale, anyrt.float32)
    tensor = network.add_input("x", anyrt.float32, (3, K))
    steps = network.add_dynamic_quantize(tensor, 1, SIZE, anyrt.int8, anyrt.float32)
    rows = network.add_dequantize(steps.get_output(0), steps.get_output(1), anyrt.float32)
    real.block_shape = rows.block_shape = (1, SIZE)
    left, turned = anyrt.MatrixOperation.NONE, anyrt.MatrixOperation.TRANSPOSE
    y = network.add_matrix_multiply(rows.get_output(0), left, real.get_output(0), turned).get_output(0)
    y.name = "y"
    network.mark_output(y)
    layers, plain = Built(builder, network), Built.of(model_of([w.node(4)], w.inputs, 3))
    assert "dot4u" in plain.kernels()[-1]
    assert layers.kernels() == plain.kernels()
    np.testing.assert_array_equal(layers.engine.run(x=x)["y"], plain.engine.run(x=x)["y"])


@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (9, 64), (33, 2048)])
def test_rows_that_several_products_read_are_summed_by_dots(rows, columns):
    """Codes of 8 bits are then stored in words, which only dots can read."""
    ws, x = [Weights(columns, 256, SIZE, 8) for _ in range(3)], numbers(rows, 256)
    inputs, nodes = {}, []
    for k, w in enumerate(ws):
        inputs |= {f"{name}{k}": array for name, array in w.inputs.items()}
        names = ["x", *(f"{name}{k}" for name in w.inputs)]
        more = {**w.attributes(4)}
        nodes.append(helper.make_node("MatMulNBits", names, [f"y{k}"], domain="com.microsoft", **more))
    nodes.append(helper.make_node("Sum", ["y0", "y1", "y2"], ["y"]))
    built = Built.of(model_of(nodes, inputs, rows, 256))
    assert all("dot4u(" in text for text in built.kernels() if "INT8 const" in text)
    expected = sum(x.astype(np.float64) @ w.real for w in ws)
    assert np.all(np.abs(built.engine.run(x=x)["y"] - expected) <= sum(w.bound(x, 4) for w in ws))


def test_layers_of_a_network_have_the_same_kernel():
    w, x = Weights(N, K, SIZE), numbers(3, K)
    network = (builder := anyrt.Builder(anyrt.Logger())).create_network()
    codes = (w.codes.astype(np.int16) - 8).astype(ml_dtypes.int4)
    coded, scale = (network.add_constant(a.shape, anyrt.Weights(a)).get_output(0) for a in (codes, w.scale))
    real = network.add_dequantize(coded, scale, anyrt.float32)
    real.block_shape = (1, SIZE)
    left, turned = anyrt.MatrixOperation.NONE, anyrt.MatrixOperation.TRANSPOSE
    tensor = network.add_input("x", anyrt.float32, (3, K))
    y = network.add_matrix_multiply(tensor, left, real.get_output(0), turned).get_output(0)
    y.name = "y"
    network.mark_output(y)
    layers, plain = Built(builder, network), Built.of(model_of([w.node()], w.inputs, 3))
    assert layers.kernels() == plain.kernels()
    np.testing.assert_array_equal(layers.engine.run(x=x)["y"], plain.engine.run(x=x)["y"])


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("block", [SIZE, 0])
@pytest.mark.parametrize("kind", SIGNED)
def test_embeddings_stay_codes_and_rows_are_decoded_as_they_are_gathered(kind, block, zeros):
    numpy_kind, less = SIGNED[kind]
    codes = RNG.integers(0, 16, (2048, 256)).astype(np.int16) - less
    few = (2048, 256 // block) if block else (2048,)
    scale, zero = RNG.uniform(0.01, 0.1, few).astype(np.float32), RNG.integers(0, 16, few) - less
    inputs = {"c": codes.astype(numpy_kind), "s": scale} | ({"z": zero.astype(numpy_kind)} if zeros else {})
    attributes = {"axis": 1, "block_size": block} if block else {"axis": 0}
    nodes = [
        helper.make_node("DequantizeLinear", [*inputs], ["w"], **attributes),
        helper.make_node("Gather", ["w", "x"], ["y"]),
    ]
    actual = Built.of(model_of(nodes, inputs, element=np.int64, shape=[2, 5]))
    held = codes.size // 2 + scale.nbytes + scale.size * zeros
    assert memoryview(actual.engine.serialize()).nbytes <= 1.02 * held + (1 << 16)
    assert len(actual.kernels()) == 1
    at = RNG.integers(0, 2048, (2, 5))
    each = [np.repeat(a, block, 1) if block else a[:, None] for a in (scale.astype(np.float64), zero * zeros)]
    expected = (codes - each[1]) * each[0]
    np.testing.assert_allclose(actual.engine.run(x=at)["y"], expected[at], rtol=1e-6)


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_embeddings_of_bytes_stay_bytes(kind, is_transposed):
    ends = np.iinfo(kind)
    codes = RNG.integers(ends.min, ends.max + 1, (2048, 256)).astype(kind)
    scale, zero = np.float32(0.03125), kind(ends.max - 3)
    nodes = [helper.make_node("DequantizeLinear", ["c", "s", "z"], ["w"])]
    if is_transposed:
        nodes.append(helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]))
    nodes.append(helper.make_node("Gather", ["t" if is_transposed else "w", "x"], ["y"], axis=is_transposed))
    given = {"c": codes, "s": np.array(scale), "z": np.array(zero)}
    actual = Built.of(model_of(nodes, given, element=np.int64, shape=[2, 5]))
    assert memoryview(actual.engine.serialize()).nbytes <= codes.size + (1 << 16)
    at = RNG.integers(0, 2048, (2, 5))
    table = (codes.astype(np.float32) - zero) * scale
    expected = np.take(table.T, at, 1) if is_transposed else table[at]
    np.testing.assert_array_equal(actual.engine.run(x=at)["y"], expected)


def test_a_table_is_gathered_from_and_multiplied_by():
    codes = RNG.integers(-8, 8, (512, 256))
    scale = RNG.uniform(0.01, 0.1, (512, 8)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["c", "s"], ["w"], axis=1, block_size=SIZE),
        helper.make_node("Gather", ["w", "x"], ["e"]),
        helper.make_node("Gemm", ["e", "w"], ["y"], transB=1),
    ]
    inputs = {"c": codes.astype(ml_dtypes.int4), "s": scale}
    result = Built.of(model_of(nodes, inputs, element=np.int64, shape=[5]))
    real, at = codes * np.repeat(scale.astype(np.float64), SIZE, 1), RNG.integers(0, 512, 5)
    room = 256 * 2.0**-24 * (np.abs(real[at]) @ np.abs(real.T))  # of a row with itself: terms of one sign
    assert np.all(np.abs(result.engine.run(x=at)["y"] - real[at] @ real.T) <= room)


def test_layers_share_codes_with_scales_of_their_own():
    w, x = Weights(N, K, SIZE), numbers(3, K)
    other = RNG.uniform(0.01, 0.1, w.scale.size).astype(np.float32)
    more = {"domain": "com.microsoft", **w.attributes()}
    nodes = [
        helper.make_node("MatMulNBits", ["x", "b", "s"], ["u"], **more),
        helper.make_node("MatMulNBits", ["x", "b", "t"], ["v"], **more),
        helper.make_node("Sub", ["u", "v"], ["y"]),
    ]
    got = Built.of(model_of(nodes, {**w.inputs, "t": other})).engine.run(x=x)["y"]
    first = w.real
    bound = w.bound(x)
    w.scale = other.reshape(w.scale.shape)
    assert np.all(np.abs(got - x.astype(np.float64) @ (first - w.real)) <= bound + w.bound(x))


@pytest.mark.parametrize("rows", [1, 33])
def test_a_refit_gives_the_bits_of_a_new_build(rows):
    """Of scales and of codes, which are named weights of the network."""

    def build(codes, scale):
        network = (builder := anyrt.Builder(anyrt.Logger())).create_network()
        layers = []
        for array, name in ((codes, "codes"), (scale, "scale")):
            weights = anyrt.Weights(np.ascontiguousarray(array))
            layers.append(network.add_constant(array.shape, weights))
            assert network.set_weights_name(weights, name)
        coded, each = (layer.get_output(0) for layer in layers)
        real = network.add_dequantize(coded, each, anyrt.float32)
        real.block_shape = (1, SIZE)
        ops = anyrt.MatrixOperation.NONE, anyrt.MatrixOperation.TRANSPOSE
        x = network.add_input("x", anyrt.float32, (rows, K))
        y = network.add_matrix_multiply(x, ops[0], real.get_output(0), ops[1]).get_output(0)
        y.name = "y"
        network.mark_output(y)
        config = builder.create_builder_config()
        config.set_flag(anyrt.BuilderFlag.REFIT)
        return builder.build_engine_with_config(network, config)

    first, second = (Weights(N, K, SIZE) for _ in range(2))
    codes = [(w.codes.astype(np.int16) - 8).astype(ml_dtypes.int4) for w in (first, second)]
    engine, expected = build(codes[0], first.scale), build(codes[1], second.scale)
    refitter = anyrt.Refitter(engine, anyrt.Logger())
    assert refitter.set_named_weights("codes", anyrt.Weights(codes[1]))
    assert refitter.set_named_weights("scale", anyrt.Weights(second.scale))
    assert refitter.refit_cuda_engine()
    x = numbers(rows, K)
    np.testing.assert_array_equal(engine.run(x=x)["y"], expected.run(x=x)["y"])
