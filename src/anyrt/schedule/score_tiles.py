"""Tiles of scores: one contraction consumes the rows of another one, a few rows at a time, without all rows
in memory.

    s = q · kᵀ;  p = softmax(s);  y = p · v     ->     for each batch and tile of rows of y:
                                                          s' = q' · kᵀ;  p' = softmax(s');  y' = p' · v

The scores of attention are far larger than the operands and the result. A tile of them fits the second-level
cache. It is found by structure: the rows' factor of a contraction is computed from the result of another one
by elementwise functions and folds of the last axis.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import isqrt, prod

from anyrt.core.dims import Sym, ceildiv, floordiv, linear, maximum, minimum, mul, product
from anyrt.core.enums import DataType
from anyrt.core.machine import Machine
from anyrt.ir.compute import Contracted, Elements, Folded, is_each
from anyrt.ir.graph import Graph, Value, users
from anyrt.schedule.compute_at import FusedTile
from anyrt.schedule.cost import Sizes
from anyrt.schedule.hidden import hides, shows
from anyrt.schedule.reach import masks, reach
from anyrt.schedule.scores import AT, FLOAT, Across, Scores

MOST = 128  # rows
LEAST = 4  # register tiles, of which the second cache may not hold the scores: all of them lie further away
FEW = 4  # rows of a lower register tile; tiles of a dynamic number hold a multiple of them if they are low
SMALL = 64  # times: fewer scores than this part of the second cache are cheap to store and load
COPIED = 8  # rows that take as long as copying the operand that all rows of a tile multiply
NEAR = 1 << 16  # scores of a tile beside which a batch's keys and values stay in the second cache
BOTH = 2  # scores, and the results of softmax
BLOCK = 2  # registers: columns that are skipped at once


def fused_tiles(graph: Graph, sizes: Sizes, machine: Machine, kept: Set[Value]) -> list[FusedTile]:
    """The contractions of a graph that are faster in tiles; `kept` values have other readers."""
    uses = users(graph)
    tiles: list[FusedTile] = []
    for value in graph.values:
        how = value.compute
        if isinstance(how, Contracted):
            tiles += _fused_tile(value, how, uses, sizes, machine, kept)
    return tiles


def _fused_tile(
    value: Value,
    how: Contracted,
    uses: Mapping[Value, Sequence[Value]],
    sizes: Sizes,
    machine: Machine,
    kept: Set[Value],
) -> Iterator[FusedTile]:
    for arg, labels, row, after, inside in _leading(value, how, uses, kept):
        if not _is_large(value, arg, row, sizes, machine):
            continue
        # With several axes of rows, as for heads that share keys, a tile has rows of the last of them.
        batches = tuple(n for n, label in enumerate(how.out) if label in labels and n != row)
        places = tuple(how.out.index(x) for x in labels[:-1])
        scores = Scores(value, after, arg, BLOCK * machine.lanes, places)
        held = machine.l2_bytes // 2 // (BOTH * FLOAT * max(1, sizes.of(arg.shape[-1])))
        most = max(LEAST * machine.tile_rows, min(MOST, held))
        tile = FusedTile((value, *after)[-1], inside, batches, row, most, scores)
        if hides(value) and labels is how.left:
            scores = _partial(tile, scores, machine)
        yield _shared(tile, scores, most, sizes, machine) or _sized(tile, scores, most, sizes, machine)


def _leading(
    value: Value, how: Contracted, uses: Mapping[Value, Sequence[Value]], kept: Set[Value]
) -> Iterator[tuple[Value, tuple[int, ...], int, tuple[Value, ...], frozenset[Value]]]:
    """(factor of the contraction that leads to whole rows, its labels, the axis of rows in the result, the
    values computed only from it, and all of these)."""
    for arg, (labels, others) in zip(value.args, how.sides, strict=True):
        whole = {*labels[:-1]} <= {*how.out} and {*labels[-1:]}.isdisjoint(how.out)
        rows = how.kept(labels, others) if whole else []
        inside = _inside(arg, _has_batches(value, how)) if rows else None
        readers = _readers(inside, value, uses) if inside else None
        if inside is None or readers is None:
            continue
        after, beside = readers
        values = frozenset((*inside, *beside, value, *after))
        if values.isdisjoint(kept - {(value, *after)[-1]}) and (not beside or how.out[:-1] == labels[:-1]):
            yield arg, labels, rows[-1], after, values


def _is_large(value: Value, arg: Value, row: int, sizes: Sizes, machine: Machine) -> bool:
    """True if there are rows for a tile, and the scores exceed the caches but a tile does not."""
    enough = sizes.of(value.shape[row]) >= machine.tile_rows
    return enough and sizes.volume(arg) * FLOAT >= machine.l2_bytes // SMALL


def _shared(tile: FusedTile, scores: Scores, most: int, sizes: Sizes, machine: Machine) -> FusedTile | None:
    """The tiles of a batch as one item, if there are enough batches and tiles are so low that copying
    matters."""
    across = _across(tile, scores, machine)
    rows, columns = tile.root.shape[tile.row], scores.factor.shape[-1]
    batches = prod(sizes.of(tile.root.shape[k]) for k in tile.batches)
    if across is None or batches < 2 * machine.cores:
        return None
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    shared = replace(scores, across=across)
    size = _size(tile, shared, min(most, max(2 * machine.tile_rows, NEAR // columns)), sizes, machine)
    return replace(tile, size=size, scores=shared) if size < MOST and 2 * size <= rows else None


def _across(tile: FusedTile, scores: Scores, machine: Machine) -> Across | None:
    """The operand that the factor's contraction reads in this way."""
    (reader,) = (v for v in tile.inside if v != scores.product and isinstance(v.compute, Contracted))
    how = reader.compute
    assert isinstance(how, Contracted), "it has been chosen so"
    lane = how.out[-1]
    for arg, (labels, others) in zip(reader.args, how.sides, strict=True):
        is_lane = len(how.out) - 1 in how.kept(labels, others)
        if is_lane and labels[-1] not in how.out and arg.dtype is DataType.FLOAT:
            return Across(reader, arg, labels.index(lane), machine.panel)
    return None


def _sized(tile: FusedTile, scores: Scores, most: int, sizes: Sizes, machine: Machine) -> FusedTile:
    """The tile with so many rows; if their number is dynamic, a symbol for it: tiles of similar height,
    shared by all threads, which fit the second cache."""
    rows, columns = tile.root.shape[tile.row], scores.factor.shape[-1]
    size = _size(tile, scores, most, sizes, machine)
    if isinstance(rows, int):
        return replace(tile, size=size, scores=scores)
    least, held = 2 * machine.tile_rows, machine.l2_bytes // 2 // (BOTH * FLOAT)
    others = product(tile.root.shape[k] for k in tile.batches)
    room = minimum(size, maximum(least, ceildiv(mul(rows, others), 2 * machine.cores)))
    if not isinstance(columns, int):
        room = minimum(room, maximum(least, floordiv(held, maximum(1, columns))))
    unit = machine.tile_rows  # a multiple of these, for a dynamic number
    if scores.reach is not None:  # about as many as for a known number
        room, unit = minimum(room, maximum(MOST // 4, floordiv(rows, COPIED))), FEW
    count = maximum(1, ceildiv(rows, room))
    even = mul(unit, maximum(1, ceildiv(rows, mul(unit, count))))
    symbol = Sym("tile.size", extent=size + unit)
    # It is no more anyway, but the bound of scratch takes each part of a sum separately.
    return replace(tile, size=symbol.dim, scores=scores, lets={symbol: minimum(even, size + unit - 1)})


def _size(tile: FusedTile, scores: Scores, most: int, sizes: Sizes, machine: Machine) -> int:
    """Rows of a tile, at most so many: enough tiles for all threads, and if possible a divisor of all rows.
    If columns are skipped, few enough that little is computed for the sake of other rows, and enough that
    copies for a tile do not matter."""
    rows = tile.root.shape[tile.row]
    many = sizes.of(rows)
    if scores.reach is not None and isinstance(rows, int):
        copied = COPIED if scores.across is None else COPIED // 2
        most = min(most, max(MOST // 4, isqrt(copied * many)))
    others = prod(sizes.of(tile.root.shape[k]) for k in tile.batches)
    most = min(most, max(2 * machine.tile_rows, -(-many * others // (2 * machine.cores))))
    if not isinstance(rows, int):
        return most
    least = -(-rows // most)
    even = (-(-rows // n) for n in range(least, 2 * least) if rows % n == 0)
    return next(even, -(-rows // least))


def _partial(tile: FusedTile, scores: Scores, machine: Machine) -> Scores:
    """The scores with the masks and reach of their columns."""
    loops = {**tile.loops, tile.row: AT}
    column = Sym("tile.column", extent=scores.factor.shape[-1])
    at = (*(loops[k].dim for k in scores.places), column.dim)
    ends = reach(scores.factor, tile.inside, at, column)
    end = next((end for end in ends if linear(end, AT) is not None), None)
    hiding = masks(scores.factor, tile.inside, at)
    # Panels begin at whole blocks.
    block = max(scores.block, machine.panel) if hiding else scores.block
    return replace(scores, reach=end, masks=hiding, block=block)


def _has_batches(value: Value, how: Contracted) -> bool:
    """True if each of several batches has its own operands, not weights, which each tile would read again."""
    shared = set(how.left) & set(how.right)
    return any(label in shared and size != 1 for label, size in zip(how.out, value.shape, strict=True))


def _inside(arg: Value, batched: bool) -> frozenset[Value]:
    """The values between a contraction and `arg`, including it, if these are elementwise functions and folds
    of the last axis; otherwise none. Without folds rows need not be whole, and tiles only serve batches."""
    leads: dict[Value, bool] = {}
    todo = [arg]
    while todo:  # operands first; chains may be of any length
        v = todo[-1]
        on = _leads(v, arg) and not isinstance(v.compute, Contracted)
        waiting = [a for a in v.args if a not in leads] if on else []
        todo += waiting
        if not waiting:
            leads[todo.pop()] = any(leads[a] for a in v.args) if on else _leads(v, arg)
    if not leads[arg]:
        return frozenset()
    inside = {v for v, leading in leads.items() if leading}
    products = [(v, v.compute) for v in inside if isinstance(v.compute, Contracted)]
    folds = any(isinstance(v.compute, Folded) for v in inside)
    serves = len(products) == 1 and (folds or (batched and _has_batches(*products[0])))
    return frozenset(inside) if serves else frozenset()


def _readers(
    inside: Collection[Value], product: Value, uses: Mapping[Value, Sequence[Value]]
) -> tuple[tuple[Value, ...], set[Value]] | None:
    """Other readers of the values inside, if they are elementwise functions of the product, which only they
    read: those, with the elementwise functions and folds that lead to them; None if others read them."""
    after, beside = [product], set[Value]()
    todo = [u for v in inside for u in uses[v]]
    while todo:
        v = todo.pop()
        if v in inside or v in beside or v in after:
            continue
        if {*uses[after[-1]]} == {v} and _goes_on(v, after[-1], product):
            after.append(v)
        elif _leads(v, product) and not isinstance(v.compute, Contracted) and v.shape[-1] == 1:
            beside.add(v)
            todo += uses[v]
        else:
            return None
    while len(last := uses.get(after[-1], ())) == 1 and _rounds(last[0]):
        after += last
    return tuple(after[1:]), beside


def _goes_on(v: Value, last: Value, product: Value) -> bool:
    """True for elementwise functions of a product that are NaN where it is, if it hides terms."""
    shown = shows(v, (last,)) or not hides(product)
    return is_each(v.compute) and v.shape == product.shape and shown


def _rounds(v: Value) -> bool:
    return isinstance(v.compute, Elements) and v.compute.rounds


def _leads(v: Value, last: Value) -> bool:
    how, rank = v.compute, len(v.shape)
    if rank != len(last.shape):
        return False
    if isinstance(how, Contracted):
        return all(len(a.shape) <= rank for a in v.args)
    folds = isinstance(how, Folded) and how.axes == (rank - 1,)
    return folds or is_each(v.compute)
