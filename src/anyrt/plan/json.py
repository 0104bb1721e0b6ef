"""JSON from an untrusted source, read with every value checked; errors name the field.

>>> Reader({"a": [1, 2]}, "header").field("a").items(8)[1].integer()
2
>>> load(b"[" * 100 + b"]" * 100, "", 1000)  # doctest: +ELLIPSIS
Traceback (most recent call last):
anyrt.core.errors.PlanError: [AR605] got JSON too deep, wanted 64 levels; ...
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NoReturn, TypeAlias, TypeGuard

from anyrt.core.errors import PlanError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

MAX_DEPTH: Final = 64
MAX_INT: Final = 1 << 62
_MAX_DIGITS: Final = 20
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(_STEPS))


def dump(value: Json) -> bytes:
    """`value` as compact UTF-8, keys in the order given."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def load(text: bytes, where: str, max_bytes: int) -> Json:
    """The value of `text`, its size, depth and numbers checked before and while it is parsed."""
    if len(text) > max_bytes:
        raise PlanError("AR605", where, got=f"{len(text)} bytes", wanted=f"at most {max_bytes}")
    _check_depth(text, where)
    try:
        value: Json = json.loads(
            text.decode("utf-8"),
            parse_int=_parse_int,
            parse_constant=_no_constant,
            object_pairs_hook=_no_twins,
        )
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors too
        raise PlanError("AR605", where, got=f"bad JSON ({error})", wanted="JSON") from None
    return value


def _check_depth(text: bytes, where: str) -> None:
    # Every second part between quotes is outside strings, once escapes are removed. A backslash outside of
    # strings ends the parsing, so later counts do not matter.
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(plain.split(b'"')[::2]).translate(None, _NOT_BRACKETS)
    depths = accumulate(map(_STEPS.__getitem__, brackets))
    if any(map(MAX_DEPTH.__lt__, depths)):
        raise PlanError("AR605", where, got="JSON too deep", wanted=f"{MAX_DEPTH} levels")


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"the constant {name}")


def _no_twins(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key given twice")
    return out


def _summary(value: Json) -> str:
    match value:
        case dict():
            return f"an object of {len(value)} fields"
        case list():
            return f"a list of {len(value)}"
        case _:
            return repr(value)[:60]


# Long lists are checked as a whole: a reader for each element takes ten times as long, and is created only to
# name the place of an invalid one.
def _are_texts(value: Json) -> TypeGuard[list[str]]:
    return isinstance(value, list) and {str}.issuperset(map(type, value))


def _are_pairs(value: Json) -> TypeGuard[list[list[str]]]:
    if not isinstance(value, list):
        return False
    return all(isinstance(x, list) and len(x) == 2 and type(x[0]) is type(x[1]) is str for x in value)


@dataclass(frozen=True, slots=True)
class Reader:
    """A JSON value and its place; each method returns the value as one type or raises PlanError."""

    value: Json
    where: str

    def error(self, got: str, wanted: str) -> PlanError:
        """The PlanError for this value, which the caller raises; `got` describes the value."""
        return PlanError("AR605", self.where, got=got, wanted=wanted)

    def _fail(self, wanted: str) -> NoReturn:
        raise self.error(_summary(self.value), wanted)

    def field(self, name: str) -> Reader:
        """The member `name` of an object."""
        if not isinstance(self.value, dict):
            self._fail("an object")
        if name not in self.value:
            self._fail(f"an object with the field {name!r}")
        return Reader(self.value[name], f"{self.where}.{name}" if self.where else name)

    def fields(self, *names: str) -> tuple[Reader, ...]:
        """All members of an object, which must have exactly these."""
        members = tuple(self.field(name) for name in names)
        if isinstance(self.value, dict) and len(self.value) != len(names):
            self._fail(f"only the fields {', '.join(names)}")
        return members

    def items(self, most: int) -> list[Reader]:
        """The elements of a list of at most `most`."""
        if not isinstance(self.value, list) or len(self.value) > most:
            self._fail(f"a list of at most {most}")
        return [Reader(x, f"{self.where}[{i}]") for i, x in enumerate(self.value)]

    def exactly(self, count: int) -> list[Reader]:
        """The elements of a list of `count`."""
        elements = self.items(count)
        return elements if len(elements) == count else self._fail(f"a list of {count}")

    def text(self, most: int = 1 << 30) -> str:
        """A string of at most `most` characters."""
        if not isinstance(self.value, str) or len(self.value) > most:
            self._fail(f"a string of at most {most} characters" if most < 1 << 30 else "a string")
        return self.value

    def texts(self, most: int) -> tuple[str, ...]:
        """The elements of a list of at most `most` strings."""
        if _are_texts(self.value) and len(self.value) <= most:
            return tuple(self.value)
        return tuple(x.text() for x in self.items(most))

    def pairs(self, most: int) -> tuple[tuple[str, str], ...]:
        """The elements of a list of at most `most` pairs of strings."""
        if _are_pairs(self.value) and len(self.value) <= most:
            return tuple((a, b) for a, b in self.value)
        rows = (x.exactly(2) for x in self.items(most))
        return tuple((a.text(), b.text()) for a, b in rows)

    def name(self) -> str:
        """A string of 1 to 4095 characters without NUL."""
        text = self.text()
        return (
            text
            if 0 < len(text) < 4096 and "\0" not in text
            else self._fail("a name of 1 to 4095 characters")
        )

    def integer(self, lo: int = 0, hi: int = MAX_INT) -> int:
        """An integer from `lo` to `hi`; not true or false."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not lo <= self.value <= hi:
            self._fail(f"an integer from {lo} to {hi}")
        return self.value

    def flag(self) -> bool:
        """true or false."""
        return self.value if isinstance(self.value, bool) else self._fail("true or false")

    def number(self) -> float:
        """A finite number."""
        if (
            isinstance(self.value, bool)
            or not isinstance(self.value, int | float)
            or not math.isfinite(self.value)
        ):
            self._fail("a finite number")
        return float(self.value)
