"""The layout of a drawing: each kernel's boxes in their own rows, then the frames around them.

A tensor that enters or leaves a frame has a port in its first or last row, so that wires cross the border
without obstacles; outside, only frames and ports matter. Below each port, and below each box that other boxes
of its frame read, there is space for a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from unicodedata import east_asian_width

from anyrt.cli.draw.layered import Edge, Layout, Node, Run, layered, rows
from anyrt.cli.draw.picture import Box, Kind, Picture, Tensor, shape_text
from anyrt.cli.show import byte_count

TITLE: Final = 7.6  # the width of a character of each kind of text
SMALL: Final = 6.4
LONGEST: Final = 40  # characters of a name
BOX_HEIGHT: Final = 40.0
PILL_HEIGHT: Final = 26.0
LABEL: Final = 18.0  # the height of a label
HEADER: Final = 24.0
PADDING: Final = 16.0
PORT: Final = 12.0
TIMES: Final = 150.0  # space for a time in a header

_Wire = tuple[int, int, int]  # from a cell to a cell, and the tensor


@dataclass(frozen=True, slots=True)
class Rect:
    """A place in the picture."""

    x: float
    y: float
    width: float
    height: float

    def moved(self, x: float, y: float) -> Rect:
        """The same, further right and down."""
        return Rect(self.x + x, self.y + y, self.width, self.height)


@dataclass(frozen=True, slots=True)
class Line:
    """A wire, or its part inside or outside of frames; `ends` where it reaches a box."""

    tensor: int
    runs: tuple[Run, ...]
    ends: bool

    def moved(self, x: float, y: float) -> Line:
        """The same, further right and down."""
        runs = tuple(Run(r.x + x, r.top + y, r.bottom + y) for r in self.runs)
        return Line(self.tensor, runs, self.ends)


@dataclass(frozen=True, slots=True)
class Label:
    """The label of a wire, around the point (x, y)."""

    tensor: int
    text: str
    x: float
    y: float

    def moved(self, x: float, y: float) -> Label:
        """The same, further right and down."""
        return Label(self.tensor, self.text, self.x + x, self.y + y)


@dataclass(frozen=True, slots=True)
class Placed:
    """The positions of frames and boxes, in the order of the picture; the lines and labels of its wires."""

    frames: tuple[Rect, ...]
    boxes: tuple[Rect, ...]
    lines: tuple[Line, ...]
    labels: tuple[Label, ...]
    width: float
    height: float


def place(picture: Picture) -> Placed:
    """Positions for all parts of a picture; no two boxes overlap, and no wire crosses a box."""
    cells = _cells(picture)
    home = {box: n for n, cell in enumerate(cells) for box in cell.boxes}
    inner = [_Inner.of(picture, cell) for cell in cells]
    wires = [(home[picture.tensors[t].source], b, t) for b, cell in enumerate(cells) for t in cell.enters]
    ranks = rows(len(cells), [(a, b) for a, b, _ in wires])
    nodes = [Node(x.width, x.height + x.below, r) for x, r in zip(inner, ranks, strict=True)]
    edges = [Edge(a, b, inner[a].leaves[t], inner[b].enters.get(t)) for a, b, t in wires]
    return _joined(cells, inner, wires, layered(nodes, edges))


def short(text: str, most: int = LONGEST) -> str:
    """A name with the middle of a long one omitted: both ends distinguish names.

    >>> short("encoder.layers.11.attention.norm", 16)
    'encoder.…on.norm'
    """
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"


def text_width(text: str, character: float) -> float:
    """The approximate width of a text; East Asian characters are twice as wide as others.

    >>> text_width("ab", 6.0), text_width("層", 6.0)
    (12.0, 12.0)
    """
    return character * sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def stored_text(tensor: Tensor) -> str:
    """The label of a tensor in memory."""
    return f"{shape_text(tensor.shape)} {tensor.dtype} · {byte_count(tensor.nbytes)}"


def subtitle(box: Box) -> str:
    """The label of a box below its name."""
    held = f"{byte_count(box.constant_bytes)} of constants" if box.constant_bytes else ""
    return " · ".join(text for text in (box.layer, box.note, held) if text)


@dataclass(frozen=True, slots=True)
class _Cell:
    """A frame with its boxes, or one box without a frame; tensors that cross its border, or stay inside."""

    frame: int | None
    boxes: list[int] = field(default_factory=list)
    enters: dict[int, list[int]] = field(default_factory=dict)  # by tensor the boxes that read it
    leaves: dict[int, None] = field(default_factory=dict)
    stays: dict[int, list[int]] = field(default_factory=dict)


def _cells(picture: Picture) -> list[_Cell]:
    """Frames and bare boxes in the order of the picture."""
    cells: list[_Cell] = []
    of_frame: dict[int, _Cell] = {}
    home: list[_Cell] = []
    for number, box in enumerate(picture.boxes):
        cell = of_frame.get(box.frame) if box.frame is not None else None
        if cell is None:
            cell = _Cell(box.frame)
            cells.append(cell)
            if box.frame is not None:
                of_frame[box.frame] = cell
        cell.boxes.append(number)
        home.append(cell)
    for wire in picture.wires:
        source, target = home[picture.tensors[wire.tensor].source], home[wire.target]
        if target is source:
            source.stays.setdefault(wire.tensor, []).append(wire.target)
        else:
            source.leaves[wire.tensor] = None
            target.enters.setdefault(wire.tensor, []).append(wire.target)
    return cells


@dataclass(frozen=True, slots=True)
class _Inner:
    """A cell from its own corner. `leaves` and `enters`: where tensors cross its border, from its middle; a
    bare box has no ports to enter. `below`: the height of the labels under it."""

    width: float
    height: float
    below: float
    boxes: list[Rect]
    lines: list[Line]
    labels: list[Label]
    leaves: dict[int, float]
    enters: dict[int, float]

    @staticmethod
    def of(picture: Picture, cell: _Cell) -> _Inner:
        """The boxes of a cell in their places."""
        return _bare(picture, cell) if cell.frame is None else _framed(picture, cell, cell.frame)


def _bare(picture: Picture, cell: _Cell) -> _Inner:
    (number,) = cell.boxes
    box = picture.boxes[number]
    texts = {t: stored_text(picture.tensors[t]) for t in cell.leaves}
    width, height = _box_size(box, texts.values())
    leaves = _offsets(texts)
    labels = [Label(t, texts[t], width / 2 + x, height + LABEL / 2) for t, x in leaves.items()]
    below = LABEL if labels else 0.0
    return _Inner(width, height, below, [Rect(0, 0, width, height)], [], labels, leaves, {})


def _framed(picture: Picture, cell: _Cell, frame: int) -> _Inner:
    leaving = _leaving(picture, cell)
    nodes, ports = _nodes(picture, cell, leaving)
    edges = list(_edges(picture, cell, ports, leaving))
    layout = layered(nodes, [edge for edge, _ in edges])
    width = max(layout.width, text_width(short(picture.frames[frame]), SMALL) + TIMES) + 2 * PADDING
    x, y = (width - layout.width) / 2, HEADER + (0.0 if cell.enters else PADDING)
    boxes = [
        Rect(layout.centres[n] - nodes[n].width / 2 + x, layout.tops[n] + y, nodes[n].width, BOX_HEIGHT)
        for n in range(len(cell.boxes))
    ]
    inner = zip(edges, layout.routes, strict=True)
    lines = [Line(t, runs, edge.target < len(boxes)).moved(x, y) for (edge, t), runs in inner]
    height = y + layout.height + (0.0 if cell.leaves else PADDING)
    middle = {t: layout.centres[n] + x - width / 2 for t, n in ports.items()}
    labels = [
        Label(t, stored_text(picture.tensors[t]), width / 2 + middle[t], height + LABEL / 2)
        for t in cell.leaves
    ]
    labels += _inner_labels(picture, cell, leaving, boxes)
    below = LABEL if cell.leaves else 0.0
    enters = {t: middle[t] for t in cell.enters}
    return _Inner(width, height, below, boxes, lines, labels, middle, enters)


def _leaving(picture: Picture, cell: _Cell) -> dict[int, dict[int, float]]:
    """For each box of a frame the tensors that leave it, and their offsets from its middle."""
    texts_of: dict[int, dict[int, str]] = {box: {} for box in cell.boxes}
    for t in dict.fromkeys((*cell.stays, *cell.leaves)):
        texts_of[picture.tensors[t].source][t] = shape_text(picture.tensors[t].shape)
    return {box: _offsets(texts) for box, texts in texts_of.items()}


def _labelled(cell: _Cell, leaving: Iterable[int]) -> bool:
    """Whether labels stand under a box; tensors that only leave the frame have theirs below it."""
    return any(t in cell.stays for t in leaving)


def _offsets(texts: Mapping[int, str]) -> dict[int, float]:
    """Tensors that leave a box, side by side with space for their labels."""
    widths = {t: _label_width(text) for t, text in texts.items()}
    x, offsets = -sum(widths.values()) / 2, dict[int, float]()
    for t, width in widths.items():
        offsets[t] = x + width / 2
        x += width
    return offsets


def _label_width(text: str) -> float:
    return text_width(text, SMALL) + PORT


def _box_size(box: Box, labels: Iterable[str]) -> tuple[float, float]:
    """The width and the height of a box with space for the labels under it."""
    text_space = max(text_width(short(box.title), TITLE), text_width(subtitle(box), SMALL)) + 2 * PADDING
    height = PILL_HEIGHT if box.kind in (Kind.INPUT, Kind.OUTPUT) else BOX_HEIGHT
    return max(text_space, sum(map(_label_width, labels))), height


def _nodes(
    picture: Picture, cell: _Cell, leaving: Mapping[int, Mapping[int, float]]
) -> tuple[list[Node], dict[int, int]]:
    """The boxes of a frame as nodes, then its ports; and the node of each tensor's port."""
    local = {box: n for n, box in enumerate(cell.boxes)}
    pairs = [(local[picture.tensors[t].source], local[r]) for t, rs in cell.stays.items() for r in rs]
    first = 1 if cell.enters else 0
    ranks = [rank + first for rank in rows(len(cell.boxes), pairs)]
    nodes = []
    for box, rank in zip(cell.boxes, ranks, strict=True):
        texts = [shape_text(picture.tensors[t].shape) for t in leaving[box]]
        width, height = _box_size(picture.boxes[box], texts)
        nodes.append(Node(width, height + (LABEL if _labelled(cell, leaving[box]) else 0.0), rank))
    ports = {t: len(nodes) + n for n, t in enumerate((*cell.enters, *cell.leaves))}
    nodes += [Node(PORT, 0.0, 0) for _ in cell.enters]
    widths = [_label_width(stored_text(picture.tensors[t])) for t in cell.leaves]
    return [*nodes, *(Node(width, 0.0, max(ranks) + 1) for width in widths)], ports


def _edges(
    picture: Picture, cell: _Cell, ports: Mapping[int, int], leaving: Mapping[int, Mapping[int, float]]
) -> Iterator[tuple[Edge, int]]:
    """The edges between boxes and ports of a frame, each with its tensor."""
    local = {box: n for n, box in enumerate(cell.boxes)}
    for t, readers in cell.enters.items():
        yield from ((Edge(ports[t], local[reader]), t) for reader in readers)
    for t, readers in cell.stays.items():
        source = picture.tensors[t].source
        yield from ((Edge(local[source], local[r], leaving[source][t]), t) for r in readers)
    for t in cell.leaves:
        source = picture.tensors[t].source
        yield Edge(local[source], ports[t], leaving[source][t], 0.0), t


def _inner_labels(
    picture: Picture, cell: _Cell, leaving: Mapping[int, Mapping[int, float]], boxes: Sequence[Rect]
) -> Iterator[Label]:
    """Shapes of tensors inside a frame, each under the box that computes it."""
    for box, rect in zip(cell.boxes, boxes, strict=True):
        middle, y = rect.x + rect.width / 2, rect.y + BOX_HEIGHT + LABEL / 2
        if _labelled(cell, leaving[box]):
            shapes = ((t, x, shape_text(picture.tensors[t].shape)) for t, x in leaving[box].items())
            yield from (Label(t, shape, middle + x, y) for t, x, shape in shapes)


def _joined(cells: Sequence[_Cell], inner: Sequence[_Inner], wires: Sequence[_Wire], outer: Layout) -> Placed:
    """All cells at the positions of the layout."""
    corners = [
        (centre - x.width / 2, top) for x, centre, top in zip(inner, outer.centres, outer.tops, strict=True)
    ]
    frames: dict[int, Rect] = {}
    boxes: dict[int, Rect] = {}
    lines: list[Line] = []
    labels: list[Label] = []
    for cell, x, corner in zip(cells, inner, corners, strict=True):
        if cell.frame is not None:
            frames[cell.frame] = Rect(*corner, x.width, x.height)
        boxes.update((n, rect.moved(*corner)) for n, rect in zip(cell.boxes, x.boxes, strict=True))
        lines += [line.moved(*corner) for line in x.lines]
        labels += [label.moved(*corner) for label in x.labels]
    lines += [
        Line(t, runs, cells[b].frame is None) for (_, b, t), runs in zip(wires, outer.routes, strict=True)
    ]
    return Placed(
        tuple(frames[n] for n in range(len(frames))),
        tuple(boxes[n] for n in range(len(boxes))),
        tuple(lines),
        tuple(labels),
        outer.width,
        outer.height,
    )
