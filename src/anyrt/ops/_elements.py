"""Sizes from elements of operands: some follow from other sizes, the others are known at inference only.

If `known` has no value for an element, it is a data-dependent dimension (core/counts.py), which a `Count`
computes. The layer's result is tied to the `Count`, so that every graph of the layer's output contains it.

    sizes = vector(layer, 1, "the sizes")
    return (with_counts(layer, taps(x, 0, sizes[0], rule), 1),)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from anyrt.core.counts import count as bounded_count
from anyrt.core.counts import open_count
from anyrt.core.dims import Dim, bounds
from anyrt.core.dtype import is_integer
from anyrt.core.enums import DataType
from anyrt.core.errors import ShapeError
from anyrt.ir.graph import Value, apply
from anyrt.ir.symbolic import known
from anyrt.ops._record import A, Layer
from anyrt.prims._check import VALUE_LIMIT
from anyrt.prims.build import cast, reshape, slice_
from anyrt.prims.checked import Checked
from anyrt.prims.concat import Concat
from anyrt.prims.count import Count
from anyrt.prims.map import CAST, Map, fn_of
from anyrt.prims.reshape import Reshape
from anyrt.prims.view import View

Element: TypeAlias = tuple[
    Dim, Value | None
]  # a size, and the value that computes it if it is data-dependent


def vector(layer: Layer[A], operand: int, what: str) -> tuple[Dim, ...]:
    """The elements of a one-dimensional integer operand as sizes."""
    value = layer.input(operand)
    if value.type.rank != 1:
        got = f"input {operand} ({what}) of rank {value.type.rank}"
        raise ShapeError("AR123", layer.name, got, "rank 1", "give one element for each dimension")
    return tuple(size for size, _ in elements(layer.name, operand, value))


def with_counts(layer: Layer[A], y: Value, *operands: int) -> Value:
    """`y`, tied to the data-dependent dimensions that are elements of these operands."""
    values = ((k, layer.optional(k)) for k in operands)
    parts = (x for k, value in values if value is not None for x in elements(layer.name, k, value))
    return tied(y, (tells for _, tells in parts if tells is not None))


def tied(y: Value, tells: Iterable[Value]) -> Value:
    """`y`, tied to values that compute data-dependent dimensions: a graph with `y` contains them."""
    for number in dict.fromkeys(tells):
        y = apply(Checked(()), y, number)
    return y


def elements(where: str, operand: int, value: Value) -> list[Element]:
    """Each element of a short integer value, an operand of the layer `where`."""
    (count,) = value.shape or (1,)
    if not isinstance(count, int) or count > VALUE_LIMIT:
        got, do = f"input {operand}, {count} elements", "give an operand whose length is known"
        raise ShapeError("AR121", where, got, f"at most {VALUE_LIMIT}, a fixed number", do)
    return list(_elements(f"{where}#{operand}", value))


def _elements(name: str, value: Value) -> Iterator[Element]:
    match value.op:
        case Concat():  # some of its parts may be known
            for k, part in enumerate(value.args):
                yield from _elements(f"{name}.{k}", part)
            return
        case Checked() | Reshape() | Map(fn="identity"):
            if value.args[0].type.rank <= 1:
                yield from _elements(name, value.args[0])
                return
        case Map(fn=fn, dtype=DataType.INT64) if fn == CAST and is_integer(value.args[0].dtype):
            yield from _elements(name, value.args[0])
            return
    sizes = known(value)
    if sizes is not None:
        yield from ((size, None) for size in sizes.reshape(-1).tolist())
        return
    numbers = cast(reshape(value, value.shape or (1,)), DataType.INT64)
    (count,) = numbers.shape
    assert isinstance(count, int), f"{name} has {count} elements"
    most = _most(value)
    for k in range(count):
        called = f"{name}[{k}]" if value.shape else name
        sym = open_count(called) if most is None else bounded_count(called, most)
        yield sym.dim, apply(Count(sym), reshape(slice_(numbers, (k,), (1,), (1,)), ()))


def _most(value: Value) -> Dim | None:
    """The upper bound of a number that is not negative: `bound` of min(max(x, 0), bound), in either order."""
    limits = [bound for x, bound in _pairs(value, "min") if any(_is_zero(y) for _, y in _pairs(x, "max"))]
    for x, zero in _pairs(value, "max"):
        limits += [bound for _, bound in _pairs(x, "min") if _is_zero(zero)]
    for limit in map(known, limits):
        if limit is not None and limit.size == 1 and bounds(limit.reshape(-1)[0])[0] >= 0:
            most: Dim = limit.reshape(-1)[0]
            return most
    return None


def _pairs(value: Value, fn: str) -> Iterator[tuple[Value, Value]]:
    """The operands of a binary function, in both orders; views and integer casts of it are skipped."""
    while isinstance(value.op, Checked | Reshape | View) or _is_integer_cast(value):
        value = value.args[0]
    if fn_of(value) == fn:
        a, b = value.args
        yield from ((a, b), (b, a))


def _is_integer_cast(value: Value) -> bool:
    return fn_of(value) == CAST and is_integer(value.args[0].dtype)


def _is_zero(value: Value) -> bool:
    numbers = known(value)
    return numbers is not None and not numbers.any()
