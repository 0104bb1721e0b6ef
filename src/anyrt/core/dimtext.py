"""Sizes as text, and an exact parser that does not trust the text; other text forms use its reader.

>>> n = Sym("n", 1, 64)
>>> text = print_dim(dims.floordiv(n.dim * 3 + 2, 4)); text
'floordiv(2 + 3*n, 4)'
>>> parse_dim(text, {"n": n}, "output y") == dims.floordiv(n.dim * 3 + 2, 4)
True

A function that occurs several times in a long size is written once, with a number: `@0=max(1, n)`, then `@0`.
Names that are not identifiers are quoted as in JSON. Only functions have parentheses, and parsing simplifies
nothing, so it returns the size that was printed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from anyrt.core import dims
from anyrt.core.dimlimits import LONG, MAX_DEGREE, MAX_DEPTH, MAX_TEXT, check_size
from anyrt.core.dims import Atom, Dim, Expr, Fn, Monomial, Sym
from anyrt.core.errors import NotSupportedError, PlanError

MAX_INT: Final = 1 << 63
FUNCTIONS: Final = frozenset({*dims.BINARY, dims.SCALE})

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.#]*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SIGNS = re.compile(r"\.\.|[-+*(),:=\[\]{}@<]")
_TOKEN = re.compile("|".join(p.pattern for p in (_WORD, _NUMBER, _STRING, _SIGNS)))
_SPACE = re.compile(r"\s*")


def print_name(name: str) -> str:
    """A name in texts: identifiers as they are, others quoted."""
    return name if _WORD.fullmatch(name) else json.dumps(name)


def size_name(sym: Sym) -> str:
    """The name of a symbol that is a size, not a loop variable or a value that a kernel computes."""
    assert (sym.extent, sym.source) == (None, None), f"{sym} is not a size"
    return print_name(sym.name)


def print_dim(x: Dim, name: Callable[[Sym], str] = size_name) -> str:
    """`x` as text that `parse_dim` reads; `name` returns the name of a symbol."""
    if isinstance(x, int):
        return str(x)
    text = _Printer(name, _repeated(x) if length(x) > LONG else frozenset()).dim(x)
    check_size(text=len(text))
    return text


def length(x: Dim) -> int:
    """The length of the text of `x` if each part is written at every occurrence."""
    parts = [a for m, _ in x.terms for a in m if isinstance(a, Fn)] if isinstance(x, Expr) else []
    return len(repr(x)) + sum(a.length - len(a.key) for a in parts)


def _repeated(x: Dim) -> frozenset[Fn]:
    """The functions that occur several times in `x`."""
    seen: set[Fn] = set()
    repeated: set[Fn] = set()
    todo = [x]
    while todo:
        top = todo.pop()
        for fn in (a for m, _ in top.terms for a in m if isinstance(a, Fn)) if isinstance(top, Expr) else ():
            if fn in seen:
                repeated.add(fn)
            else:
                seen.add(fn)
                todo += fn.args
    return frozenset(repeated)


class _Printer:
    """Writes one size; `shared`: functions that get a number at their first occurrence."""

    def __init__(self, name: Callable[[Sym], str], shared: frozenset[Fn]) -> None:
        self._name = name
        self._shared = shared
        self._numbers: dict[Fn, int] = {}

    def dim(self, x: Dim) -> str:
        if isinstance(x, int):
            return str(x)
        return " + ".join(self._term(m, c) for m, c in x.terms)

    def _term(self, monomial: Monomial, coefficient: int) -> str:
        if not monomial:
            return str(coefficient)
        factors = "*".join(map(self._atom, monomial))
        return factors if coefficient == 1 else f"{coefficient}*{factors}"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Sym):
            return self._name(atom)
        if atom in self._numbers:
            return f"@{self._numbers[atom]}"
        last = [repr(atom.factor)] if atom.op == dims.SCALE else []
        text = f"{atom.op}({', '.join([*map(self.dim, atom.args), *last])})"
        if atom not in self._shared:
            return text
        self._numbers[atom] = len(self._numbers)
        return f"@{self._numbers[atom]}={text}"


def parse_dim(text: object, symbols: Mapping[str, Sym], where: str) -> Dim:
    """The size that `text` denotes; PlanError at `where` for anything else."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        got = f"{len(text)} characters" if isinstance(text, str) else type(text).__name__
        raise PlanError("AR605", where, got=got, wanted=f"a size as text of at most {MAX_TEXT} characters")
    reader = Reader(text, symbols, where)
    value = reader.dim()
    reader.finish()
    return value


class Reader:
    """Tokens of one text, read from the left; every failure is a PlanError that names the line.

    `symbols` is looked up while reading, so the owner may add to it."""

    def __init__(self, text: str, symbols: Mapping[str, Sym], where: str) -> None:
        self.where = where
        self.symbols = symbols
        self.depth = 0
        self._numbered: dict[int, Fn] = {}
        self._tokens: list[str] = []
        self._lines: list[int] = []
        self._at = 0
        self._split(text)

    def _split(self, text: str) -> None:
        end, line = 0, 1
        while end < len(text):
            space = _SPACE.match(text, end)
            end, line = (space.end(), line + space.group().count("\n")) if space else (end, line)
            token = _TOKEN.match(text, end)
            if token is None:
                break
            self._tokens.append(token.group())
            self._lines.append(line)
            end = token.end()
        if end < len(text):
            raise PlanError(
                "AR605",
                f"{self.where}, line {line}",
                got=repr(text[end : end + 20]),
                wanted="a name, number or operator",
            )

    @property
    def place(self) -> str:
        """The position of the next token, for messages."""
        line = self._lines[min(self._at, len(self._lines) - 1)] if self._lines else 1
        return f"{self.where}, line {line}"

    @property
    def next(self) -> str:
        """The next token, "" at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def error(self, wanted: str) -> PlanError:
        """The error to raise if the next token is not `wanted`."""
        shown = repr(self.next[:40]) if self.next else "the end"
        return PlanError("AR605", self.place, got=shown, wanted=wanted)

    def finish(self) -> None:
        """Require the end of the text."""
        if self.next:
            raise self.error("the end")

    def take(self) -> str:
        """The next token, whatever it is."""
        token = self.next
        if not token:
            raise self.error("more text")
        self._at += 1
        return token

    def follows(self, token: str) -> bool:
        """True when `token` is next."""
        return self.next == token

    def skip(self, token: str) -> bool:
        """True, and skip the token, if `token` is next."""
        matches = self.next == token
        self._at += matches
        return matches

    def expect(self, token: str) -> None:
        """Require `token` next, and skip it."""
        if not self.skip(token):
            raise self.error(repr(token))

    def word(self) -> str:
        """A plain word."""
        if not _WORD.fullmatch(self.next):
            raise self.error("a name")
        return self.take()

    def name(self) -> str:
        """A plain word or a quoted name."""
        return self.string() if self.next.startswith('"') else self.word()

    def string(self) -> str:
        """A text in quotes."""
        if not self.next.startswith('"'):
            raise self.error("a text in quotes")
        try:
            value = str(json.loads(self.next))
        except ValueError:
            raise self.error("a text in quotes, written as in JSON") from None
        self._at += 1
        return value

    def integer(self, most: int = MAX_INT) -> int:
        """A number without fraction, 64 bits at most."""
        sign = -1 if self.skip("-") else 1
        if not self.next.isdecimal() or len(self.next) > 20 or int(self.next) > most:
            raise self.error("an integer of 64 bits")
        return sign * int(self.take())

    def number(self) -> float:
        """A number, inf and nan included."""
        sign = -1.0 if self.skip("-") else 1.0
        special = {"inf": math.inf, "nan": math.nan}
        if self.next in special:
            return sign * special[self.take()]
        if not _NUMBER.fullmatch(self.next) or len(self.next) > 400:
            raise self.error("a number")
        return sign * float(self.take())

    def enter(self) -> None:
        """One level deeper; `leave` goes back."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise PlanError("AR605", self.place, got="deeper nesting", wanted=f"at most {MAX_DEPTH} levels")

    def leave(self) -> None:
        """One level up."""
        self.depth -= 1

    def items(self, opening: str, item: Callable[[], object], closing: str) -> None:
        """A list in brackets, separated by commas; `item` reads one element."""
        self.enter()
        self.expect(opening)
        while not self.skip(closing):
            item()
            if not self.skip(","):
                self.expect(closing)
                break
        self.leave()

    def dim(self) -> Dim:
        """A sum of terms. Numbers assigned to functions are known only within it."""
        self._numbered.clear()
        return self._sum()

    def _sum(self) -> Dim:
        total: dict[Monomial, int] = {}
        more = True
        while more:
            monomial, coefficient = self._term()
            total[monomial] = total.get(monomial, 0) + coefficient
            more = self.skip("+")
        return dims.polynomial(total)

    def _term(self) -> tuple[Monomial, int]:
        coefficient, atoms = 1, list[Atom]()
        factors = [self._factor()]
        while self.skip("*"):
            factors.append(self._factor())
        for factor in factors:
            if isinstance(factor, int):
                coefficient *= factor
            else:
                atoms.append(factor)
            if abs(coefficient) > MAX_INT or len(atoms) > MAX_DEGREE:
                raise self.error(f"at most {MAX_DEGREE} factors, their product below 2^63")
        return tuple(sorted(atoms, key=lambda a: a.key)), coefficient

    def _factor(self) -> int | Atom:
        if self.follows("-") or self.next[:1].isdecimal():
            return self.integer()
        if self.skip("@"):
            return self._shared()
        before, name = self._at, self.name()
        if name in FUNCTIONS and self.follows("("):
            return self._function(name)
        if name not in self.symbols:
            self._at = before
            raise self.error("a known symbol")
        return self.symbols[name]

    def _shared(self) -> Fn:
        """A function by its number, which its first occurrence defines."""
        number = self.integer()
        if not self.skip("="):
            if number not in self._numbered:
                raise self.error("a number that was given before")
            return self._numbered[number]
        op = self.word()
        if op not in FUNCTIONS:
            raise self.error("a function")
        self._numbered[number] = self._function(op)
        return self._numbered[number]

    def _function(self, op: str) -> Fn:
        self.enter()
        self.expect("(")
        first = self._sum()
        self.expect(",")
        args = (first,) if op == dims.SCALE else (first, self._sum())
        factor = self._scale() if op == dims.SCALE else 0.0
        self.expect(")")
        self.leave()
        try:
            return Fn(op, args, factor)
        except NotSupportedError as error:  # few characters can stand for a large size
            raise self.error(f"a smaller size: {error.got}") from None

    def _scale(self) -> float:
        place, factor = self.place, self.number()
        if not 0 <= factor < MAX_INT:
            raise PlanError("AR605", place, got=f"a scale of {factor}", wanted="0 or more, finite")
        return factor
