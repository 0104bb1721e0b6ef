"""DistCollective: an exchange between devices, for the one that there is.

add_dist_collective(x, CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM, -1, None)
"""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.enums import DataType, LayerType, ReduceOperation
from anyrt.core.enums_more import CollectiveOperation
from anyrt.core.errors import ArgumentError, NotSupportedError, ShapeError
from anyrt.ir.graph import Value
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS
from anyrt.prims.build import identity

C, R = CollectiveOperation, ReduceOperation
REDUCING = frozenset({C.ALL_REDUCE, C.REDUCE, C.REDUCE_SCATTER})
ROOTED = frozenset({C.BROADCAST, C.REDUCE, C.GATHER, C.SCATTER})
CUT = frozenset({C.ALL_GATHER, C.REDUCE_SCATTER, C.ALL_TO_ALL, C.GATHER, C.SCATTER})


@dataclass(frozen=True, slots=True)
class DistCollectiveAttrs(Attrs):
    """Attributes of DistCollective."""

    dist_collective_op: CollectiveOperation = attr(Kind.ENUM, "what is exchanged", enum=CollectiveOperation)
    reduce_op: ReduceOperation = attr(
        Kind.ENUM, "how elements are folded; NONE where nothing is", R.NONE, enum=ReduceOperation
    )
    root: int = attr(Kind.INT, "the device that sends or receives; -1 where none does", -1)
    groups: tuple[int, ...] | None = attr(
        Kind.DIMS, "the devices that take part; None: all of them", None, optional=True
    )


def expand(layer: Layer[DistCollectiveAttrs]) -> tuple[Value, ...]:
    """A copy: among one device every fold, copy and exchange gives what it had."""
    x, attrs = layer.input(0), layer.attrs
    _check(layer.name, attrs)
    if attrs.dist_collective_op in CUT and x.type.rank == 0:
        raise ShapeError("AR101", layer.name, "rank 0", "rank >= 1", "add a dimension of size 1")
    return (identity(x),)


def _check(where: str, attrs: DistCollectiveAttrs) -> None:
    """What the operation needs, and no device but the one."""
    op, folds = attrs.dist_collective_op, attrs.reduce_op is not R.NONE
    if folds != (op in REDUCING):
        wanted = "SUM, PROD, MAX, MIN or AVG" if op in REDUCING else "NONE"
        raise ArgumentError("AR304", where, f"{attrs.reduce_op.name} for {op.name}", wanted)
    if op in ROOTED and attrs.root < 0:
        raise ArgumentError("AR304", where, f"root {attrs.root} for {op.name}", "a device", "set it to 0")
    others = [rank for rank in (attrs.root, *(attrs.groups or ())) if rank > 0]
    if others:
        do = "exchange arrays between engines outside of them"
        raise NotSupportedError("AR901", where, f"device {others[0]}", "device 0: an engine runs on one", do)


def ref(attrs: DistCollectiveAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The array."""
    return (arrays[0],)


def _needed(op: CollectiveOperation, reduce_op: ReduceOperation = R.SUM) -> DistCollectiveAttrs:
    """The attributes that go with an operation."""
    folded = reduce_op if op in REDUCING else R.NONE
    return DistCollectiveAttrs(op, folded, 0 if op in ROOTED else -1, (0,) if op is C.ALL_GATHER else None)


def cases() -> tuple[Case[DistCollectiveAttrs], ...]:
    """Every operation and fold, every type."""
    return (
        *(Case(_needed(op), ((3, 5),)) for op in C),
        *(Case(_needed(C.ALL_REDUCE, fold), ((4,),)) for fold in R if fold is not R.NONE),
        *(Case(_needed(C.ALL_REDUCE), ((3, 17),), (t,)) for t in sorted(FLOATS | INTS, key=int)),
        Case(_needed(C.BROADCAST), ((),)),
        Case(_needed(C.REDUCE_SCATTER), ((0, 3),)),
    )


def mistakes() -> tuple[Mistake[DistCollectiveAttrs], ...]:
    """Folds, roots, devices, ranks, types."""
    a = DistCollectiveAttrs
    return (
        Mistake("AR304", "a fold that is missing", a(C.ALL_REDUCE), ((3,),)),
        Mistake("AR304", "a fold where nothing is folded", a(C.ALL_GATHER, R.SUM), ((3,),)),
        Mistake("AR304", "a root that is missing", a(C.BROADCAST), ((3,),)),
        Mistake("AR901", "a root that is another device", a(C.BROADCAST, root=1), ((3,),)),
        Mistake("AR901", "a group of several devices", a(C.ALL_GATHER, groups=(0, 1)), ((3,),)),
        Mistake("AR101", "an input of rank 0 that would be cut", a(C.ALL_GATHER), ((),)),
        Mistake("AR202", "a type that it does not take", a(C.ALL_GATHER), ((3,),), (DataType.BOOL,)),
    )


OPS = (
    Op(
        layer=LayerType.DIST_COLLECTIVE,
        cls="IDistCollectiveLayer",
        methods=(
            Method(
                "add_dist_collective",
                ("input", "dist_collective_op", "reduce_op", "root", "groups"),
                example="every, total = trt.CollectiveOperation.ALL_REDUCE, trt.ReduceOperation.SUM\n"
                "layer = network.add_dist_collective(x, every, total, -1, None)",
            ),
        ),
        inputs=(Input("input", FLOATS | INTS),),
        attrs=DistCollectiveAttrs,
        expand=expand,
        ref=ref,
        doc="Exchanges data between the devices that run a network. An engine here runs on one, for which "
        "every "
        "operation gives what it was given: a sum over one device, a gathering of one part. Other devices, "
        "as a root, in a group, or by num_ranks, are refused by name.",
        cases=cases,
        mistakes=mistakes,
        source="operator page DistCollective; from 10.16",
        exchanges=True,
    ),
)
