"""SMMLA and BFMMLA: their semantics, for emulators without them, and the expected results of kernels that use
them.

The semantics follow the Arm Architecture Reference Manual (shared/functions/float/bfloat) without FEAT_EBF16;
tools/arm64.py compares them with QEMU. Kernels run on the caller's processor.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import ml_dtypes
import numpy as np

from anyrt.compiler.trial import Trial
from anyrt.core.enums import DataType
from anyrt.core.machine import Machine
from anyrt.ir.graph import Graph
from anyrt.ir.statements import loops
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests.native import load, lower
from tests.targets import host

Array: TypeAlias = np.ndarray
LEAST, MOST = 2.0**-126, 2.0**128  # of the normal range of float32


def smmla(total: bytes, a: bytes, b: bytes) -> bytes:
    """Add the products of 2 × 8 bytes with 2 × 8 bytes to 2 × 2 sums."""
    x, y = (np.frombuffer(some, np.int8).reshape(2, 8).astype(np.int32) for some in (a, b))
    return (np.frombuffer(total, np.int32).reshape(2, 2) + x @ y.T).tobytes()


def usdot(total: bytes, a: bytes, b: bytes) -> bytes:
    """Add to each sum the products of four unsigned bytes with four signed ones."""
    x, y = np.frombuffer(a, np.uint8).astype(np.int32), np.frombuffer(b, np.int8)
    return (np.frombuffer(total, np.int32) + (x * y).reshape(4, 4).sum(1, dtype=np.int32)).tobytes()


def bfmmla(total: bytes, a: bytes, b: bytes) -> bytes:
    """Add the products of 2 × 4 bfloat16 with 2 × 4 bfloat16 to 2 × 2 sums, two products at a time."""
    sums = np.frombuffer(total, np.float32).reshape(2, 2)
    with np.errstate(all="ignore"):
        x, y = (_bfloats(some).reshape(2, 4).T for some in (a, b))
        products = _product(x[:, :, None], y[:, None, :])  # all at once: arrays are small, and calls many
        for pair in _added(products[::2], products[1::2]):
            sums = _added(sums, pair)
    return sums.tobytes()


def _bfloats(some: bytes) -> Array:
    """bfloat16 as float64; subnormal numbers become 0."""
    bits = np.frombuffer(some, np.uint16).astype(np.uint32) << 16
    return np.where(bits & 0x7F80_0000, bits, bits & 0x8000_0000).view(np.float32).astype(np.float64)


def _product(x: Array, y: Array) -> Array:
    """The products of bfloat16 as float32, which holds all of their 16 bits; subnormal products become 0."""
    exact = x * y
    some = np.where(np.abs(exact) < LEAST, exact * 0, exact).astype(np.float32)
    return np.where(np.isnan(some), np.uint32(0x7FC0_0000).view(np.float32), some)


def _added(a: Array, b: Array) -> Array:
    """The sum of two float32 arrays: exact in float64, then rounded."""
    x, y = (np.where(np.abs(z) < LEAST, z * 0, z).astype(np.float64) for z in (a, b))
    high = x + y
    back = high - x
    low = (x - (high - back)) + (y - back)
    return _odd(high, np.where(np.isfinite(high), low, 0.0))


def _odd(high: Array, low: Array | float) -> Array:
    """high + low as float32, rounded to odd: the neighbour whose last bit is 1, unless the sum is exact;
    subnormal sums become 0."""
    near, size = high.astype(np.float32), np.abs(high)
    back = near.astype(np.float64)
    same, below = back == high, low * np.sign(high) < 0  # the sum is nearer to 0 than high is
    beyond = (np.abs(back) > size) | (same & below)
    inside = size < MOST
    bits = near.view(np.uint32) - (beyond & inside)
    inexact = (~same | (low != 0)) & inside
    bits = (bits | inexact).astype(np.uint32)
    tiny = (size < LEAST) | ((size == LEAST) & below)
    bits = np.where(tiny, bits & 0x8000_0000, bits).astype(np.uint32)
    return np.where(np.isnan(high), np.uint32(0x7FC0_0000), bits).astype(np.uint32).view(np.float32)


# Keyed by the bits of an instruction that do not name registers.
MODELS: Final[dict[int, Callable[[bytes, bytes, bytes], bytes]]] = {
    0x4E80A400: smmla,
    0x6E40EC00: bfmmla,
    0x4E809C00: usdot,
}


# ---- kernels ------------------------------------------------------------------------------------

EXTREMES: Final = ((13, 92, 33), (8, 260, 8))  # rows, terms and lanes: odd sizes, and whole tiles
BFLOAT = np.dtype(ml_dtypes.bfloat16)


def multiplied(x: Array, w: Array, machine: Machine) -> Array:
    """x @ w, computed by the kernel for these shapes."""
    dtype, total = (DataType.BF16, "FLOAT") if x.dtype == BFLOAT else (DataType.INT8, "INT32")
    inputs = [b.param(name, some.shape, dtype) for name, some in (("x", x), ("w", w))]
    y = b.contract("mk,kn->mn", *inputs, DataType[total])
    lowered = lower(Graph((("x", inputs[0]), ("w", inputs[1])), (("y", y),)), {}, Sizes({}), machine=machine)
    marked = {s.intrinsic for k in lowered.module.kernels for s in loops(k.body) if s.intrinsic}
    assert marked == {"bfmmla" if x.dtype == BFLOAT else "smmla"}
    trial = Trial(load(lowered, host()), {})
    for name, some in (("x", x), ("w", w)):
        trial.blocks[f"tensor {name}"].bytes[: some.nbytes] = some.reshape(-1).view(np.uint8)
    trial.run()
    size = 4 * len(x) * w.shape[1]
    result = trial.blocks["tensor y"].bytes[:size].view(np.float32 if x.dtype == BFLOAT else np.int32)
    return result.reshape(len(x), -1).copy()


def largest_bytes(rows: int, terms: int, lanes: int, machine: Machine) -> bool:
    """Whether sums of the largest bytes of either sign are exact."""
    rng = np.random.default_rng(0)
    x, w = (rng.choice(np.array([-128, -128, 127], np.int8), s) for s in ((rows, terms), (terms, lanes)))
    x[0], w[:, 0] = -128, -128
    return np.array_equal(multiplied(x, w, machine), x.astype(np.int32) @ w.astype(np.int32))


def error_of_bfloats(rows: int, terms: int, lanes: int, machine: Machine) -> float:
    """The largest error of a sum relative to its bound: every addition may be off by less than 2⁻²³ of its
    result, and subnormal factors, products and sums may become 0."""
    rng = np.random.default_rng(0)
    x, w = (_spread(rng, s) for s in ((rows, terms), (terms, lanes)))
    result, (p, q) = multiplied(x, w, machine), (some.astype(np.float64) for some in (x, w))
    lost = [np.where(np.abs(some) < LEAST, np.abs(some), 0.0) for some in (p, q)]
    bound = (terms + 1) * 2.0**-23 * (np.abs(p) @ np.abs(q)) + 2 * terms * LEAST
    bound += lost[0] @ np.abs(q) + np.abs(p) @ lost[1]
    return float((np.abs(result - p @ q) / bound).max())


def infinities(rows: int, terms: int, lanes: int, machine: Machine) -> bool:
    """Whether infinities and NaN propagate as in NumPy."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(1, 9, s).astype(BFLOAT) for s in ((rows, terms), (terms, lanes)))
    x[1, 5], x[2, 7], x[3, 1:3], w[9, 4], w[2, 6] = np.inf, np.nan, (np.inf, -np.inf), -np.inf, 0
    with np.errstate(invalid="ignore"):
        expected = x.astype(np.float32) @ w.astype(np.float32)
    return np.array_equal(multiplied(x, w, machine), expected, equal_nan=True)


def _spread(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Numbers near 1, very large and very small ones, and subnormal ones."""
    sizes = rng.choice([0, 0, 0, 50, -50, -70], shape)
    many = (rng.standard_normal(shape) * 2.0**sizes).astype(BFLOAT)
    many[rng.random(shape) < 0.02] = 3 * 2.0**-130
    return many
