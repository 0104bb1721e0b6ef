"""Symbolic integers: the sizes of dynamic dimensions and the indices of kernels share one algebra.

A `Dim` is an `int` or an `Expr`. An `Expr` is kept as a polynomial with integer coefficients over
atoms (symbols, floor divisions, remainders, minima, maxima, floors of float32 products), so equal
values written differently compare equal:

    >>> n, c = Sym("n"), Sym("c")
    >>> (n + 2) * c - 2 * c == c * n
    True
    >>> (n * 12 + 5) // 4
    1 + 3*n

Loop variables are symbols too: `Sym("i", extent=n)` takes 0 … n−1, and divisions that this range
decides vanish.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import TypeAlias

import numpy as np

from anyrt.core.dimgrowth import by_growth
from anyrt.core.dimlimits import check_size, shortened

INF = 1 << 62
MOST_ENDS = 10  # minima and maxima of a sum, whose ends are looked at in all combinations
FLAT = 4  # operands of a minimum or maximum that is kept in the order of the call; more operands are balanced


class Arithmetic:
    """Operators of symbols and expressions."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Dim:
        return add(_dim(self), _dim(other))

    def __radd__(self, other: int) -> Dim:
        return add(other, _dim(self))

    def __sub__(self, other: Operand) -> Dim:
        return add(_dim(self), mul(_dim(other), -1))

    def __rsub__(self, other: int) -> Dim:
        return add(other, mul(_dim(self), -1))

    def __neg__(self) -> Dim:
        return mul(_dim(self), -1)

    def __mul__(self, other: Operand) -> Dim:
        return mul(_dim(self), _dim(other))

    def __rmul__(self, other: int) -> Dim:
        return mul(other, _dim(self))

    def __floordiv__(self, other: Operand) -> Dim:
        return floordiv(_dim(self), _dim(other))

    def __rfloordiv__(self, other: int) -> Dim:
        return floordiv(other, _dim(self))

    def __mod__(self, other: Operand) -> Dim:
        return mod(_dim(self), _dim(other))

    def __rmod__(self, other: int) -> Dim:
        return mod(other, _dim(self))


@dataclass(frozen=True, slots=True)
class Sym(Arithmetic):
    """A named integer: a dynamic dimension (`lo` … `hi`; 0 … `most` if data-dependent; unlimited if INF), a
    loop variable (0 … `extent` − 1) or a value that a kernel computes (`source`, opaque here)."""

    name: str
    lo: int = 0
    hi: int = INF
    extent: Dim | None = None
    source: object = None
    needs: tuple[Sym, ...] = ()
    most: Dim | None = None
    key: str = field(init=False, repr=False, compare=False, default="")
    hashed: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.name)
        parts = (self.name, self.lo, self.hi, self.extent, self.source, self.needs, self.most)
        object.__setattr__(self, "hashed", hash(parts))

    def __hash__(self) -> int:
        return self.hashed

    def __repr__(self) -> str:
        return self.name

    @property
    def dim(self) -> Expr:
        """This symbol as an expression."""
        return Expr((((self,), 1),))


@dataclass(frozen=True, slots=True)
class Fn:
    """A non-polynomial atom: `op` is one of floordiv, mod, tdiv, min, max, eq (1 or 0), scale (floor
    of float32(a) × float32(factor)). `key` is its text, shortened; `length`: of the whole text."""

    op: str
    args: tuple[Dim, ...]
    factor: float = 0.0
    key: str = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)
    length: int = field(init=False, compare=False)
    hashed: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        inner = [a for x in self.args for m, _ in _terms(x) for a in m if isinstance(a, Fn)]
        text = f"{self.op}({', '.join(map(repr, (*self.args, *[self.factor] * (self.op == SCALE))))})"
        length = len(text) + sum(a.length - len(a.key) for a in inner)
        depth = 1 + max((a.depth for a in inner), default=0)
        check_size(depth, written_out=length)
        hashed = hash((self.op, self.args, self.factor))
        for name, value in (
            ("key", shortened(text)),
            ("depth", depth),
            ("length", length),
            ("hashed", hashed),
        ):
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return self.hashed

    def __repr__(self) -> str:
        return self.key


Atom: TypeAlias = Sym | Fn
Monomial: TypeAlias = tuple[Atom, ...]
FLOORDIV, MOD, TDIV, MIN, MAX, EQ, SCALE = "floordiv", "mod", "tdiv", "min", "max", "eq", "scale"


@dataclass(frozen=True, slots=True, eq=False)
class Expr(Arithmetic):
    """A polynomial: ((monomial, coefficient), …), sorted, no coefficient 0; never a plain constant."""

    terms: tuple[tuple[Monomial, int], ...]
    hashed: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hashed", hash(self.terms))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Expr) and self.hashed == other.hashed and self.terms == other.terms
        )

    def __hash__(self) -> int:
        return self.hashed

    def __repr__(self) -> str:
        return " + ".join(_term_text(m, c) for m, c in self.terms)


Dim: TypeAlias = int | Expr
Operand: TypeAlias = int | Arithmetic
Binary: TypeAlias = Callable[[Dim, Dim], Dim]


def _dim(x: Operand) -> Dim:
    assert isinstance(x, int | Expr | Sym), f"{type(x).__name__} is no size"
    return x.dim if isinstance(x, Sym) else x


def _term_text(m: Monomial, c: int) -> str:
    names = "*".join(map(repr, m))
    return (names if c == 1 else f"{c}*{names}") if m else str(c)


def _terms(x: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(x, Expr):
        return x.terms
    return (((), x),) if x else ()


def polynomial(terms: Mapping[Monomial, int]) -> Dim:
    """The sum of monomials with their coefficients, without simplification."""
    nonzero = [(m, c) for m, c in terms.items() if c]
    if not nonzero:
        return 0
    if len(nonzero) == 1 and not nonzero[0][0]:
        return nonzero[0][1]
    return Expr(tuple(sorted(nonzero, key=lambda t: (len(t[0]), [a.key for a in t[0]]))))


@lru_cache(maxsize=65536)
def add(a: Dim, b: Dim) -> Dim:
    """a + b."""
    return a + b if isinstance(a, int) and isinstance(b, int) else total((a, b))


def total(dims: Iterable[Dim]) -> Dim:
    """The sum of all; 0 for none."""
    out: dict[Monomial, int] = {}
    for d in dims:
        for m, c in _terms(d):
            out[m] = out.get(m, 0) + c
    return polynomial(_rejoin(out))


def _rejoin(terms: dict[Monomial, int]) -> dict[Monomial, int]:
    """k·floor(x / k) + (x mod k) is x: a reshape cancels the split of the one before."""
    for m in [m for m in terms if any(isinstance(a, Fn) and a.op == MOD for a in m)]:
        rest = next(a for a in m if isinstance(a, Fn) and a.op == MOD)
        x, k = rest.args
        others = list(m)
        others.remove(rest)
        left = Expr(((tuple(others), terms[m]),)) if others else terms[m]
        whole = _terms(mul(mul(left, k), Expr((((Fn(FLOORDIV, (x, k)),), 1),))))
        if terms[m] and all(terms.get(n) == c for n, c in whole):
            out = {n: c for n, c in terms.items() if n != m and n not in dict(whole)}
            for n, c in _terms(mul(left, x)):
                out[n] = out.get(n, 0) + c
            return _rejoin({n: c for n, c in out.items() if c})
    return terms


@lru_cache(maxsize=65536)
def mul(a: Dim, b: Dim) -> Dim:
    """a × b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    out: dict[Monomial, int] = {}
    left, right = _terms(a), _terms(b)
    check_size(degree=sum(len(x[-1][0]) for x in (left, right) if x), terms=len(left) * len(right))
    for ma, ca in left:
        for mb, cb in right:
            m = tuple(sorted(ma + mb, key=lambda t: t.key))
            out[m] = out.get(m, 0) + ca * cb
    return polynomial(out)


def product(dims: Iterable[Dim]) -> Dim:
    """The product of all; 1 for none."""
    one: Dim = 1
    return reduce(mul, dims, one)


def _divide_out(terms: tuple[tuple[Monomial, int], ...], d: Dim) -> tuple[Dim, Dim]:
    """(q, r) with terms = q·d + r, where q takes every term that the divisor `d` divides exactly."""
    divisor = _terms(d)
    if len(divisor) != 1:
        whole = _exact_quotient(terms, d)
        return (0, polynomial(dict(terms))) if whole is None else (whole, 0)
    dm, dc = divisor[0]
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, c in terms:
        left = list(m)
        fits = c % dc == 0
        for atom in dm if fits else ():
            if atom not in left:
                fits = False
                break
            left.remove(atom)
        if fits:
            quotient[tuple(left)] = c // dc
        else:
            rest[m] = c
    return polynomial(quotient), polynomial(rest)


def _exact_quotient(terms: tuple[tuple[Monomial, int], ...], d: Dim) -> Dim | None:
    """terms ÷ d for a many-term divisor that leaves no remainder: long division by the leading term."""
    lead = _terms(d)[-1]
    rest: Dim = polynomial(dict(terms))
    quotient: Dim = 0
    for _ in range(len(terms)):
        if rest == 0:
            return quotient
        step, _left = _divide_out((_terms(rest)[-1],), Expr((lead,)))
        if step == 0:
            return None
        quotient, rest = add(quotient, step), add(rest, mul(mul(step, d), -1))
    return quotient if rest == 0 else None


@lru_cache(maxsize=65536)
def divmod_dim(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """(floor(a / b), a − b·floor(a / b)) for b > 0; each simplified as far as ranges allow."""
    if isinstance(a, int) and isinstance(b, int):
        return (a // b, a % b) if b else (0, 0)
    if isinstance(b, int) and b in (0, 1):
        return b and a, 0
    whole, rest = _divide_out(_terms(a), b)
    if rest == 0:
        return whole, 0
    if always_le(0, rest) and always_le(add(rest, 1), b):
        return whole, rest
    if isinstance(b, int) and isinstance(rest, int):
        return add(whole, rest // b), rest % b
    if isinstance(b, int) and isinstance(rest, Expr):
        moved = _move_constant(rest, b)
        if moved is not None:
            return add(whole, moved[0]), moved[1]
    if (grouped := _grouped(rest, b)) is not None:
        a, k, m = grouped
        (quotient, left), low = divmod_dim(a, k), add(rest, mul(mul(a, m), -1))
        return add(whole, quotient), add(mul(left, m), low)
    shared = common_factor(rest, b)
    if shared != ((), 1):
        quotient, left = divmod_dim(scale_down(rest, shared), scale_down(b, shared))
        return add(whole, quotient), mul(left, polynomial(dict([shared])))
    return add(whole, Expr((((Fn(FLOORDIV, (rest, b)),), 1),))), Expr((((Fn(MOD, (rest, b)),), 1),))


def _grouped(rest: Dim, b: Dim) -> tuple[Dim, Dim, Dim] | None:
    """(a, k, m) with b = k·m and rest = a·m + low, 0 ≤ low < m, so that low does not matter: the channel c of
    the group of c·h·w + position, with position < h·w."""
    ((atoms, count),) = _terms(b) if len(_terms(b)) == 1 else (((), 0),)
    high, low = _divide_out(_terms(rest), polynomial({atoms: 1})) if atoms and count > 1 else (0, rest)
    shared = reduce(math.gcd, (c for _, c in _terms(high)), count) or 1
    a, k, m = scale_down(high, ((), shared)), count // shared, polynomial({atoms: shared})
    return (a, k, m) if a != 0 and always_le(0, low) and always_le(add(low, 1), m) else None


def _move_constant(rest: Expr, b: int) -> tuple[Dim, Dim] | None:
    """Split off the whole multiples of b in the constant, if only the constant prevents the division."""
    constant = dict(rest.terms).get((), 0)
    for k in {constant // b, -(-constant // b)} - {0}:
        shifted = add(rest, -k * b)
        if always_le(0, shifted) and always_le(add(shifted, 1), b):
            return k, shifted
    return None


def common_factor(a: Dim, b: Dim) -> tuple[Monomial, int]:
    """The common divisor of all terms of both: a number, and atoms that are positive since b > 0."""
    terms = _terms(a) + _terms(b)
    number = reduce(math.gcd, (c for _, c in terms), 0)
    shared = reduce(operator.and_, (Counter(m) for m, _ in terms), Counter(terms[0][0] if terms else ()))
    atoms = (atom for atom in shared.elements() if _atom_bounds(atom)[0] >= 0)
    return tuple(sorted(atoms, key=lambda t: t.key)), number or 1


def scale_down(x: Dim, factor: tuple[Monomial, int]) -> Dim:
    out: dict[Monomial, int] = {}
    for m, c in _terms(x):
        left = list(m)
        for atom in factor[0]:
            left.remove(atom)
        out[tuple(left)] = c // factor[1]
    return polynomial(out)


def floordiv(a: Dim, b: Dim) -> Dim:
    """floor(a / b), b > 0 (0 where b is 0)."""
    return divmod_dim(a, b)[0]


def mod(a: Dim, b: Dim) -> Dim:
    """The remainder of `floordiv`, in 0 … b − 1."""
    return divmod_dim(a, b)[1]


def ceildiv(a: Dim, b: Dim) -> Dim:
    """ceil(a / b), b > 0."""
    return floordiv(add(a, add(b, -1)), b)


def tdiv(a: Dim, b: Dim) -> Dim:
    """a / b rounded towards zero, as C divides integers (0 where b is 0)."""
    if isinstance(a, int) and isinstance(b, int):
        return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if b == 0 or (always_le(0, a) and always_le(1, b)):
        return floordiv(a, b)
    return Expr((((Fn(TDIV, (a, b)),), 1),))


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller of two."""
    return _extremum(MIN, a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """The larger of two."""
    return _extremum(MAX, a, b)


def _extremum(op: str, a: Dim, b: Dim) -> Dim:
    for x, y in ((a, b), (b, a)):
        if always_le(x, y):
            return x if op == MIN else y
    operands = dict.fromkeys(compared(op, a) + compared(op, b))
    return balanced(op, sorted(operands, key=repr)) if len(operands) > FLAT else _function(op, a, b)


def _function(op: str, a: Dim, b: Dim) -> Dim:
    return Expr((((Fn(op, tuple(sorted((a, b), key=repr))),), 1),))


def compared(op: str, x: Dim) -> list[Dim]:
    """The operands whose extremum `x` is."""
    match x:
        case Expr(terms=(((Fn(op=same, args=args),), 1),)) if same == op:
            return [y for arg in args for y in compared(op, arg)]
    return [x]


def balanced(op: str, dims: Sequence[Dim]) -> Dim:
    """An extremum of many, whose depth is the logarithm of their number."""
    if len(dims) == 1:
        return dims[0]
    return _function(op, *(balanced(op, part) for part in (dims[: len(dims) // 2], dims[len(dims) // 2 :])))


@lru_cache(maxsize=65536)
def equal(a: Dim, b: Dim) -> Dim:
    """1 where a = b, else 0."""
    a, b = beneath(a, b), beneath(b, a)
    difference = add(a, mul(b, -1))
    lo, hi = bounds(difference)
    if difference == 0 or lo > 0 or hi < 0:
        return int(difference == 0)
    return Expr((((Fn(EQ, tuple(sorted((a, b), key=repr))),), 1),))


def beneath(x: Dim, k: Dim) -> Dim:
    """The value that equals `k` if and only if `x` does: y, if x is the smaller of y and a number above k."""
    match x:
        case Expr(terms=(((Fn("min", (int(c), y) | (y, int(c))),), 1),)) if isinstance(k, int) and c > k:
            return y
    return x


def scaled(a: Dim, factor: float) -> Dim:
    """floor(float32(a) × float32(factor)): how Resize turns scales into sizes."""
    if factor == int(factor):
        return mul(a, int(factor))
    if isinstance(a, int):
        return _scaled(a, factor)
    return Expr((((Fn(SCALE, (a,), float(np.float32(factor))),), 1),))


def _scaled(a: int, factor: float) -> int:
    return math.floor(np.float32(a) * np.float32(factor))


def bounds(x: Dim) -> tuple[int, int]:
    """(lowest, highest) value that `x` can take; ±INF if unknown."""
    return (x, x) if isinstance(x, int) else _bounds(x)


@lru_cache(maxsize=65536)
def _bounds(x: Expr) -> tuple[int, int]:
    lo = hi = 0
    for m, c in x.terms:
        a, b = _monomial_bounds(m)
        a, b = (a * c, b * c) if c > 0 else (b * c, a * c)
        lo, hi = lo + a, hi + b
    return by_growth(x.terms, _atom_bounds, (max(lo, -INF), min(hi, INF)))


def _monomial_bounds(m: Monomial) -> tuple[int, int]:
    lo, hi = 1, 1
    for atom in m:
        a, b = _atom_bounds(atom)
        corners = (lo * a, lo * b, hi * a, hi * b)
        lo, hi = max(min(corners), -INF), min(max(corners), INF)
    return lo, hi


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, Sym):
        top = atom.hi if atom.extent is None else max(bounds(atom.extent)[1] - 1, 0)
        return atom.lo, min(atom.hi, top)
    ranges = [bounds(a) for a in atom.args]
    (lo, hi) = ranges[0]
    match atom.op:
        case "min":
            return min(lo, ranges[1][0]), min(hi, ranges[1][1])
        case "max":
            return max(lo, ranges[1][0]), max(hi, ranges[1][1])
        case "mod":
            return 0, max(ranges[1][1] - 1, 0)
        case "floordiv" if ranges[1][0] >= 1:
            low, high = ranges[1]
            return min(lo // low, lo // high), max(hi // low, hi // high)
        case "eq":
            low, high = ranges[1]
            return int(lo == hi == low == high), int(max(lo, low) <= min(hi, high))
        case "scale":
            ends = _scaled(lo, atom.factor), _scaled(hi, atom.factor)
            return max(min(ends), -INF), min(max(ends), INF)
        case _:
            return -INF, INF


def always_le(a: Dim, b: Dim) -> bool:
    """True when a ≤ b for every value of the symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    return a is b or _never_negative(add(b, mul(a, -1)))


@lru_cache(maxsize=65536)
def _never_negative(x: Dim) -> bool:
    """Sets loop variables to the end of their range that makes `x` smallest, then functions to their
    bounds."""
    if bounds(x)[0] >= 0:
        return True
    for m, _ in _terms(x):
        for atom in m:
            last = (add(atom.extent, -1) if atom.extent else atom.most) if isinstance(atom, Sym) else None
            if isinstance(atom, Sym) and last not in (None, INF) and (split := linear(x, atom)) is not None:
                coefficient, rest = split
                lo, hi = bounds(coefficient)
                rest = rest if lo >= 0 else add(rest, mul(coefficient, last))
                if (lo >= 0 or hi <= 0) and (atom.most is None or _never_negative(rest)):
                    return _never_negative(rest)
    ends = [m for m, _ in _terms(x) if len(m) == 1 and isinstance(m[0], Fn) and m[0].op in (MIN, MAX)]
    if len(ends) > MOST_ENDS:
        return False  # unknown; each additional one doubles the combinations
    for m, c in _terms(x):
        if (least := _least(m, c)) is not None:
            rest = add(x, Expr(((m, -c),)))
            return least[0](_never_negative(add(rest, end)) for end in least[1])
    return False


def _least(m: Monomial, c: int) -> tuple[Callable[[Iterable[bool]], bool], tuple[Dim, ...]] | None:
    """A lower bound of c·m: each of some sizes (`any` is enough), or the least of them (`all`)."""
    match m:
        case (Fn("floordiv", (a, int(k))),) if k > 0 and c % k == 0:  # k·floor(a / k) is a - k + 1 to a
            return any, (mul(a if c < 0 else add(a, 1 - k), c // k),)
        case (Fn("min" | "max" as op, args),):
            return (all if (op == MIN) == (c > 0) else any), tuple(mul(a, c) for a in args)
    return None


def linear(x: Dim, sym: Sym) -> tuple[Dim, Dim] | None:
    """(coefficient, rest) with x = coefficient·sym + rest, both free of `sym`; None when that fails."""
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, c in _terms(x):
        n = m.count(sym)
        others = tuple(a for a in m if a != sym)
        if n > 1 or any(depends(a, sym) for a in others):
            return None
        (slope if n else rest)[others] = c
    return polynomial(slope), polynomial(rest)


def as_symbol(x: Dim) -> Sym | None:
    """The symbol, if `x` is nothing but a symbol."""
    match x:
        case Expr(terms=(((Sym() as sym,), 1),)):
            return sym
    return None


def depends(x: Dim | Atom, sym: Sym) -> bool:
    """True if the value of `x` can change with `sym`, also through the sources of opaque symbols."""
    return sym in symbols(x)


def symbols(x: Dim | Atom) -> frozenset[Sym]:
    """Every symbol in `x`, with those that its opaque symbols need."""
    if isinstance(x, int):
        return frozenset()
    return _symbols(x)


@lru_cache(maxsize=65536)
def _symbols(x: Expr | Atom) -> frozenset[Sym]:
    if isinstance(x, Sym):
        return frozenset({x}).union(*map(symbols, x.needs))
    parts: Iterable[Dim | Atom] = x.args if isinstance(x, Fn) else (a for m, _ in x.terms for a in m)
    return frozenset().union(*map(symbols, parts))


BINARY: dict[str, Binary] = {FLOORDIV: floordiv, MOD: mod, TDIV: tdiv, MIN: minimum, MAX: maximum, EQ: equal}
