"""Chains of layers with an empty tensor, built from the cases that operators list.

A chain begins with an input like an operand of some case; an axis of it may have size 0. Each layer has the
attributes of one of its own cases, where a size may be replaced by 0. One of its operands is the output of
the layer before it; the others are constants.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import numpy as np

from anyrt.core.dims import Dim, Sym, as_symbol
from anyrt.core.dims import symbols as symbols_of
from anyrt.core.dtype import cast, is_float, is_integer
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError
from anyrt.core.requirement import Requirement
from anyrt.ir.counted import counted
from anyrt.ir.graph import Graph, Symbol, Value, walk
from anyrt.ir.interpret import interpret
from anyrt.ir.prim import Array
from anyrt.ir.reference import widen
from anyrt.ops._cases import AnyCase, Run, dtype_of, open_in, operands
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import ABSENT, AnyOp, Attrs, Kind, Layer
from anyrt.ops._types import OWN
from anyrt.prims.build import const, map_, param

# Other types are of no first operand, represent real numbers (test_int8.py), or have no arithmetic.
TYPES = frozenset(DataType) - OWN - {DataType.INT8, DataType.E8M0} | {DataType.DOUBLE, DataType.UINT16}
ROUNDED = {DataType.HALF: "to_half", DataType.BF16: "to_bf16"}  # as networks round outputs of layers
RTOL = 1e-5  # chains exclude cases with a larger tolerance


@dataclass(frozen=True, slots=True)
class Chain:
    """`y` is the result of the layers for the input `x`, whose elements are `fed`. `layers` describes them,
    `slack` is the tolerance of the least exact one."""

    name: str
    x: Value
    y: Value
    symbols: tuple[Symbol, ...]
    fed: Array
    expected: Array
    layers: str
    slack: float


def joined(chains: Sequence[Chain]) -> Run:
    """Chains side by side in one graph."""
    graph = Graph(
        tuple((c.name, c.x) for c in chains),
        tuple((c.name, c.y) for c in chains),
        symbols=tuple(s for c in chains for s in c.symbols),
    )
    graph = counted(graph)
    sizes = {s.sym.name: c.fed.shape[s.axis] for c in chains for s in c.symbols}
    expected, types = tuple(c.expected for c in chains), tuple(c.y.dtype for c in chains)
    feeds, slack = {c.name: c.fed for c in chains}, tuple(c.slack for c in chains)
    return Run(graph, feeds, sizes, expected, types, rtol=RTOL, atol=1e-6, slack=slack)


class Unfit(Exception):
    """These cases cannot follow one another."""


def chain(ops: Sequence[AnyOp], dynamic: bool, tries: int = 1000) -> Chain | None:
    """A chain of these layers, the same for the same arguments; None if `tries` attempts find none."""
    name = "_".join([*(op.layer.name.lower() for op in ops), "dynamic" if dynamic else "static"])
    random = Random(zlib.crc32(name.encode()))
    for _ in range(tries):
        try:
            return _grown(name, ops, random, dynamic)
        except (AnyrtError, Unfit, ValueError, IndexError):
            continue
    return None


def _grown(name: str, ops: Sequence[AnyOp], random: Random, dynamic: bool) -> Chain:
    case, place, arrays = _pick(random.choice((ops[0], ops[-1])), None, None, random)
    held, dtype = _emptied(arrays[place], random), dtype_of(case, place)
    open_axes = random.choice((range(held.ndim), open_in(case, place, held.ndim))) if dynamic else ()
    symbols = tuple(Symbol(Sym(f"{name}.{k}"), name, k) for k in open_axes)
    sizes = {s.sym.name: held.shape[s.axis] for s in symbols}
    named = {s.axis: s.sym.dim for s in symbols}
    shape: tuple[Dim, ...] = tuple(named.get(k, n) for k, n in enumerate(held.shape))
    x = value = param(name, shape, dtype)
    results, steps, slack = [held], list[str](), 0.0
    for op in ops:
        value, answer, layer, own = _step(op, f"{name}{len(steps)}", value, results[-1], sizes, random)
        sizes |= _decided(value, answer)
        results.append(widen(cast(answer, value.dtype), value.dtype))
        steps.append(layer)
        slack = max(slack, own)
    if all(a.size for a in results):
        raise Unfit
    fed, layers = cast(held, dtype), f"{dtype.name}{held.shape} {steps}"
    with np.errstate(all="ignore"):  # raises if a condition on data does not hold
        interpret(counted(Graph(((name, x),), ((name, value),), symbols=symbols)), {name: fed}, sizes)
    return Chain(name, x, value, symbols, fed, results[-1], layers, slack)


def _holds(rule: Requirement, sizes: Mapping[str, int]) -> bool:
    """Whether the requirement holds; False if it has a data-dependent dimension of a layer's inside."""
    known = {s.name for s in symbols_of(rule.left) | symbols_of(rule.right)}
    return known <= sizes.keys() and rule.holds(sizes)


def _decided(value: Value, answer: Array) -> dict[str, int]:
    """The data-dependent dimensions of `value`, with their sizes."""
    pairs = zip(map(as_symbol, value.shape), answer.shape, strict=True)
    return {sym.name: n for sym, n in pairs if sym is not None and sym.most is not None}


def _step(
    op: AnyOp, name: str, value: Value, held: Array, sizes: Mapping[str, int], random: Random
) -> tuple[Value, Array, str, float]:
    """One more layer: its value, the result of the reference, its description, and its tolerance."""
    case, place, arrays = _pick(op, held.ndim, value.dtype, random)
    moved = held.shape != arrays[place].shape
    if case.rtol > RTOL or (moved and any(_counts(case, k) for k in range(len(case.data)))):
        raise Unfit
    attrs, before = _with_a_zero(op, case.attrs, random), arrays[place].shape
    args = [a if _decides(op, k) else _like(a, before, held.shape) for k, a in enumerate(arrays)]
    args[place] = held
    values = [None if a is ABSENT else const(a, dtype_of(case, k)) for k, a in enumerate(args)]
    values[place] = value
    after = expand_layer(op, Layer(name, attrs, tuple(values)))[0]
    after = map_(ROUNDED[after.dtype], after) if after.dtype in ROUNDED else after
    rules = (r for v in walk([after]) for r in v.op.requires(tuple(a.type for a in v.args), "layer"))
    if not all(_holds(r, sizes) for r in rules):
        raise Unfit
    with np.errstate(all="ignore"):
        answer = op.ref(attrs, tuple(args))[0]
        answer = np.rint(answer) if is_integer(after.dtype) and answer.dtype.kind == "f" else answer
    return (
        after,
        answer,
        f"{op.layer.name} {attrs} on {[a.shape for a in args]}",
        case.atol if is_float(value.dtype) else 0.0,
    )


def _counts(case: AnyCase, k: int) -> bool:
    """Whether operand `k` has chosen integers, such as lengths, which fit only the sizes of the case."""
    return case.data[k] is not None and not is_float(dtype_of(case, k))


def _pick(
    op: AnyOp, rank: int | None, dtype: DataType | None, random: Random
) -> tuple[AnyCase, int, tuple[Array, ...]]:
    """A case, the index of one of its operands of this type and, if possible, rank, and all its operands."""
    places = _places(op, rank, dtype) or _places(op, None, dtype)
    if not places:
        raise Unfit
    return random.choice(places)


@cache
def _operands_of(op: AnyOp) -> list[tuple[AnyCase, tuple[Array, ...]]]:
    """Every case with its operands. Cached, as drawing them takes longer than expanding a layer."""
    return [(case, operands(op, case)) for case in op.cases()]


@cache
def _places(
    op: AnyOp, rank: int | None, dtype: DataType | None
) -> list[tuple[AnyCase, int, tuple[Array, ...]]]:
    return [
        (case, k, arrays)
        for case, arrays in _operands_of(op)
        for k, shape in enumerate(case.shapes)
        if shape is not None and rank in (None, len(shape)) and not _decides(op, k)
        if dtype_of(case, k) in TYPES and dtype in (None, dtype_of(case, k))
    ]


def _decides(op: AnyOp, k: int) -> bool:
    """Whether the values of operand `k` must be known."""
    return op.operand(k).shape_values or op.operand(k).build_time


def _like(operand: Array, before: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """The operand, resized to fit another operand whose shape is `shape` instead of `before`."""
    if operand is ABSENT or operand.ndim != len(before):
        return operand
    sizes = shape
    if len(before) == len(shape):
        sizes = tuple(n if d == b else d for d, b, n in zip(operand.shape, before, shape, strict=True))
    return np.resize(operand, sizes)


def _emptied(array: Array, random: Random) -> Array:
    """The array without elements along a random axis, or the array itself."""
    axis = random.randrange(array.ndim + 1)
    return array if axis == array.ndim else array.take([], axis)


def _with_a_zero(op: AnyOp, attrs: Attrs, random: Random) -> Attrs:
    """The attributes with one of their sizes set to 0, or unchanged."""
    held = {s.name: getattr(attrs, s.name) for s in op.specs() if s.kind in (Kind.DIMS, Kind.FLOATS)}
    places = [(name, k) for name, sizes in held.items() for k in range(len(sizes or ()))]
    name, k = random.choice([*places, ("", 0)])
    return replace(attrs, **{name: (*held[name][:k], 0, *held[name][k + 1 :])}) if name else attrs
