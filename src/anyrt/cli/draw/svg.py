"""A drawing as SVG, and as a page of HTML around it, without external resources or scripts.

Colours follow the viewer's preference for light or dark; the title of an element has the full text of a
shortened one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from anyrt.cli.draw.layered import Run
from anyrt.cli.draw.picture import Box, Kind, Picture
from anyrt.cli.draw.place import HEADER, SMALL, Line, Placed, Rect, place, short, subtitle, text_width

MARGIN: Final = 24.0
HEAT: Final = 4.0  # the height of the bar that shows a kernel's share of the time
PAD: Final = 6.0  # between a region and the kernels in it
LINE: Final = 17.0  # of the text above the picture
HUES: Final = ("#4c8bd6", "#d9822b", "#4aa36c", "#b565c4", "#d0556a", "#2fa3a8", "#a08a2e", "#7a74d1")

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML
_FIXED: Final = """
text { font: 11px system-ui, "DejaVu Sans", sans-serif; text-anchor: middle; dominant-baseline: central }
text.name { font-size: 12px; font-weight: 600 }
text.left { text-anchor: start } text.right { text-anchor: end }
text.title { font-size: 16px; font-weight: 600 }
.wire path { fill: none; stroke-width: 1.4; marker-end: none }
.wire path.ends { marker-end: url(#arrow) }
.wire:hover path { stroke-width: 3 }
.again rect.box, .part rect.box { stroke-dasharray: 4 3 }
"""
_COLOURS: Final = """
.page {{ fill: {page} }} text {{ fill: {text} }} .faint {{ fill: {faint} }}
rect.region {{ fill: none; stroke: {edge}; stroke-dasharray: 8 4 }}
rect.frame {{ fill: {frame}; stroke: {border} }} rect.head {{ fill: {head} }} rect.heat {{ fill: {heat} }}
rect.box {{ fill: {box}; stroke: {edge} }} .input rect.box, .output rect.box {{ fill: {port} }}
.wire path {{ stroke: {wire} }} #arrow path {{ fill: {wire} }}
"""
_LIGHT: Final = {
    "page": "#ffffff", "text": "#1c2733", "faint": "#55657a", "wire": "#8090a3", "frame": "#f3f6fa",
    "border": "#c3cedb", "head": "#e1e9f2", "box": "#ffffff", "edge": "#93a2b5", "heat": "#ee9b3f",
    "port": "#dcefe3",
}  # fmt: skip
_DARK: Final = {
    "page": "#14191f", "text": "#e3e9f0", "faint": "#9fadbd", "wire": "#6f8095", "frame": "#1c242d",
    "border": "#3b4858", "head": "#273240", "box": "#232d38", "edge": "#56677b", "heat": "#c87a1e",
    "port": "#21402f",
}  # fmt: skip
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 0; font: 13px system-ui, sans-serif; background: {light}; color: #55657a }}
@media (prefers-color-scheme: dark) {{ body {{ background: {dark}; color: #9fadbd }} }}
label {{ position: fixed; top: 8px; right: 12px }}
#fit:checked ~ svg {{ width: 100%; height: auto }}
svg {{ display: block; margin: auto }}
</style>
</head>
<body>
<input type="checkbox" id="fit" hidden><label for="fit">fit to width / full size</label>
{svg}</body>
</html>
"""


def svg(picture: Picture, notes: Sequence[str] = (), milliseconds: Sequence[float] | None = None) -> str:
    """The picture as an SVG document. `notes` are above it; `milliseconds`: the time of each kernel."""
    placed = place(picture)
    return "".join(f"{line}\n" for line in _Writer(picture, placed, milliseconds).lines(notes))


def html(picture: Picture, notes: Sequence[str] = (), milliseconds: Sequence[float] | None = None) -> str:
    """The same as a page of HTML."""
    title = _text(picture.name or "network")
    drawn = svg(picture, notes, milliseconds)
    return _PAGE.format(title=title, light=_LIGHT["page"], dark=_DARK["page"], svg=drawn)


def time_text(milliseconds: float, total: float) -> str:
    """The text for a kernel's time.

    >>> time_text(0.25, 1.0)
    '0.25 ms · 25 %'
    """
    share = f" · {100 * milliseconds / total:.0f} %" if total else ""
    return f"{milliseconds:.3g} ms{share}"


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes one picture; `milliseconds`: of each kernel, if measured."""

    picture: Picture
    placed: Placed
    milliseconds: Sequence[float] | None

    def lines(self, notes: Sequence[str]) -> Iterator[str]:
        """The document."""
        above = LINE + PAD if self.picture.regions else 0.0  # the title of a region
        top = MARGIN + LINE * (len(notes) + 1) + MARGIN / 2 + above
        longest = max((text_width(note, SMALL) for note in (self.picture.name * 2, *notes)), default=0.0)
        width, height = max(self.placed.width, longest) + 2 * MARGIN, self.placed.height + top + MARGIN
        size = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
        yield f"<title>{_text(self.picture.name)}</title>"
        dark = f"@media (prefers-color-scheme: dark) {{{_COLOURS.format(**_DARK)}}}\n"
        yield f"<style>{_FIXED}{_COLOURS.format(**_LIGHT)}{dark}</style>"
        yield '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
        yield 'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5 L8 4 L0 7.5 Z"/></marker></defs>'
        yield '<rect class="page" width="100%" height="100%"/>'
        yield _label("left title", self.picture.name, MARGIN, MARGIN)
        for n, note in enumerate(notes, 1):
            yield _label("left faint", note, MARGIN, MARGIN + 4 + n * LINE)
        x = MARGIN + max(0.0, (width - 2 * MARGIN - self.placed.width) / 2)
        yield f'<g transform="translate({_n(x)} {_n(top)})">'
        yield from self._drawing()
        yield "</g>\n</svg>"

    def _drawing(self) -> Iterator[str]:
        for name, frames in self.picture.regions:
            yield from self._region(name, [self.placed.frames[n] for n in frames])
        for number, rect in enumerate(self.placed.frames):
            yield from self._kernel(number, rect)
        for line in self.placed.lines:
            yield from self._wire(line)
        hues = {s: HUES[n % len(HUES)] for n, s in enumerate(dict.fromkeys(map(_hued, self.picture.boxes)))}
        for box, rect in zip(self.picture.boxes, self.placed.boxes, strict=True):
            yield from _box(box, rect, hues[_hued(box)])
        for label in self.placed.labels:
            yield f"<g><title>{_text(self._tensor_title(label.tensor))}</title>"
            yield f"{_label('faint', label.text, label.x, label.y)}</g>"

    def _region(self, name: str, frames: Sequence[Rect]) -> Iterator[str]:
        """The frame around the kernels of a loop's or a conditional's bodies."""
        left, top = min(r.x for r in frames) - PAD, min(r.y for r in frames) - PAD - LINE
        right, bottom = max(r.x + r.width for r in frames), max(r.y + r.height for r in frames)
        rect = Rect(left, top, right + PAD - left, bottom + PAD - top)
        yield f'<g class="region"><title>{_text(name)}</title><rect class="region" {_rect(rect)} rx="10"/>'
        yield f"{_label('left faint', short(name), left + PAD, top + LINE / 2)}</g>"

    def _kernel(self, number: int, rect: Rect) -> Iterator[str]:
        name = self.picture.frames[number]
        yield f'<g class="kernel"><title>{_text(name)}</title><rect class="frame" {_rect(rect)} rx="6"/>'
        head = Rect(rect.x, rect.y, rect.width, HEADER)
        yield f'<rect class="head" {_rect(head)} rx="6"/>'
        y = rect.y + HEADER / 2
        if self.milliseconds is not None:
            total = sum(self.milliseconds)
            share = self.milliseconds[number] / total if total else 0.0
            heat = Rect(rect.x, rect.y + HEADER - HEAT, rect.width * share, HEAT)
            yield f'<rect class="heat" {_rect(heat)}/>'
            duration = time_text(self.milliseconds[number], total)
            yield _label("right time", duration, rect.x + rect.width - 10, y)
        yield f"{_label('left', short(name), rect.x + 10, y)}</g>"

    def _wire(self, line: Line) -> Iterator[str]:
        yield f'<g class="wire"><title>{_text(self._tensor_title(line.tensor))}</title>'
        ends = ' class="ends"' if line.ends else ""
        yield f'<path{ends} d="{_path(line.runs)}"/></g>'

    def _tensor_title(self, number: int) -> str:
        tensor = self.picture.tensors[number]
        source = self.picture.boxes[tensor.source].title
        return f"{source}: {tensor.dtype} {tensor.declared}, {tensor.nbytes} bytes"


def _box(box: Box, rect: Rect, hue: str) -> Iterator[str]:
    title = "\n".join((box.title, subtitle(box), *box.details))
    yield f'<g class="{box.kind.value}"><title>{_text(title)}</title>'
    is_port = box.kind in (Kind.INPUT, Kind.OUTPUT)
    yield f'<rect class="box" {_rect(rect)} rx="{_n(rect.height / 2 if is_port else 4)}"/>'
    middle, y = rect.x + rect.width / 2, rect.y + rect.height / 2
    if is_port:
        yield f"{_label('name', short(box.title), middle, y)}</g>"
        return
    yield f'<rect {_rect(Rect(rect.x, rect.y + 4, 4, rect.height - 8))} fill="{hue}"/>'
    yield _label("name", short(box.title), middle, y - 8)
    yield f"{_label('faint', subtitle(box), middle, y + 9)}</g>"


def _hued(box: Box) -> str:
    """What has a colour of its own."""
    return box.layer


def _path(runs: Sequence[Run]) -> str:
    """Straight down beside boxes, and smoothly from one run to the next between rows."""
    first, *rest = runs
    steps = [f"M{_n(first.x)} {_n(first.top)}"]
    for above, run in zip(runs, rest, strict=False):
        y = _n((above.bottom + run.top) / 2)
        steps += [f"V{_n(above.bottom)}"] if above.bottom > above.top else []
        steps.append(f"C{_n(above.x)} {y} {_n(run.x)} {y} {_n(run.x)} {_n(run.top)}")
    # No step of length zero: it would determine the arrow's direction.
    return " ".join([*steps, f"V{_n(runs[-1].bottom)}"] if runs[-1].bottom > runs[-1].top else steps)


def _rect(r: Rect) -> str:
    return f'x="{_n(r.x)}" y="{_n(r.y)}" width="{_n(r.width)}" height="{_n(r.height)}"'


def _label(classes: str, text: str, x: float, y: float) -> str:
    return f'<text class="{classes}" x="{_n(x)}" y="{_n(y)}">{_text(text)}</text>'


def _text(text: str) -> str:
    return escape(_ILLEGAL.sub("\ufffd", text), quote=False)


def _n(x: float) -> str:
    """A number with at most one decimal."""
    return f"{x:.1f}".removesuffix(".0")
