"""The types and formats that a plug-in supports: the return value of `autotune`.

`|` separates alternatives that belong together across tensors; `*` separates independent alternatives:

>>> half_or_not = AutoTuneCombination("FP32|FP16, FP32|FP16, INT32", tactics=[1, 2])
>>> [[t.name for t in c.types] for c in combinations(half_or_not, 3, "scale")]
[['FLOAT', 'FLOAT', 'INT32'], ['HALF', 'HALF', 'INT32']]
>>> free = AutoTuneCombination("FP32, FP32", "LINEAR*HWC, LINEAR")
>>> [[f.name for f in c.formats] for c in combinations(free, 2, "scale")]
[['LINEAR', 'LINEAR'], ['HWC', 'LINEAR']]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.oneline import listed, one_line
from anyrt.api.edge.quiet import WrongValue, integer, wrong_type
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import ArgumentError
from anyrt.core.units import counted

T = TypeVar("T")

_TYPES: Final = {"FP32": DataType.FLOAT, "FP16": DataType.HALF, **DataType.__members__}


@dataclass(frozen=True, slots=True)
class Combination:
    """A type and a format for each input and output, and the tactics for them; none means tactic 0."""

    types: tuple[DataType, ...]
    formats: tuple[TensorFormat, ...]
    tactics: tuple[int, ...] = ()


class AutoTuneCombination(Fixed):
    """Types and formats of inputs and outputs that are supported together, and the tactics for them.

    `io_types`: type names for each input, then each output, as "FP32|FP16, FP32|FP16". `layouts`: format
    names in the same way; a single one applies to all tensors (default: LINEAR). `tactics`: positive numbers,
    from which the builder selects the fastest tactic."""

    __slots__ = ("__weakref__", "_layouts", "_tactics", "_types")

    def __init__(
        self,
        io_types: str | None = None,
        layouts: str | None = None,
        tactics: Iterable[int] | None = None,
    ) -> None:
        self._types: list[str | None] = [] if io_types is None else [*_parts(io_types, "io_types")]
        self._layouts: list[str | None] = [*_parts(layouts or "LINEAR", "layouts")]
        if len(self._layouts) == 1:
            self._layouts *= len(self._types)
        if len(self._layouts) != len(self._types):
            got, wanted = (
                f"{len(self._layouts)} formats",
                f"{len(self._types)}, one for each type, or one for all",
            )
            raise _bad(got, wanted, "name a format for each type")
        self._tactics = () if tactics is None else _tactics(tactics)

    def pos(self, pos: int | Iterable[int], io_types: str, layouts: str = "LINEAR") -> None:
        """Set the types of the inputs and outputs at these positions; inputs come first. ValueError for a
        position that is already set."""
        places = [integer(p, "pos") for p in pos] if isinstance(pos, Iterable) else [integer(pos, "pos")]
        for p in places:
            if p < 0:
                raise _bad(f"position {p}", "0 or more", "count inputs, then outputs")
            more = p + 1 - len(self._types)
            self._types += [None] * more
            self._layouts += [None] * more
            if self._types[p] is not None:
                raise _bad(f"position {p} again", "each position once", "set it in one call")
            self._types[p], self._layouts[p] = _text(io_types, "io_types"), _text(layouts, "layouts")

    def tactics(self, tactics: Iterable[int]) -> None:
        """Set the tactics, as positive numbers."""
        self._tactics = _tactics(tactics)

    @one_line
    def __repr__(self) -> str:
        pairs = zip(self._types, self._layouts, strict=True)
        return f": {listed(['unset' if t is None else f'{t} {f}' for t, f in pairs], 8)}"


def combinations(choices: AutoTuneCombination, count: int, where: str) -> list[Combination]:
    """The combinations that `choices` stands for; `count`: inputs and outputs; `where`: the layer, for
    messages."""
    if len(choices._types) != count or None in choices._types:
        open_ones = [str(k) for k, t in enumerate(choices._types) if t is None]
        got = f"no type at {', '.join(open_ones)}" if open_ones else counted(len(choices._types), "type")
        do = "name one for each input and output"
        raise _bad(got, f"{count}, for inputs and outputs", do, where)
    types = [[_named(_TYPES, n, "type", where) for n in row] for row in _rows(choices._types, where)]
    named = TensorFormat.__members__
    formats = [[_named(named, n, "format", where) for n in row] for row in _rows(choices._layouts, where)]
    return [Combination((*t,), (*f,), choices._tactics) for t in types for f in formats]


def _rows(choices: list[str | None], where: str) -> list[tuple[str, ...]]:
    """The product of the alternatives of all tensors, where those joined by `|` stay together."""
    together = [x.split("|") if x is not None and "|" in x else None for x in choices]
    counts = {len(x) for x in together if x is not None}
    mixed = [x for x in choices if x is not None and "|" in x and "*" in x]
    if mixed or len(counts) > 1:
        got = f"{mixed[0]!r}" if mixed else f"{' and '.join(map(str, sorted(counts)))} alternatives with |"
        wanted = "either | or * for each tensor, and the same number of alternatives with |"
        raise _bad(got, wanted, "write several AutoTuneCombinations", where)
    rows = range(max(counts, default=1))
    free = [[] if x is None else x.split("*") for x in choices]
    sides = [[f if t is None else [t[k]] for t, f in zip(together, free, strict=True)] for k in rows]
    picked = (row for side in sides for row in itertools.product(*side))
    return [tuple(name.strip() for name in row) for row in picked]


def _named(known: Mapping[str, T], name: str, what: str, where: str) -> T:
    if name not in known:
        raise _bad(f"{what} {name!r}", f"one of {', '.join(known)}", "check the spelling", where)
    return known[name]


def _parts(text: object, what: str) -> list[str]:
    return [part.strip() for part in _text(text, what).split(",")]


def _text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise wrong_type(f"AutoTuneCombination: {what}", text, 'a str as "FP32|FP16"')
    return text


def _tactics(tactics: object) -> tuple[int, ...]:
    if not isinstance(tactics, Iterable):
        raise wrong_type("AutoTuneCombination: tactics", tactics, "a list of ints")
    numbers = tuple(integer(t, "AutoTuneCombination: tactics") for t in tactics)
    if any(t <= 0 for t in numbers):
        raise _bad(f"tactics {list(numbers)}", "positive numbers", "0 stands for a plug-in without tactics")
    return numbers


def _bad(got: str, wanted: str, do: str, where: str = "AutoTuneCombination") -> WrongValue:
    return WrongValue(ArgumentError("AR304", where, got, wanted, do))
