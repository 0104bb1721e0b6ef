"""Positions of non-zero elements, for layers with data-dependent dimensions."""

from __future__ import annotations

from anyrt.core.counts import count
from anyrt.core.dims import Dim, add, minimum, mul, product
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value, apply
from anyrt.prims.build import cast, map_, pad, reduce_, reshape, scalar, slice_
from anyrt.prims.count import Count
from anyrt.prims.nonzero import BLOCK, NonZero, blocks
from anyrt.prims.scan import Scan


def positions(name: str, x: Value, dtype: DataType, most: Dim | None = None) -> tuple[Value, Value]:
    """The indices of non-zero elements, a column each, and their number, a data-dependent dimension `name`.
    `most`: an upper bound of the number beside that of elements."""
    ends = _ends(x)
    last = slice_(ends, (add(ends.shape[0], -1),), (1,), (1,))
    volume = product(x.shape)
    sym = count(name, volume if most is None else minimum(volume, most))
    number = apply(Count(sym), reshape(last, ()))
    return apply(NonZero(sym.dim, dtype), x, ends, number), number


def _ends(x: Value) -> Value:
    """The number of non-zero elements up to the end of each block."""
    is_some = x if x.dtype is DataType.BOOL else map_("ne", x, scalar(0, x))
    flat = cast(reshape(is_some, (product(x.shape),)), DataType.INT32)
    rest = add(mul(blocks(x.shape), BLOCK), mul(product(x.shape), -1))
    rows = reshape(pad(flat, (0,), (rest,), 0.0), (blocks(x.shape), BLOCK))
    sums = reshape(reduce_("sum", rows, (1,)), (blocks(x.shape),))
    return apply(Scan("sum", 0), cast(sums, DataType.INT64))
