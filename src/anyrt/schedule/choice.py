"""How a kernel is made where measuring has shown something better than what the cost model takes: other sizes
of pieces, or a strategy without steps whose gain depends on the machine.

None of it changes what a kernel computes, nor, but for the scratch of more rows, the memory that it
needs, nor what is stored between kernels. `candidates` says what to measure for a kernel, the model's own
choice first; plans and timing caches hold only choices of this file.

>>> str(Choice(band=8)), Choice.parse("band=8") == Choice(band=8), Choice.parse("band=9")
('band=8', True, None)
>>> str(Choice(short=0, without=("prefetch", "unroll and jam")))
'short=0 without prefetch, unroll and jam'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Final

from anyrt.ir.graph import Value
from anyrt.ir.kernel import Kernel, Loop, Space
from anyrt.ir.statements import buffers_of, folds, loops


@dataclass(frozen=True, slots=True)
class Choice:
    """Sizes of a kernel's pieces (`Pieces` in pieces.py), None for what the model takes, on any machine; and
    which steps its strategy is without."""

    item: int | None = None
    block: int | None = None
    column: int | None = None
    short: int | None = None
    band: int | None = None
    items: int | None = None
    line: int | None = None
    run: int | None = None
    chunk: int | None = None
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = [f"{name}={n}" for name, n in self.sizes.items()]
        named += [f"without {', '.join(self.without)}"] if self.without else []
        return " ".join(named) or "model"

    @property
    def sizes(self) -> dict[str, int]:
        """Those that it names."""
        found = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: n for name, n in found if isinstance(n, int)}

    @classmethod
    def parse(cls, text: str) -> Choice | None:
        """The choice that prints as `text`; None for what is no candidate of any kernel."""
        return _BY_TEXT.get(text)

    @property
    def tactic(self) -> int:
        """A number for it, which timing caches keep."""
        return int.from_bytes(sha256(str(self).encode()).digest()[:7])

    @classmethod
    def of_tactic(cls, tactic: int) -> Choice | None:
        """The choice with this number; None when there is none."""
        return _BY_TACTIC.get(tactic)


MODEL = Choice()
Shape = tuple[tuple[Choice, ...], tuple[Choice, ...]]
# For each shape of kernel what to measure first, and what besides when there is time.
POINTS: Final[Shape] = (
    (Choice(block=1024), Choice(block=16384), Choice(block=65536), Choice(item=1024), Choice(item=65536)),
    (Choice(block=2048), Choice(block=8192), Choice(item=4096), Choice(item=16384)),
)
ROWS: Final[Shape] = (
    (
        Choice(without=("distribute",)),
        Choice(without=("unroll and jam",)),
        Choice(without=("distribute", "unroll and jam")),
        Choice(without=("prefetch",)),
        *(Choice(short=65536), Choice(column=64), Choice(column=1024)),
    ),
    (Choice(column=128), Choice(column=512), Choice(column=4096)),
)
TILES: Final[Shape] = (
    (Choice(line=32), Choice(run=16), Choice(run=128), Choice(chunk=8), Choice(chunk=128, items=4)),
    (Choice(line=128), Choice(run=32), Choice(run=256), Choice(line=32, run=128)),
)
UNTILED: Final[Shape] = ((Choice(without=("tile",)),), ())
WINDOW: Final[Shape] = (
    (Choice(band=8), Choice(band=16), Choice(band=64, items=8), Choice(band=128, items=4)),
    (Choice(band=4), Choice(band=256, items=2)),
)
_ALL = (MODEL, *(c for shape in (POINTS, ROWS, TILES, UNTILED, WINDOW) for some in shape for c in some))
_BY_TEXT = {str(c): c for c in _ALL}
_BY_TACTIC = {c.tactic: c for c in _ALL}


def candidates(kernel: Kernel, more: bool) -> tuple[Choice, ...]:
    """What may suit a kernel that the model's choice has made, that one first; twice as much where `more`.
    Some may give the same kernel."""
    shapes = _shapes(kernel)
    orders = [some for shape in shapes for some in shape[:1]]
    orders += [some for shape in shapes for some in shape[1:]] if more else []
    return (MODEL, *(c for some in orders for c in some))


def _shapes(kernel: Kernel) -> tuple[Shape, ...]:
    if folds(kernel.body):
        return (ROWS,)
    spaces = {b.space for b in buffers_of(kernel.body)}
    tiled = any(loop.kind is Loop.TILE for loop in loops(kernel.body))
    tiles: tuple[Shape, ...] = (TILES,) if tiled else ()
    if Space.SCRATCH in spaces:
        return (WINDOW, *tiles)
    # Without tiles, other tables may be read, which all kernels share.
    untiled = (UNTILED,) if tiled and Space.TABLE not in spaces else ()
    return (*untiled, *tiles, POINTS)


def print_choices(choices: Mapping[Value, Choice], places: Iterable[Value]) -> str:
    """Choices as text: "3 band=8;7 run=128", where 3 and 7 are numbers in `places`."""
    return ";".join(f"{n} {choices[value]}" for n, value in enumerate(places) if value in choices)


def parse_choices(text: str, places: Mapping[str, Value]) -> dict[Value, Choice]:
    """What `print_choices` wrote; a place or a choice that is not known leaves the model's choice."""
    named = (item.partition(" ") for item in text.split(";"))
    found = {places[n]: Choice.parse(choice) for n, _, choice in named if n in places}
    return {value: choice for value, choice in found.items() if choice is not None}
