"""A size with its symbols replaced by other sizes, or by numbers.

>>> from anyrt.core.dims import Sym
>>> n = Sym("n")
>>> substitute(n * 2 + 1, {n: n + 3}), evaluate(n * 2 + 1, {"n": 5})
(7 + 2*n, 11)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

from anyrt.core.dimbroadcast import broadcast, broadcast_factor
from anyrt.core.dims import BINARY, MAX, MIN, SCALE, Atom, Dim, Fn, Monomial, Sym, product, scaled, total


def rebuild(x: Dim, leaf: Callable[[Sym], Dim], less: Callable[[Dim, Dim], bool] = lambda a, b: False) -> Dim:
    """`x` with every symbol replaced by `leaf(symbol)`, simplified again; `less(a, b)`: whether a ≤ b is
    known, so that their minimum is a."""
    return _Rebuilt(leaf, less).whole(x)


@dataclass(frozen=True, slots=True, eq=False)
class _Rebuilt:
    """Replaces symbols in sizes. Not a nested function: closures that call themselves live until Python's
    garbage collector runs."""

    leaf: Callable[[Sym], Dim]
    less: Callable[[Dim, Dim], bool]
    parts: dict[Atom, Dim] = field(default_factory=dict)  # a part that occurs several times is created once

    def whole(self, x: Dim) -> Dim:
        if isinstance(x, int):
            return x
        return total(product((c, *self._factors(m))) for m, c in x.terms)

    def _factors(self, m: Monomial) -> Iterator[Dim]:
        sizes, others = broadcast_factor(m)  # the new sizes may be broadcasts, or equal
        if sizes:
            yield reduce(broadcast, map(self.whole, sizes))
        yield from map(self._atom, others)

    def _atom(self, a: Atom) -> Dim:
        if (new := self.parts.get(a)) is None:
            new = self.parts[a] = self.leaf(a) if isinstance(a, Sym) else self._function(a)
        return new

    def _function(self, fn: Fn) -> Dim:
        a, *others = map(self.whole, fn.args)
        if fn.op == SCALE:
            return scaled(a, fn.factor)
        (b,) = others
        if fn.op in (MIN, MAX) and (self.less(a, b) or self.less(b, a)):
            return a if self.less(a, b) == (fn.op == MIN) else b
        return BINARY[fn.op](a, b)


def substitute(x: Dim, values: Mapping[Sym, Dim]) -> Dim:
    """`x` with symbols replaced."""
    if isinstance(x, int) or not values:
        return x
    return rebuild(x, lambda s: values.get(s, s.dim))


def evaluate(x: Dim, values: Mapping[str, int]) -> int:
    """The value of `x` for symbols given by name; KeyError names a missing one."""
    return _number(x, values, {})


def _number(x: Dim, values: Mapping[str, int], numbers: dict[Atom, int]) -> int:
    """The same; `numbers`: the values of atoms that are known already."""
    if isinstance(x, int):
        return x
    number = 0
    for atoms, count in x.terms:
        for a in atoms:
            if (factor := numbers.get(a)) is None:
                factor = numbers[a] = values[a.name] if isinstance(a, Sym) else _result(a, values, numbers)
            count *= factor
        number += count
    return number


def _result(fn: Fn, values: Mapping[str, int], numbers: dict[Atom, int]) -> int:
    args = [_number(x, values, numbers) for x in fn.args]
    if fn.op in (MIN, MAX):
        return min(args) if fn.op == MIN else max(args)
    result = scaled(args[0], fn.factor) if fn.op == SCALE else BINARY[fn.op](*args)
    assert isinstance(result, int), f"{fn} of numbers is {result}"
    return result
