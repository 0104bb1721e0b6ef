"""Checks that operators share. Each raises an error that names the layer.

A condition on dynamic sizes that the build cannot decide becomes a `Requirement`;
`checked` attaches requirements to a value.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyrt.core.dimlimits import MAX_RANK
from anyrt.core.dims import Dim, add, always_le, bounds, mul, product
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError, error
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.graph import Shape, Value, apply
from anyrt.ir.prim import Array
from anyrt.ir.symbolic import known
from anyrt.prims.checked import Checked
from anyrt.prims.closed import evaluate
from anyrt.prims.const import Const
from anyrt.prims.map import Map

Requirements = tuple[Requirement, ...]


def need(
    where: str, left: Dim, relation: Relation, right: Dim, code: str, got: str, wanted: str, do: str
) -> Requirements:
    """An empty tuple if the relation (EQ or LE) always holds, else the requirement. Raises an error with
    `code` if the relation never holds."""
    difference = add(right, mul(left, -1))
    low, high = bounds(difference)
    fails = high < 0 or (relation is Relation.EQ and low > 0)
    if fails:
        raise error(code, where, got=got, wanted=wanted, do=do)
    holds = difference == 0 if relation is Relation.EQ else always_le(left, right)
    return () if holds else (Requirement(left, relation, right, code, where, do),)


def checked(value: Value, requirements: Iterable[Requirement]) -> Value:
    """`value`, with requirements that must hold when it is computed."""
    kept = tuple(dict.fromkeys(requirements))
    return apply(Checked(kept), value) if kept else value


def show(shape: Shape | tuple[float, ...]) -> str:
    """A shape for messages."""
    return f"({', '.join(map(repr, shape))})"


def check_rank(where: str, shape: Shape) -> None:
    """Raises AR115 for an output with more than MAX_RANK axes. Values inside a layer may have more."""
    if len(shape) > MAX_RANK:
        got = f"{len(shape)} axes in {show(shape)}"
        raise ShapeError("AR115", where, got, f"at most {MAX_RANK}", "merge axes, or remove those of size 1")


def check_axis(where: str, axis: int, rank: int) -> None:
    """Raises AR303 unless 0 <= axis < rank."""
    if not 0 <= axis < rank:
        raise ArgumentError(
            "AR303", where, f"axis {axis}", f"0 to {rank - 1}", f"the input has {rank} dimensions"
        )


def axes_of(where: str, mask: int, rank: int) -> tuple[int, ...]:
    """The axes of a bit mask. Raises AR302 if it has no bit, or one outside the rank."""
    if mask <= 0 or mask >> rank:
        got, wanted = f"axes {bin(mask)} for rank {rank}", f"bits 0 to {rank - 1}, at least one of them"
        raise ArgumentError("AR302", where, got, wanted, "bit i stands for dimension i")
    return tuple(i for i in range(rank) if mask >> i & 1)


def normalized_axes(where: str, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """The axes as indices from 0; negative ones count from the end. Raises AR305 for a repeated axis."""
    numbers = tuple(axes)
    for axis in numbers:
        if not -rank <= axis < rank:
            raise ArgumentError(
                "AR303", where, f"axis {axis}", f"{-rank} to {rank - 1}", "name an axis that exists"
            )
    out = tuple(axis % rank for axis in numbers)
    if len(set(out)) < len(out):
        got, do = f"axes {show(numbers)} for rank {rank}", "drop the repeated axis"
        raise ArgumentError("AR305", where, got, "every axis once", do)
    return out


def check_dtype(where: str, got: DataType, allowed: frozenset[DataType], what: str) -> None:
    """Raises AR202 unless `got` is one of the types that `what` supports."""
    if got not in allowed:
        names = ", ".join(short_name(t) for t in sorted(allowed, key=int))
        raise DTypeError("AR202", where, f"{short_name(got)} for {what}", f"one of {names}", "cast the input")


def check_weights(where: str, got: DataType, tensor: DataType, what: str) -> None:
    """Raises AR205 unless weights are float32, or of the type of the tensor that they are used with."""
    if got not in {DataType.FLOAT, tensor}:
        wanted = " or ".join(dict.fromkeys((short_name(tensor), short_name(DataType.FLOAT))))
        raise DTypeError("AR205", where, f"{what} of type {short_name(got)}", wanted, "convert the weights")


def check_same_rank(where: str, values: Iterable[Value]) -> None:
    """Raises AR122 unless all operands have the same rank."""
    ranks = [v.type.rank for v in values]
    if len(set(ranks)) > 1:
        got, do = (
            f"ranks {', '.join(map(str, ranks))}",
            "add dimensions of size 1 with a shuffle or unsqueeze",
        )
        raise ShapeError("AR122", where, got, "equal ranks", do)


def constants(where: str, value: Value, what: str) -> tuple[int, ...]:
    """The elements of a one-dimensional integer operand that must be known when the network is built."""
    if value.type.rank != 1:
        got = f"{what} of rank {value.type.rank}"
        raise ShapeError("AR123", where, got, "rank 1", "give one element for each dimension")
    elements = known(value)
    out = tuple(d for d in ([] if elements is None else elements.tolist()) if isinstance(d, int))
    if elements is None or len(out) != product(value.shape):
        raise ShapeError(
            "AR121", where, f"{what} that is not constant", "build-time constants", "use add_constant"
        )
    return out


def constant_of(value: Value | None) -> Const | None:
    """The constant that an operand is, or is computed from by unary functions such as a cast; else None."""
    while value is not None and isinstance(value.op, Map) and len(value.args) == 1:
        value = value.args[0]
    return value.op if value is not None and isinstance(value.op, Const) else None


def is_constant(value: Value | None) -> bool:
    """Whether an operand is a constant layer's output, or a function of one."""
    return constant_of(value) is not None


def held(value: Value) -> Array:
    """The elements of a constant operand, in the interpreter's types."""
    return value.op.blob.array if isinstance(value.op, Const) else evaluate(value)


def static_shape(where: str, shape: Shape, what: str) -> tuple[int, ...]:
    """Static dimensions; raises an error if one is dynamic."""
    out = tuple(d for d in shape if isinstance(d, int))
    if len(out) < len(shape):
        raise ShapeError(
            "AR117", where, f"{what} {show(shape)}", "static dimensions", "fix these sizes in the input"
        )
    return out
