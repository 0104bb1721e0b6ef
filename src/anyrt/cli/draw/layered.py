"""A layered layout: nodes in rows from top to bottom, and routes between them that cross no node.

Nodes have their row (`rows`: one below all that they read from). An edge over several rows passes each
through a slot of its own, or, if it is very long, all of them in a lane on the right. Edges that leave a node
at the same place share slots. The order in a row is that of the barycentres of neighbours; then each row is
moved as close to its neighbours as the widths allow. A route is a list of vertical segments, each beside the
nodes of a row; the bends between them are in the gaps between rows. Time and memory grow with nodes and
edges, not with the length of edges.

>>> two = layered([Node(40, 20, 0), Node(40, 20, 1)], [Edge(0, 1)])
>>> two.centres, two.tops
([20.0, 20.0], [0.0, 50.0])
>>> two.routes
[(Run(x=20.0, top=20.0, bottom=20.0), Run(x=20.0, top=50.0, bottom=50.0))]
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from typing import Final

GAP: Final = 30.0  # between rows
BESIDE: Final = 26.0  # between nodes of a row
SLOT: Final = 8.0  # the width of a slot, and between two of them, or two lanes
LONG: Final = 24  # rows that an edge may cross in slots
SWEEPS: Final = 6
# The resistance of links to slanting: long edges stay straight, chains nearly, and the way past a block
# bends.
BETWEEN_SLOTS: Final = 8.0
BETWEEN_NODES: Final = 4.0  # shared by those that lead to the same node
NODE_TO_SLOT: Final = 1.0
SPREAD: Final = 22.0  # between the ends of edges at one node
FRACTION: Final = 1 << 20  # of a unit, to which positions are rounded


@dataclass(frozen=True, slots=True)
class Node:
    """A box, and the number of its row."""

    width: float
    height: float
    row: int


@dataclass(frozen=True, slots=True)
class Edge:
    """`leaves` and `enters`: offsets from the middle of the node; None spreads the edges into the target."""

    source: int
    target: int
    leaves: float = 0.0
    enters: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A vertical segment of a route."""

    x: float
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The middle of each node and its top; for each edge its route."""

    centres: list[float]
    tops: list[float]
    routes: list[tuple[Run, ...]]
    width: float
    height: float


def rows(count: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """For each node of an acyclic graph the length of the longest path to it; a node without predecessors is
    right above its first reader.

    >>> rows(4, [(0, 1), (1, 2), (3, 2)])
    [0, 1, 2, 1]
    """
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in pairs:
        after[a].append(b)
        waiting[b] += 1
    row_of = [0] * count
    sources = [n for n in range(count) if not waiting[n]]
    ready = list(sources)
    for n in ready:  # grows on the way
        for m in after[n]:
            row_of[m] = max(row_of[m], row_of[n] + 1)
            waiting[m] -= 1
            if not waiting[m]:
                ready.append(m)
    for n in sources:
        row_of[n] = max(0, min((row_of[m] for m in after[n]), default=1) - 1)
    return row_of


def layered(nodes: Sequence[Node], edges: Sequence[Edge]) -> Layout:
    """The positions of all nodes; an edge leads to a later row."""
    grid = _Grid(nodes)
    trunks = _trunks(nodes, edges)
    for (source, leaves), ends in trunks.items():
        grid.thread(source, leaves, max((r for r in ends if r - nodes[source].row <= LONG), default=0))
    for edge in edges:
        if nodes[edge.target].row - nodes[edge.source].row <= LONG:
            grid.link(edge)
    centres = _placed(grid, _ordered(grid))
    sheet = _sheet(grid, centres, _lanes(nodes, trunks))
    routes = _fanned(nodes, edges, [tuple(sheet.route(edge)) for edge in edges])
    right = max((x + grid.width(n) / 2 for n, x in enumerate(centres)), default=0.0)
    return Layout(
        centres[: len(nodes)],
        [sheet.top(n) for n in range(len(nodes))],
        routes,
        max([right, *sheet.lanes.values()]),
        max(sheet.bottoms, default=0.0),
    )


def _trunks(nodes: Sequence[Node], edges: Iterable[Edge]) -> dict[tuple[int, float], list[int]]:
    """The rows that edges from one place lead to."""
    trunks: dict[tuple[int, float], list[int]] = {}
    for edge in edges:
        trunks.setdefault((edge.source, edge.leaves), []).append(nodes[edge.target].row)
    return trunks


@dataclass(frozen=True, slots=True)
class _Link:
    """A segment of an edge from a row to the next, and its ends, from the middles of slots."""

    upper: int
    lower: int
    leaves: float
    enters: float


@dataclass(slots=True)
class _Grid:
    """Nodes and the slots of edges, which are numbered after them; and their links."""

    nodes: Sequence[Node]
    rows: list[int] = field(init=False)
    links: list[_Link] = field(default_factory=list)
    slots: dict[tuple[int, float], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = [n.row for n in self.nodes]

    def width(self, slot: int) -> float:
        return self.nodes[slot].width if slot < len(self.nodes) else SLOT

    def thread(self, source: int, leaves: float, last: int) -> None:
        """Slots for edges from one place, in each row between it and the row `last`."""
        slots: list[int] = []
        for row in range(self.nodes[source].row + 1, last):
            slots.append(len(self.rows))
            self.rows.append(row)
            above, out = (slots[-2], 0.0) if len(slots) > 1 else (source, leaves)
            self.links.append(_Link(above, slots[-1], out, 0.0))
        self.slots[source, leaves] = slots

    def passed(self, edge: Edge) -> list[int]:
        """The slots of an edge."""
        between = self.nodes[edge.target].row - self.nodes[edge.source].row - 1
        return self.slots[edge.source, edge.leaves][:between]

    def link(self, edge: Edge) -> None:
        """The last segment of an edge."""
        passed = self.passed(edge)
        above, out = (passed[-1], 0.0) if passed else (edge.source, edge.leaves)
        self.links.append(_Link(above, edge.target, out, edge.enters or 0.0))


def _ordered(grid: _Grid) -> list[list[int]]:
    """The slots of each row from left to right: of several barycentre sweeps, the order with the fewest
    crossings."""
    order: list[list[int]] = [[] for _ in range(max(grid.rows, default=-1) + 1)]
    for slot, row in enumerate(grid.rows):
        order[row].append(slot)
    above, below = _neighbours(grid)
    place = [0.0] * len(grid.rows)
    for slots in order:
        _number(slots, place)
    best, fewest = [list(r) for r in order], _crossings(grid, place)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        for slots in order if sweep % 2 == 0 else reversed(order):
            _sort(slots, place, above if sweep % 2 == 0 else below)
        count = _crossings(grid, place)
        if count < fewest:
            best, fewest = [list(r) for r in order], count
    return best


def _neighbours(grid: _Grid) -> tuple[list[list[tuple[int, float]]], list[list[tuple[int, float]]]]:
    """For each slot those above and those below, with the offset of the link's end there."""
    above: list[list[tuple[int, float]]] = [[] for _ in grid.rows]
    below: list[list[tuple[int, float]]] = [[] for _ in grid.rows]
    for link in grid.links:
        above[link.lower].append((link.upper, link.leaves / (grid.width(link.upper) + 1)))
        below[link.upper].append((link.lower, link.enters / (grid.width(link.lower) + 1)))
    return above, below


def _number(row: Sequence[int], place: list[float]) -> None:
    for n, slot in enumerate(row):
        place[slot] = n


def _sort(row: list[int], place: list[float], beside: Sequence[Sequence[tuple[int, float]]]) -> None:
    """Order a row by the mean position of neighbours; a slot without neighbours stays."""
    means = {s: sum(place[n] + at for n, at in beside[s]) / len(beside[s]) for s in row if beside[s]}
    row.sort(key=lambda s: means.get(s, place[s]))
    _number(row, place)


def _crossings(grid: _Grid, place: Sequence[float]) -> int:
    """How many pairs of links cross."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for link in grid.links:
        upper = place[link.upper] + link.leaves / (grid.width(link.upper) + 1)
        lower = place[link.lower] + link.enters / (grid.width(link.lower) + 1)
        rows.setdefault(grid.rows[link.upper], []).append((upper, lower))
    count = 0
    for pairs in rows.values():
        seen: list[float] = []
        for _, lower in sorted(pairs):
            count += len(seen) - bisect_right(seen, lower)
            insort(seen, lower)
    return count


def _placed(grid: _Grid, order: Sequence[Sequence[int]]) -> list[float]:
    """The middle of each slot: rows are moved in turn as near to their neighbours as possible."""
    centres = [0.0] * len(grid.rows)
    springs: list[list[tuple[int, float, float]]] = [[] for _ in grid.rows]
    meeting = Counter(link.lower for link in grid.links)
    for link in grid.links:
        moved, stiff = link.leaves - link.enters, _stiffness(grid, link, meeting)
        springs[link.lower].append((link.upper, moved, stiff))
        springs[link.upper].append((link.lower, -moved, stiff))
    for row in order:
        _settle(grid, row, [(0.0, 1.0)] * len(row), centres)
    for sweep in range(2 * SWEEPS):
        for row in order if sweep % 2 == 0 else reversed(order):
            _settle(grid, row, [_mean(s, springs, centres) for s in row], centres)
    left = min((centres[n] - grid.width(n) / 2 for n in range(len(centres))), default=0.0)
    # Sums of floats differ in their last bits between versions of Python; these fractions are exact.
    return [round((x - left) * FRACTION) / FRACTION for x in centres]


def _stiffness(grid: _Grid, link: _Link, meeting: Mapping[int, int]) -> float:
    slots = (link.upper >= len(grid.nodes)) + (link.lower >= len(grid.nodes))
    return (BETWEEN_NODES / meeting[link.lower], NODE_TO_SLOT, BETWEEN_SLOTS)[slots]


def _mean(
    slot: int, springs: Sequence[Sequence[tuple[int, float, float]]], centres: Sequence[float]
) -> tuple[float, float]:
    """The position that the neighbours of a slot prefer, and its weight."""
    total = sum(stiff for _, _, stiff in springs[slot])
    if not total:
        return centres[slot], 1.0
    return sum((centres[n] + moved) * stiff for n, moved, stiff in springs[slot]) / total, total


def _settle(
    grid: _Grid, row: Sequence[int], targets: Sequence[tuple[float, float]], centres: list[float]
) -> None:
    """Give a row the positions nearest to the preferred ones that keep its order and its gaps (weighted least
    squares: pool adjacent violators)."""
    offsets = [0.0]
    for a, b in pairwise(row):
        both = min(a, b) >= len(grid.nodes)
        offsets.append(offsets[-1] + (grid.width(a) + grid.width(b)) / 2 + (SLOT if both else BESIDE))
    pools: list[tuple[float, float, int]] = []  # sums of weights and of weighted positions, and counts
    for (x, weight), offset in zip(targets, offsets, strict=True):
        count = 1
        total = weight * (x - offset)
        while pools and pools[-1][1] / pools[-1][0] > total / weight:
            w, t, n = pools.pop()
            weight, total, count = weight + w, total + t, count + n
        pools.append((weight, total, count))
    places = [t / w for w, t, n in pools for _ in range(n)]
    for slot, x, offset in zip(row, places, offsets, strict=True):
        centres[slot] = x + offset


def _lanes(nodes: Sequence[Node], trunks: dict[tuple[int, float], list[int]]) -> dict[tuple[int, float], int]:
    """For places with very long edges the number of a lane that no other uses in the same rows."""
    long = {t: max(ends) for t, ends in trunks.items() if max(ends) - nodes[t[0]].row > LONG}
    lanes: dict[tuple[int, float], int] = {}
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for trunk in sorted(long, key=lambda t: (nodes[t[0]].row, -long[t], t)):
        while busy and busy[0][0] <= nodes[trunk[0]].row:
            heappush(free, heappop(busy)[1])
        lanes[trunk] = heappop(free) if free else len(busy)
        heappush(busy, (long[trunk], lanes[trunk]))
    return lanes


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A grid with the middle of each slot, the top and bottom of each row, and where lanes are."""

    grid: _Grid
    centres: Sequence[float]
    tops: Sequence[float]
    bottoms: Sequence[float]
    lanes: Mapping[tuple[int, float], float]

    def top(self, node: int) -> float:
        """Nodes stand in the middle of their row."""
        n = self.grid.nodes[node]
        return self.tops[n.row] + (self.bottoms[n.row] - self.tops[n.row] - n.height) / 2

    def route(self, edge: Edge) -> Iterator[Run]:
        """Down from the source, past the rows between, down to the target."""
        source, target = self.grid.nodes[edge.source], self.grid.nodes[edge.target]
        begin = self.top(edge.source) + source.height
        yield Run(self.centres[edge.source] + edge.leaves, begin, self.bottoms[source.row])
        if target.row - source.row > LONG:
            lane = self.lanes[edge.source, edge.leaves]
            yield Run(lane, self.tops[source.row + 1], self.bottoms[target.row - 1])
        else:
            rows = ((s, self.grid.rows[s]) for s in self.grid.passed(edge))
            yield from (Run(self.centres[s], self.tops[r], self.bottoms[r]) for s, r in rows)
        x = self.centres[edge.target] + (edge.enters or 0.0)
        yield Run(x, self.tops[target.row], self.top(edge.target))


def _sheet(grid: _Grid, centres: Sequence[float], lanes: Mapping[tuple[int, float], int]) -> _Sheet:
    heights = [0.0] * (max(grid.rows, default=-1) + 1)
    for node in grid.nodes:
        heights[node.row] = max(heights[node.row], node.height)
    bottoms = [bottom + n * GAP for n, bottom in enumerate(accumulate(heights))]
    tops = [bottom - height for bottom, height in zip(bottoms, heights, strict=True)]
    right = max((x + grid.width(n) / 2 for n, x in enumerate(centres)), default=0.0)
    lines = {trunk: right + BESIDE + lane * 2 * SLOT for trunk, lane in lanes.items()}
    return _Sheet(grid, centres, tops, bottoms, lines)


def _fanned(
    nodes: Sequence[Node], edges: Sequence[Edge], routes: list[tuple[Run, ...]]
) -> list[tuple[Run, ...]]:
    """Routes whose ends at one node stand apart, in the order in which they come."""
    ends: dict[int, list[int]] = {}
    for n, edge in enumerate(edges):
        if edge.enters is None:
            ends.setdefault(edge.target, []).append(n)
    for target, entering in ends.items():
        step = min(SPREAD, 0.7 * nodes[target].width / len(entering))
        entering.sort(key=lambda n: routes[n][-2].x)
        for k, n in enumerate(entering):
            last = routes[n][-1]
            x = last.x + (k - (len(entering) - 1) / 2) * step
            routes[n] = (*routes[n][:-1], Run(x, last.top, last.bottom))
    return routes
