"""What is known about element types: sizes, NumPy counterparts, packing of 4-bit types, the reference casts.

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
}
_BY_SHORT = {short: t for t, (short, _) in _NAMES.items()}
_BY_NUMPY = {name: t for t, (_, name) in _NAMES.items()}
_FOREIGN = frozenset({DataType.BF16, DataType.FP8, DataType.INT4, DataType.FP4, DataType.E8M0})
_FLOATS = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.FP8, DataType.FP4, DataType.E8M0})
_INTEGERS = frozenset({DataType.INT8, DataType.UINT8, DataType.INT32, DataType.INT64, DataType.INT4})
_UNSIGNED = frozenset({DataType.BOOL, DataType.UINT8, DataType.E8M0})
# The largest finite value of the types whose conversion saturates instead of giving infinity.
_SATURATES = {DataType.FP8: 448.0, DataType.FP4: 6.0}


def bits(t: DataType) -> int:
    """Bits of one element."""
    return int(t.itemsize * 8)


def is_float(t: DataType) -> bool:
    """Whether `t` is a floating-point type."""
    return t in _FLOATS


def is_integer(t: DataType) -> bool:
    """Whether `t` is an integer type; bool is not."""
    return t in _INTEGERS


def is_signed(t: DataType) -> bool:
    """Whether `t` has negative values."""
    return t not in _UNSIGNED


def is_packed(t: DataType) -> bool:
    """Whether two elements share a byte, the first in the low nibble."""
    return bits(t) == 4


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
    found = np.dtype(dtype)
    if found.name not in _BY_NUMPY or not found.isnative:
        known = ", ".join(_BY_NUMPY)
        do = "convert the array first, for example with astype(np.float32)"
        raise DTypeError(
            "AR204", "", got=f"a NumPy array of {found.str} ({found.name})", wanted=f"one of {known}", do=do
        )
    return _BY_NUMPY[found.name]


def storage_bytes(t: DataType, count: int) -> int:
    """Bytes that `count` elements take in memory and in a plan."""
    return (count * bits(t) + 7) // 8


def pack4(x: Array) -> npt.NDArray[np.uint8]:
    """`x`, an array of int4 or float4_e2m1fn (one to a byte), as flat bytes with two elements each."""
    nibbles: npt.NDArray[np.uint8] = np.ascontiguousarray(x).reshape(-1).view(np.uint8) & np.uint8(0xF)
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    return nibbles[0::2] | (nibbles[1::2] << np.uint8(4))


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
    nibbles = np.stack([flat & 0xF, flat >> 4], axis=1).reshape(-1)[:count]
    if t is DataType.INT4:
        nibbles = (nibbles ^ 8) - 8  # sign extension, modulo 256
    return nibbles.view(numpy_dtype(t))


def cast(x: Array, t: DataType) -> Array:
    """`x` converted by the rules that every kernel follows; `x` itself when it has the type already.

    - to bool: `x != 0`, so that nan is true
    - float to integer: truncated toward zero and saturated, nan becomes 0
    - integer to narrower integer: wraps, two's complement
    - to a narrower float: nearest, ties to even, and through float32 when the target is narrower than that;
      fp8 saturates at 448 and fp4 at 6 (fp4 has no nan and takes 6 for it)
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
        if t is DataType.FLOAT:
            return x.astype(np.float32)
        single = x.astype(np.float32)
        if t in _SATURATES:
            single = np.clip(single, -_SATURATES[t], _SATURATES[t])
        if t is DataType.FP4:
            single = np.where(np.isnan(single), np.float32(_SATURATES[t]), single)
        return single.astype(numpy_dtype(t))


def _truncate(x: Array, t: DataType) -> Array:
    wide = np.trunc(x.astype(np.float64))
    signed, store = is_signed(t), np.dtype(np.int8) if t is DataType.INT4 else numpy_dtype(t)
    low = -(1 << bits(t) - 1) if signed else 0
    high = (1 << bits(t) - signed) - 1
    # `high + 1` is a power of two and therefore exact in float64; `high` itself is not for int64.
    above, below = wide >= float(high + 1), wide < float(low)
    out = np.where(above | below | np.isnan(wide), 0.0, wide).astype(store)
    out = np.where(above, store.type(high), np.where(below, store.type(low), out))
    return out.astype(numpy_dtype(t))


def _wrap(x: Array, t: DataType) -> Array:
    if t is not DataType.INT4:
        return x.astype(numpy_dtype(t))
    nibbles = x.astype(np.uint8) & 0xF
    return ((nibbles ^ 8) - 8).view(np.int8).astype(numpy_dtype(t))
