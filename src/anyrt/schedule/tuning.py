"""The options of a kernel if measuring has found something faster than the cost model: other sizes of pieces,
or a strategy without steps whose gain depends on the machine.

They change neither results nor, except for the scratch of more rows, memory, nor the stored values.
`candidates` lists what to measure for a kernel, the model's choice first; plans and timing caches only store
tunings of this file.

>>> str(Tuning(band=8)), Tuning.parse("band=8") == Tuning(band=8), Tuning.parse("band=9")
('band=8', True, None)
>>> str(Tuning(short=0, without=("prefetch", "unroll and jam")))
'short=0 without prefetch, unroll and jam'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Final

from anyrt.ir.buffer import Space
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Kernel, Loop
from anyrt.ir.statements import buffers_of, folds, loops


@dataclass(frozen=True, slots=True)
class Tuning:
    """Sizes of a kernel's pieces (`Pieces` in pieces.py), None for the model's size on any machine; and the
    steps that its strategy omits."""

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
        """The sizes that it sets."""
        pairs = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: n for name, n in pairs if isinstance(n, int)}

    @classmethod
    def parse(cls, text: str) -> Tuning | None:
        """The tuning that prints as `text`; None if it is no candidate of any kernel."""
        return _BY_TEXT.get(text)

    @property
    def tactic(self) -> int:
        """Its number in timing caches."""
        return int.from_bytes(sha256(str(self).encode()).digest()[:7])

    @classmethod
    def of_tactic(cls, tactic: int) -> Tuning | None:
        """The tuning with this number; None when there is none."""
        return _BY_TACTIC.get(tactic)


MODEL = Tuning()
Shape = tuple[tuple[Tuning, ...], tuple[Tuning, ...]]
# For each shape of kernel the first candidates to measure, and more if there is time.
POINTS: Final[Shape] = (
    (Tuning(block=1024), Tuning(block=16384), Tuning(block=65536), Tuning(item=1024), Tuning(item=65536)),
    (Tuning(block=2048), Tuning(block=8192), Tuning(item=4096), Tuning(item=16384)),
)
ROWS: Final[Shape] = (
    (
        Tuning(without=("distribute",)),
        Tuning(without=("unroll and jam",)),
        Tuning(without=("distribute", "unroll and jam")),
        Tuning(without=("prefetch",)),
        *(Tuning(short=65536), Tuning(column=64), Tuning(column=1024)),
    ),
    (Tuning(column=128), Tuning(column=512), Tuning(column=4096)),
)
TILES: Final[Shape] = (
    (Tuning(line=32), Tuning(run=16), Tuning(run=128), Tuning(chunk=8), Tuning(chunk=128, items=4)),
    (Tuning(line=128), Tuning(run=32), Tuning(run=256), Tuning(line=32, run=128)),
)
UNTILED: Final[Shape] = ((Tuning(without=("tile",)),), ())
SLIDING: Final[Shape] = (
    (Tuning(band=8), Tuning(band=16), Tuning(band=64, items=8), Tuning(band=128, items=4)),
    (Tuning(band=4), Tuning(band=256, items=2)),
)
_ALL = (MODEL, *(c for shape in (POINTS, ROWS, TILES, UNTILED, SLIDING) for some in shape for c in some))
_BY_TEXT = {str(c): c for c in _ALL}
_BY_TACTIC = {c.tactic: c for c in _ALL}


def candidates(kernel: Kernel, more: bool) -> tuple[Tuning, ...]:
    """The candidates for a kernel that was created by the model, `MODEL` first; twice as many with `more`.
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
        return (SLIDING, *tiles)
    # Without tiles, other tables may be read, which all kernels share.
    untiled = (UNTILED,) if tiled and Space.TABLE not in spaces else ()
    return (*untiled, *tiles, POINTS)


def print_tunings(tunings: Mapping[Value, Tuning], places: Iterable[Value]) -> str:
    """Tunings as text: "3 band=8;7 run=128", where 3 and 7 are numbers in `places`."""
    return ";".join(f"{n} {tunings[value]}" for n, value in enumerate(places) if value in tunings)


def parse_tunings(text: str, places: Mapping[str, Value]) -> dict[Value, Tuning]:
    """The tunings in a text of `print_tunings`; unknown places and tunings leave the kernel to the model."""
    named = (item.partition(" ") for item in text.split(";"))
    tunings = {places[n]: Tuning.parse(tuning) for n, _, tuning in named if n in places}
    return {value: tuning for value, tuning in tunings.items() if tuning is not None}
