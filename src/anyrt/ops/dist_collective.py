"""DistCollective: exchanges data between the ranks that run a network, each in a process of its own.

add_dist_collective(x, CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM, -1, None).num_ranks = 2
"""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.collectives import CUT, JOINED, REDUCING, ROOTED
from anyrt.core.enums import CollectiveOperation, DataType, LayerType, ReduceOperation
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.ir.graph import Value, apply
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS, OWN_NUMBERS, PACKED
from anyrt.prims.build import identity
from anyrt.prims.collective import Collective

C, R = CollectiveOperation, ReduceOperation
NUMBERS = FLOATS | INTS | OWN_NUMBERS - PACKED | {DataType.INT8, DataType.UINT8, DataType.FP8}


@dataclass(frozen=True, slots=True)
class DistCollectiveAttrs(Attrs):
    """Attributes of DistCollective."""

    dist_collective_op: CollectiveOperation = attr(Kind.ENUM, "the operation", enum=CollectiveOperation)
    reduce_op: ReduceOperation = attr(
        Kind.ENUM, "how elements are reduced; NONE for other operations", R.NONE, enum=ReduceOperation
    )
    root: int = attr(Kind.INT, "the rank that sends or receives; -1 for operations without a root", -1)
    groups: tuple[int, ...] | None = attr(
        Kind.DIMS, "the ranks that take part, in order; None or (): all of them", None, optional=True
    )


def expand(layer: Layer[DistCollectiveAttrs]) -> tuple[Value, ...]:
    """A `Collective`; for one rank a copy, as every operation then returns its input."""
    x, attrs = layer.input(0), layer.attrs
    _check(layer.name, attrs, layer.ranks)
    op, group = attrs.dist_collective_op, attrs.groups or ()
    if op in CUT | JOINED and x.type.rank == 0:
        raise ShapeError("AR101", layer.name, "rank 0", "rank >= 1", "add a dimension of size 1")
    if layer.ranks == 1:
        return (identity(x),)
    collective = Collective(layer.name, op, attrs.reduce_op, attrs.root, group, layer.ranks, x.shape)
    return (apply(collective, x),)


def _check(where: str, attrs: DistCollectiveAttrs, ranks: int) -> None:
    """Raises AR304 unless the reduction, the root and the ranks fit the operation."""
    op, folds = attrs.dist_collective_op, attrs.reduce_op is not R.NONE
    if folds != (op in REDUCING):
        wanted = "SUM, PROD, MAX, MIN or AVG" if op in REDUCING else "NONE"
        raise ArgumentError("AR304", where, f"{attrs.reduce_op.name} for {op.name}", wanted)
    if op in ROOTED and attrs.root < 0:
        raise ArgumentError("AR304", where, f"root {attrs.root} for {op.name}", "a rank", "set it to 0")
    members = attrs.groups or tuple(range(ranks))
    if len(set(members)) != len(members) or min(members) < 0:
        raise ArgumentError("AR304", where, f"group {list(members)}", "distinct ranks, from 0")
    if len(members) != ranks:
        got, do = f"{len(members)} ranks in the group", f"set layer.num_ranks = {len(members)}"
        raise ArgumentError("AR304", where, got, f"num_ranks, which is {ranks}", do)
    if op in ROOTED and attrs.root not in members:
        do = f"name a rank of the group, or set layer.num_ranks to {attrs.root + 1} or more"
        raise ArgumentError("AR304", where, f"root {attrs.root}", f"one of ranks {list(members)}", do)


def ref(attrs: DistCollectiveAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The input, as for one rank."""
    return (arrays[0],)


def _needed(op: CollectiveOperation, reduce_op: ReduceOperation = R.SUM) -> DistCollectiveAttrs:
    """The attributes that an operation needs for one rank."""
    folded = reduce_op if op in REDUCING else R.NONE
    return DistCollectiveAttrs(op, folded, 0 if op in ROOTED else -1, (0,) if op is C.ALL_GATHER else None)


def cases() -> tuple[Case[DistCollectiveAttrs], ...]:
    """Every operation, reduction and type, for one rank."""
    return (
        *(Case(_needed(op), ((3, 5),)) for op in C),
        *(Case(_needed(C.ALL_REDUCE, fold), ((4,),)) for fold in R if fold is not R.NONE),
        *(Case(_needed(C.ALL_REDUCE), ((3, 17),), (t,)) for t in sorted(NUMBERS, key=int)),
        Case(_needed(C.BROADCAST), ((),)),
        Case(_needed(C.REDUCE_SCATTER), ((0, 3),)),
    )


def mistakes() -> tuple[Mistake[DistCollectiveAttrs], ...]:
    """Reductions, roots, groups, ranks, types."""
    a = DistCollectiveAttrs
    return (
        Mistake("AR304", "a missing reduction", a(C.ALL_REDUCE), ((3,),)),
        Mistake("AR304", "a reduction for an operation without one", a(C.ALL_GATHER, R.SUM), ((3,),)),
        Mistake("AR304", "a missing root", a(C.BROADCAST), ((3,),)),
        Mistake("AR304", "a root outside the group", a(C.BROADCAST, root=1), ((3,),)),
        Mistake("AR304", "a group whose size is not num_ranks", a(C.ALL_GATHER, groups=(0, 1)), ((3,),)),
        Mistake("AR304", "a group that names a rank twice", a(C.ALL_GATHER, groups=(0, 0)), ((3,),)),
        Mistake("AR101", "an input of rank 0 to split or join", a(C.ALL_GATHER), ((),)),
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
        inputs=(Input("input", NUMBERS),),
        attrs=DistCollectiveAttrs,
        expand=expand,
        ref=ref,
        doc="Exchanges data between the ranks that run a network. Each rank is a process with its own engine "
        "and a communicator, which set_communicator of its context sets. num_ranks is the number of ranks "
        "that take part: all of the communicator, or those of a group. With one rank, operations return "
        "their input. Data are split and joined along the first axis. Reductions follow the order of ranks, "
        "on every rank alike. After REDUCE, ranks other than the root have their input; after GATHER they "
        "have zeros. See the page on collectives.",
        cases=cases,
        mistakes=mistakes,
        source="operator page DistCollective; from 10.16",
        exchanges=True,
    ),
)
