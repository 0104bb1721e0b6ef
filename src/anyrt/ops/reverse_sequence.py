"""ReverseSequence: reverses the first elements of each sequence of a batch.

add_reverse_sequence(x, lengths)      # x: (T, B, …), lengths: (B,)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.ir.graph import Value
from anyrt.ops._check import check_axis, checked, show
from anyrt.ops._lengths import lengths_within
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import INTS, STORAGE
from anyrt.prims.build import cast, gather, iota, map_, reshape, scalar
from anyrt.prims.build import expand as expand_


@dataclass(frozen=True, slots=True)
class ReverseSequenceAttrs(Attrs):
    """Attributes of ReverseSequence."""

    batch_axis: int = attr(Kind.INT, "batch axis, which counts sequences", 1)
    sequence_axis: int = attr(Kind.INT, "axis along which each sequence is reversed", 0)


def expand(layer: Layer[ReverseSequenceAttrs]) -> tuple[Value, ...]:
    """A `Gather`: below the length n, position i reads n − 1 − i. The inference checks lengths that are not
    constant before it reads the input."""
    x = layer.input(0)
    batch, axis, rank = layer.attrs.batch_axis, layer.attrs.sequence_axis, layer.input(0).type.rank
    most = x.shape[axis]
    lengths, rules = lengths_within(layer.name, layer.input(1), most, "a sequence", "the sequence axis")
    row = tuple(x.shape[batch] if k == batch else 1 for k in range(rank))
    length = cast(reshape(lengths, row), DataType.INT32)  # no axis is longer
    at = iota(tuple(most if k == axis else 1 for k in range(rank)), axis, DataType.INT32)
    back = map_("sub", map_("sub", length, scalar(1, length)), at)
    place = map_("select", map_("lt", at, length), back, at)
    return (checked(gather(x, expand_(place, x.shape), axis), rules),)


def _axes(layer: Layer[ReverseSequenceAttrs]) -> str:
    """The axes of the input, checked; the batch axis counts sequences."""
    _check(layer)
    batch, rank = layer.attrs.batch_axis, layer.input(0).type.rank
    return " ".join("sequences" if k == batch else f"axis_{k}" for k in range(rank))


def _check(layer: Layer[ReverseSequenceAttrs]) -> None:
    """Raises unless batch_axis and sequence_axis are two axes of the input."""
    x = layer.input(0)
    batch, axis = layer.attrs.batch_axis, layer.attrs.sequence_axis
    if x.type.rank < 2:
        got = f"an input of shape {show(x.shape)}"
        raise ShapeError("AR101", layer.name, got, "at least 2 dimensions", "add a batch dimension of 1")
    for which in (batch, axis):
        check_axis(layer.name, which, x.type.rank)
    if batch == axis:
        got = f"axis {axis} for both batch_axis and sequence_axis"
        raise ArgumentError("AR305", layer.name, got, "two different axes", "change one of them")


def ref(attrs: ReverseSequenceAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Sequence by sequence, with a reversed slice; raises ValueError for a length out of range."""
    x, lengths = arrays
    if np.any(np.less(lengths, 0) | np.greater(lengths, x.shape[attrs.sequence_axis])):
        raise ValueError(f"lengths {lengths.tolist()}")
    y = np.moveaxis(x.copy(), (attrs.batch_axis, attrs.sequence_axis), (0, 1))
    for sequence, n in zip(y, lengths, strict=True):
        sequence[: int(n)] = sequence[: int(n)][::-1].copy()
    return (np.moveaxis(y, (0, 1), (attrs.batch_axis, attrs.sequence_axis)),)


def cases() -> tuple[Case[ReverseSequenceAttrs], ...]:
    """Every type and pair of axes; lengths of 0, 1 and the whole axis; empty tensors."""
    r, f, i32, i64 = ReverseSequenceAttrs, DataType.FLOAT, DataType.INT32, DataType.INT64
    three, five = np.array([4, 0, 1]), np.array([5, 2, 3])
    out = [Case(r(), ((4, 3), (3,)), (f, i32), (None, three))]
    out += [Case(r(), ((5, 3, 2), (3,)), (t, i64), (None, five)) for t in sorted(STORAGE, key=int)]
    out += [
        Case(r(batch, axis), (shape, lengths.shape), (f, i32), (None, lengths))
        for batch, axis, shape, lengths in (
            (0, 1, (3, 5), five),
            (0, 1, (3, 5, 7), five),
            (0, 2, (3, 2, 40), np.array([40, 17, 0])),
            (2, 0, (5, 2, 3), five),
            (2, 1, (1, 5, 3), five),
            (0, 1, (1, 1), np.array([1])),
            (1, 3, (2, 3, 1, 5), five),
            (1, 0, (5, 0), np.empty(0, np.int32)),
            (1, 0, (0, 3), np.array([0, 0, 0])),
        )
    ]
    return tuple(out)


def mistakes() -> tuple[Mistake[ReverseSequenceAttrs], ...]:
    """Wrong axes, shapes and types; tests of inference cover lengths that are not constant."""
    r, f, i32 = ReverseSequenceAttrs, DataType.FLOAT, DataType.INT32
    x, types = ((4, 3), (3,)), (f, i32)
    return (
        Mistake("AR305", "one axis as batch_axis and sequence_axis", r(0, 0), x, types),
        Mistake("AR303", "a batch axis outside the rank", r(2, 0), x, types),
        Mistake("AR303", "a negative sequence axis", r(0, -1), x, types),
        Mistake("AR101", "an input of rank 1", r(), ((4,), (4,)), types),
        Mistake("AR123", "a number of lengths other than of sequences", r(), ((4, 3), (4,)), types),
        Mistake("AR123", "lengths of a rank other than 1", r(), ((4, 3), (3, 1)), types),
        Mistake("AR123", "a wrong number of lengths at run time", r(), ((4, 3), (4,)), types, dynamic=True),
        Mistake("AR202", "non-integer lengths", r(), x, (f, f)),
        Mistake("AR202", "an unsupported element type", r(), x, (DataType.E8M0, i32)),
    )


OPS = (
    Op(
        layer=LayerType.REVERSE_SEQUENCE,
        cls="IReverseSequenceLayer",
        methods=(
            Method(
                "add_reverse_sequence",
                ("input", "sequence_lens"),
                example="lengths = network.add_constant((3,), np.int32([1, 0, 1])).get_output(0)\n"
                "layer = network.add_reverse_sequence(x, lengths)",
            ),
        ),
        inputs=(Input("input", STORAGE, axes=_axes), Input("sequence_lens", INTS, axes="sequences")),
        attrs=ReverseSequenceAttrs,
        expand=expand,
        ref=ref,
        doc="Reverses the first elements of each sequence, up to its length, and copies the others. A length "
        "must lie between 0 and the size of the sequence axis. Otherwise the build fails for constant "
        "lengths, and the inference for others, before any output is written. uint8, fp8 and 4-bit types are "
        "extensions.",
        cases=cases,
        mistakes=mistakes,
        onnx=("ReverseSequence",),
        source="operator page ReverseSequence",
    ),
)
