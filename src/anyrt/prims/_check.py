"""Checks that several shape rules share."""

from __future__ import annotations

from math import prod

from anyrt.core.dimlimits import MAX_AXES
from anyrt.core.dims import Dim, always_le, equal, minimum, product
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, DTypeError, GraphError, ShapeError
from anyrt.ir.graph import Shape, Type

VALUE_LIMIT = 64  # shape tensors are short; more elements than this are never followed symbolically


def expect(args: tuple[Type, ...], count: int, where: str) -> None:
    """Exactly `count` operands."""
    if len(args) != count:
        raise GraphError("AR406", where, got=f"{len(args)} operands", wanted=str(count))


def check_shape(shape: Shape, where: str) -> Shape:
    """`shape`, if a value can have it; a layer's output has fewer axes (ops/_check.py)."""
    if len(shape) > MAX_AXES:
        raise ShapeError("AR115", where, got=f"rank {len(shape)}", wanted=f"at most {MAX_AXES}")
    if any(isinstance(d, int) and d < 0 for d in shape):
        raise ShapeError("AR120", where, got=f"shape {show(shape)}", wanted="dimensions >= 0")
    return shape


def check_axis(axis: int, rank: int, where: str) -> None:
    """0 <= axis < rank."""
    if not 0 <= axis < rank:
        raise ArgumentError("AR303", where, got=f"axis {axis}", wanted=f"0 to {rank - 1} (rank {rank})")


def check_type(got: DataType, accepted: frozenset[DataType], where: str) -> None:
    """`got` is among the types `accepted`."""
    if got not in accepted:
        names = ", ".join(sorted(map(short_name, accepted)))
        raise DTypeError("AR202", where, got=short_name(got), wanted=f"one of {names}", do="cast the operand")


def same_types(types: tuple[DataType, ...], where: str) -> None:
    """All operands have one element type."""
    if len(set(types)) > 1:
        got = ", ".join(map(short_name, types))
        raise DTypeError("AR203", where, got=got, wanted="one type", do="cast the operands to one type")


def differ(a: Dim, b: Dim) -> bool:
    """True when two sizes can never be equal."""
    return equal(a, b) == 0


def known_size(d: Dim) -> int:
    """A size that is a number: references run after the interpreter has substituted sizes."""
    assert isinstance(d, int), f"size {d} should have been replaced by a number"
    return d


def short_shape(shape: Shape) -> tuple[int, ...] | None:
    """`shape` if it is static and small enough to follow each element."""
    sizes = tuple(d for d in shape if isinstance(d, int) and d <= VALUE_LIMIT)
    return sizes if len(sizes) == len(shape) and prod(sizes) <= VALUE_LIMIT else None


def show(shape: Shape) -> str:
    """A shape for messages."""
    return f"[{', '.join(map(repr, shape))}]"


def not_empty(shape: Shape) -> Dim:
    """1, or 0 for sizes with which there is nothing to read; 1 itself if that cannot be."""
    return product(minimum(d, 1) for d in shape if not always_le(1, d))
