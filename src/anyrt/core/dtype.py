"""Facts about element types: sizes, NumPy counterparts, packing of 4-bit types, the reference casts.

>>> bits(DataType.INT4), short_name(DataType.BF16), parse("float16")
(4, 'bfloat16', <DataType.HALF: 1>)
>>> cast(np.array([2.7, -1e9, float("nan")]), DataType.INT8)
array([   2, -128,    0], dtype=int8)
"""

from __future__ import annotations

import importlib
from functools import cache

import numpy as np
import numpy.typing as npt

from anyrt.core.enums import DataType
from anyrt.core.errors import DTypeError

Array = npt.NDArray[np.generic]

# Names as printed in graphs, plans and messages; beside each the name NumPy knows, with ml_dtypes loaded.
_NAMES: dict[DataType, tuple[str, str]] = {
    DataType.FLOAT: ("float32", "float32"),
    DataType.HALF: ("float16", "float16"),
    DataType.BF16: ("bfloat16", "bfloat16"),
    DataType.INT8: ("int8", "int8"),
    DataType.UINT8: ("uint8", "uint8"),
    DataType.INT32: ("int32", "int32"),
    DataType.INT64: ("int64", "int64"),
    DataType.BOOL: ("bool", "bool"),
    DataType.FP8: ("fp8", "float8_e4m3fn"),
    DataType.INT4: ("int4", "int4"),
    DataType.FP4: ("fp4", "float4_e2m1fn"),
    DataType.E8M0: ("e8m0", "float8_e8m0fnu"),
    DataType.DOUBLE: ("float64", "float64"),
    DataType.INT16: ("int16", "int16"),
    DataType.UINT16: ("uint16", "uint16"),
    DataType.UINT32: ("uint32", "uint32"),
    DataType.UINT64: ("uint64", "uint64"),
    DataType.UINT4: ("uint4", "uint4"),
    DataType.INT2: ("int2", "int2"),
    DataType.UINT2: ("uint2", "uint2"),
    DataType.FP8E5M2: ("fp8e5m2", "float8_e5m2"),
    DataType.FP8E4M3FNUZ: ("fp8e4m3fnuz", "float8_e4m3fnuz"),
    DataType.FP8E5M2FNUZ: ("fp8e5m2fnuz", "float8_e5m2fnuz"),
}
_BY_SHORT = {short: t for t, (short, _) in _NAMES.items()}
_BY_NUMPY = {name: t for t, (_, name) in _NAMES.items()}
# The largest finite value of the types whose conversion saturates instead of producing infinity.
_SATURATES = {
    DataType.FP8: 448.0,
    DataType.FP4: 6.0,
    DataType.FP8E4M3FNUZ: 240.0,
    DataType.FP8E5M2FNUZ: 57344.0,
}
BEHIND = (1 << 38) - 1  # the bits of a float64 that no narrower float has: all but 14 of its mantissa
_FLOATS = frozenset(
    {DataType.DOUBLE, DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.E8M0, DataType.FP8E5M2}
    | set(_SATURATES)
)
_UNSIGNED = frozenset(
    {t for t, (short, _) in _NAMES.items() if short[0] == "u"} | {DataType.BOOL, DataType.E8M0}
)
_INTEGERS = frozenset(_NAMES) - _FLOATS - {DataType.BOOL}
# Those that NumPy has not without ml_dtypes.
_FOREIGN = frozenset(
    {DataType.BF16, DataType.E8M0, DataType.INT4, DataType.UINT4, DataType.INT2, DataType.UINT2}
    | {DataType.FP8E5M2, *_SATURATES}
)


def bits(t: DataType) -> int:
    """Bits of one element."""
    return int(t.itemsize * 8)


def is_float(t: DataType) -> bool:
    """Whether `t` is a floating-point type."""
    return t in _FLOATS


def wide(t: DataType) -> DataType:
    """The type in which kernels compute with numbers of a type: float64 for itself, float32 for all
    others."""
    return DataType.DOUBLE if t is DataType.DOUBLE else DataType.FLOAT


def is_integer(t: DataType) -> bool:
    """Whether `t` is an integer type; bool is not."""
    return t in _INTEGERS


def is_signed(t: DataType) -> bool:
    """Whether `t` has negative values."""
    return t not in _UNSIGNED


def is_packed(t: DataType) -> bool:
    """Whether two or four elements share a byte, the first in its lowest bits."""
    return bits(t) < 8


def short_name(t: DataType) -> str:
    """The name in graphs and messages: "float32", "fp8"."""
    return _NAMES[t][0]


def parse(name: str) -> DataType:
    """The type of a short name."""
    if name not in _BY_SHORT:
        raise DTypeError("AR207", "", got=repr(name), wanted=f"one of {', '.join(_BY_SHORT)}")
    return _BY_SHORT[name]


@cache
def numpy_dtype(t: DataType) -> np.dtype[np.generic]:
    """The NumPy type of one unpacked element (4-bit types take one byte each here)."""
    if t in _FOREIGN:
        # Only on demand: programs of ordinary types should not pay. Loading registers the names with NumPy.
        importlib.import_module("ml_dtypes")
    return np.dtype(_NAMES[t][1])


def from_numpy(dtype: npt.DTypeLike) -> DataType:
    """The element type of a NumPy dtype or scalar type."""
    source = np.dtype(dtype)
    if source.name not in _BY_NUMPY or not source.isnative:
        known = ", ".join(_BY_NUMPY)
        do = "convert the array first, for example with astype(np.float32)"
        raise DTypeError(
            "AR204", "", got=f"a NumPy array of {source.str} ({source.name})", wanted=f"one of {known}", do=do
        )
    return _BY_NUMPY[source.name]


def storage_bytes(t: DataType, count: int) -> int:
    """Bytes that `count` elements take in memory and in a plan."""
    return (count * bits(t) + 7) // 8


def pack4(x: Array) -> npt.NDArray[np.uint8]:
    """`x`, an array of a 4-bit or 2-bit type (one element per byte), as flat bytes with two or four elements
    each."""
    width = bits(from_numpy(x.dtype))
    each = 8 // width
    flat = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    codes: npt.NDArray[np.uint8] = flat & np.uint8((1 << width) - 1)
    rows = np.append(codes, np.zeros(-codes.size % each, np.uint8)).reshape(-1, each)
    places = np.arange(0, 8, width, dtype=np.uint8)
    return np.asarray(np.bitwise_or.reduce(rows << places, axis=1), np.uint8)


def stored_bytes(x: Array, t: DataType) -> npt.NDArray[np.uint8]:
    """Elements of `numpy_dtype(t)` in their stored form."""
    data = pack4(x) if is_packed(t) else x
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def unpack4(buf: Array | bytes | memoryview, count: int, t: DataType) -> Array:
    """The first `count` elements of packed bytes as a flat array of `numpy_dtype(t)`."""
    assert is_packed(t), f"{short_name(t)} is not packed"
    flat = (
        np.ascontiguousarray(buf).reshape(-1).view(np.uint8)
        if isinstance(buf, np.ndarray)
        else np.frombuffer(buf, np.uint8)
    )
    if flat.size < storage_bytes(t, count):
        raise DTypeError(
            "AR205",
            "",
            got=f"{flat.size} bytes",
            wanted=f"{storage_bytes(t, count)} bytes for {count} elements",
        )
    width = bits(t)
    shifts = np.arange(0, 8, width, dtype=np.uint8)
    codes = ((flat[:, None] >> shifts) & np.uint8((1 << width) - 1)).reshape(-1)[:count]
    return _extended(codes, t).view(numpy_dtype(t))


def cast(x: Array, t: DataType) -> Array:
    """`x` converted by the rules that every kernel follows; `x` itself when it has the type already.

    - to bool: `x != 0`, so that nan is true
    - float to integer: truncated toward zero and saturated, nan becomes 0
    - integer to narrower integer: wraps, two's complement
    - to a narrower float: nearest, ties to even, rounded once. fp8 saturates at 448, its variants without
      infinities at their largest number, and fp4 at 6 (fp4 has no nan and represents it as 6). fp8e5m2 has
      infinities, as float16
    """
    target = numpy_dtype(t)
    if x.dtype == target:
        return x
    if t is DataType.BOOL:
        return np.asarray(x != np.zeros((), x.dtype))
    if is_float(t):
        return _round(x, t)
    return _truncate(x, t) if _holds_floats(x) else _wrap(x, t)


def _holds_floats(x: Array) -> bool:
    known = _BY_NUMPY.get(x.dtype.name)
    return x.dtype.kind == "f" if known is None else is_float(known)


def _round(x: Array, t: DataType) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        if t in (DataType.FLOAT, DataType.DOUBLE):
            return x.astype(numpy_dtype(t))
        single = (to_odd(x) if x.dtype == np.float64 else x).astype(np.float32)
        if t in _SATURATES:
            single = np.clip(single, -_SATURATES[t], _SATURATES[t])
        if t is DataType.FP4:
            single = np.where(np.isnan(single), np.float32(_SATURATES[t]), single)
        return single.astype(numpy_dtype(t))


def to_odd(x: Array) -> Array:
    """float64 truncated to 14 bits behind the first one, with the last bit set if a truncated bit was:
    float32 represents these numbers if any narrower float is not 0, and rounds them like `x` itself."""
    bits = x.view(np.int64)
    return np.asarray((bits | ((bits & BEHIND) + BEHIND)) & ~BEHIND).view(np.float64)


def _truncate(x: Array, t: DataType) -> Array:
    wide = np.trunc(x.astype(np.float64))
    signed, store = is_signed(t), held_dtype(t)
    low = -(1 << bits(t) - 1) if signed else 0
    high = (1 << bits(t) - signed) - 1
    # `high + 1` is a power of two and therefore exact in float64; `high` itself is not for int64.
    above, below = wide >= float(high + 1), wide < float(low)
    out = np.where(above | below | np.isnan(wide), 0.0, wide).astype(store)
    out = np.where(above, store.type(high), np.where(below, store.type(low), out))
    return out.astype(numpy_dtype(t))


def _wrap(x: Array, t: DataType) -> Array:
    if not is_packed(t):
        return x.astype(numpy_dtype(t))
    codes = x.astype(np.uint8) & np.uint8((1 << bits(t)) - 1)
    return _extended(codes, t).view(held_dtype(t)).astype(numpy_dtype(t))


def held_dtype(t: DataType) -> np.dtype[np.generic]:
    """The NumPy type for computing with elements of an integer type: a byte for packed ones."""
    return numpy_dtype(t) if not is_packed(t) else np.dtype(np.int8 if is_signed(t) else np.uint8)


def _extended(codes: npt.NDArray[np.uint8], t: DataType) -> npt.NDArray[np.uint8]:
    """Codes of packed integers with their sign in all higher bits, modulo 256."""
    if not (is_integer(t) and is_signed(t)):
        return codes
    half = np.uint8(1 << bits(t) - 1)
    return (codes ^ half) - half
