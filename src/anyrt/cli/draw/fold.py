"""Draws repeated blocks, such as the layers of a transformer, once.

Kernels are equal if their boxes are. The longest run of blocks of equal kernels is folded into its first
block, whose kernels show the count; then the next run, until none occurs three times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from anyrt.cli.draw.picture import Box, Kind, Picture, Wire

LONGEST: Final = 64  # kernels of a block
LEAST: Final = 3  # blocks of a run

Signature = tuple[object, ...]


def folded(picture: Picture) -> Picture:
    """The picture with each run of blocks drawn once."""
    while (run := repeats(_signatures(picture))) is not None:
        picture = _fold(picture, *run)
    return picture


def repeats(kinds: Sequence[object]) -> tuple[int, int, int] | None:
    """(first, length, number) of the blocks whose folding saves most, None if nothing is repeated.

    >>> repeats("xabababy"), repeats("abcabc")
    ((1, 2, 3), None)
    """
    best, saved = None, 0
    for length in range(1, min(LONGEST, len(kinds) // LEAST) + 1):
        run = 0
        for at in range(len(kinds) - length):
            run = run + 1 if kinds[at] == kinds[at + length] else 0
            number = run // length + 1
            if number >= LEAST and (number - 1) * length > saved:
                saved, best = (number - 1) * length, (at + 1 - run, length, number)
    return best


def _boxes(picture: Picture) -> list[list[int]]:
    """The boxes of each frame."""
    boxes_of: list[list[int]] = [[] for _ in picture.frames]
    for number, box in enumerate(picture.boxes):
        if box.frame is not None:
            boxes_of[box.frame].append(number)
    return boxes_of


def _signatures(picture: Picture) -> list[object]:
    boxes, results = picture.boxes, dict[int, list[Signature]]()
    for tensor in picture.tensors:
        results.setdefault(tensor.source, []).append((tensor.shape, tensor.dtype))
    # A folded kernel equals no other one: its name has the number of repetitions.
    return [
        name if "×" in name else tuple((*_kind(boxes[b]), *results.get(b, ())) for b in mine)
        for name, mine in zip(picture.frames, _boxes(picture), strict=True)
    ]


def _kind(box: Box) -> Signature:
    return box.kind, box.layer, box.note


def _fold(picture: Picture, first: int, length: int, number: int) -> Picture:
    inside, same = _boxes(picture), dict[int, int]()
    for frame in range(first + length, first + number * length):
        model = first + (frame - first) % length
        same |= dict(zip(inside[frame], inside[model], strict=True))
    gone = {*same, *_lonely(picture, same)}
    kept = [n for n in range(len(picture.boxes)) if n not in gone]
    boxes = {old: new for new, old in enumerate(kept)}
    frames = [n for n in range(len(picture.frames)) if not first + length <= n < first + number * length]
    places = {old: new for new, old in enumerate(frames)}
    repeated = range(first, first + length)
    names = [f"{picture.frames[n]} × {number}" if n in repeated else picture.frames[n] for n in frames]
    tensors, wires, like = list(picture.tensors), dict[Wire, None](), dict[Signature, int]()
    for wire in picture.wires:
        source, target = (same.get(n, n) for n in (tensors[wire.tensor].source, wire.target))
        if source in boxes and target in boxes and _is_forward(picture, source, target):
            tensor = tensors[wire.tensor]
            first_like = like.setdefault((source, tensor.shape, tensor.dtype), wire.tensor)
            wires[Wire(first_like, boxes[target])] = None
    tensors_read = {wire.tensor: None for wire in wires}
    sources = {n: same.get(tensors[n].source, tensors[n].source) for n in tensors_read}
    numbers = {old: new for new, old in enumerate(tensors_read)}
    return replace(
        picture,
        frames=tuple(names),
        boxes=tuple(_moved(picture, n, places) for n in kept),
        tensors=tuple(replace(tensors[n], source=boxes[sources[n]]) for n in tensors_read),
        wires=tuple(Wire(numbers[wire.tensor], wire.target) for wire in wires),
        regions=tuple((n, tuple(places[f] for f in fs if f in places)) for n, fs in picture.regions),
    )


def _moved(picture: Picture, number: int, places: Mapping[int, int]) -> Box:
    box = picture.boxes[number]
    return box if box.frame is None else replace(box, frame=places[box.frame])


def _is_forward(picture: Picture, source: int, target: int) -> bool:
    """Whether a wire leads forward, not from one block to the next one that is drawn in its place."""
    a, b = picture.boxes[source].frame, picture.boxes[target].frame
    return source != target and (a is None or b is None or a <= b)


def _lonely(picture: Picture, same: Mapping[int, int]) -> set[int]:
    """Positions outside of frames that only folded kernels write or read."""
    around: dict[int, set[int]] = {}
    for wire in picture.wires:
        source = picture.tensors[wire.tensor].source
        around.setdefault(source, set()).add(wire.target)
        around.setdefault(wire.target, set()).add(source)
    places = (n for n, box in enumerate(picture.boxes) if box.kind is Kind.PLACE)
    return {n for n in places if around.get(n, set()) and around.get(n, set()) & same.keys()}
