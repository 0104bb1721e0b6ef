"""Symbolic sizes as text: what a plan stores, parsed back exactly and without trusting it.

>>> n = Sym("n", 1, 64)
>>> text = print_dim(dims.floordiv(n.dim * 3 + 2, 4)); text
'floordiv(2 + 3*n, 4)'
>>> parse_dim(text, {"n": n}, "output y") == dims.floordiv(n.dim * 3 + 2, 4)
True

Names that are not plain words are quoted as in JSON. There are no parentheses but those of functions, so that
the number of terms never exceeds the number of characters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import reduce
from typing import Final

from anyrt.core import dims
from anyrt.core.dims import Dim, Expr, Fn, Sym
from anyrt.core.errors import PlanError

MAX_TEXT: Final = 65536
MAX_DEPTH: Final = 64
MAX_DEGREE: Final = 64
MAX_INT: Final = 1 << 62

_FUNCTIONS: Final = frozenset({*dims.BINARY, dims.SCALE})
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.#]*\Z")
_TOKEN = re.compile(
    r'\s*(?:([A-Za-z_][A-Za-z0-9_.#]*)|("(?:[^"\\]|\\.)*")|([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)|([-+*(),]))'
)


def print_dim(x: Dim) -> str:
    """`x` as text that `parse_dim` reads."""
    if isinstance(x, int):
        return str(x)
    return " + ".join(_print_term(m, c) for m, c in x.terms)


def _print_term(monomial: tuple[Sym | Fn, ...], coefficient: int) -> str:
    factors = "*".join(map(_print_atom, monomial))
    if not monomial:
        return str(coefficient)
    return factors if coefficient == 1 else f"{coefficient}*{factors}"


def _print_atom(atom: Sym | Fn) -> str:
    if isinstance(atom, Fn):
        last = [repr(atom.factor)] if atom.op == dims.SCALE else []
        return f"{atom.op}({', '.join([*map(print_dim, atom.args), *last])})"
    assert (atom.extent, atom.source) == (None, None), f"{atom} is not a size, it cannot be in a plan"
    return atom.name if _WORD.match(atom.name) and atom.name not in _FUNCTIONS else json.dumps(atom.name)


def parse_dim(text: object, symbols: Mapping[str, Sym], where: str) -> Dim:
    """The size that `text` says; PlanError at `where` for anything else."""
    if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT:
        got = f"{len(text)} characters" if isinstance(text, str) else type(text).__name__
        raise PlanError("AR605", where, got=got, wanted=f"a size as text of 1 to {MAX_TEXT} characters")
    reader = _Reader(text, symbols, where)
    value = reader.expression(0)
    if reader.at < len(reader.tokens):
        raise reader.error()
    return value


class _Reader:
    """One text being parsed; every loop consumes a token, recursion is limited by MAX_DEPTH."""

    def __init__(self, text: str, symbols: Mapping[str, Sym], where: str) -> None:
        self.text, self.symbols, self.where, self.at = text, symbols, where, 0
        self.tokens = self._split()

    def _split(self) -> list[str]:
        tokens, end = [], 0
        while end < len(self.text):
            match = _TOKEN.match(self.text, end)
            if match is None:
                raise self.error()
            tokens.append(match.group().strip())
            end = match.end()
        return tokens

    def error(self) -> PlanError:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return PlanError(
            "AR605", self.where, got=repr(shown), wanted="a size as an expression over known symbols"
        )

    def take(self) -> str:
        self.at += 1
        if self.at > len(self.tokens):
            raise self.error()
        return self.tokens[self.at - 1]

    def follows(self, token: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] == token

    def skip(self, token: str) -> bool:
        found = self.follows(token)
        self.at += found
        return found

    def expect(self, token: str) -> None:
        if not self.skip(token):
            raise self.error()

    def expression(self, depth: int) -> Dim:
        if depth > MAX_DEPTH:
            raise PlanError("AR605", self.where, got=f"more than {MAX_DEPTH} nested functions")
        sums = [self.term(depth)]
        while self.skip("+"):
            sums.append(self.term(depth))
        # In pairs, so that hostile text with many terms costs n log n.
        while len(sums) > 1:
            sums = [reduce(dims.add, sums[i : i + 2]) for i in range(0, len(sums), 2)]
        return sums[0]

    def term(self, depth: int) -> Dim:
        coefficient, atoms = 1, list[Sym | Fn]()
        factors = [self.factor(depth)]
        while self.skip("*"):
            factors.append(self.factor(depth))
        for factor in factors:
            if isinstance(factor, int):
                coefficient *= factor
            else:
                atoms.append(factor)
            if abs(coefficient) > MAX_INT or len(atoms) > MAX_DEGREE:
                raise self.error()
        if not atoms or not coefficient:
            return coefficient
        return Expr(((tuple(sorted(atoms, key=lambda a: a.key)), coefficient),))

    def factor(self, depth: int) -> int | Sym | Fn:
        if self.skip("-"):
            return -self.integer(self.take())
        token = self.take()
        if token[0].isdigit():
            return self.integer(token)
        if self.follows("(") and token in _FUNCTIONS:
            return self.function(token, depth)
        name = self.unquoted(token) if token[0] in '"' else token
        if name not in self.symbols:
            raise PlanError(
                "AR605", self.where, got=f"the unknown symbol {name!r}", wanted="a symbol of the plan"
            )
        return self.symbols[name]

    def function(self, op: str, depth: int) -> Fn:
        self.expect("(")
        first = self.expression(depth + 1)
        self.expect(",")
        # Built as written, not simplified: a plan that is read and written again keeps its bytes.
        if op == dims.SCALE:
            atom = Fn(op, (first,), self.number())
        else:
            atom = Fn(op, (first, self.expression(depth + 1)))
        self.expect(")")
        return atom

    def integer(self, token: str) -> int:
        if not token.isdigit() or len(token) > 19 or int(token) > MAX_INT:
            raise self.error()
        return int(token)

    def number(self) -> float:
        sign = -1.0 if self.skip("-") else 1.0
        token = self.take()
        if not token[0].isdigit() or not math.isfinite(float(token)):
            raise self.error()
        return sign * float(token)

    def unquoted(self, token: str) -> str:
        try:
            return str(json.loads(token))
        except ValueError:
            raise self.error() from None
