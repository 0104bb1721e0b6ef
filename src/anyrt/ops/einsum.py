"""Einsum: sums of products over axes that are named by letters.

add_einsum([a, b], "bik,bjk->bij")      # a: (8, 3, 5), b: (8, 4, 5) → (8, 3, 4)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from string import ascii_uppercase

import numpy as np

from anyrt.core.dims import Dim
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError
from anyrt.core.requirement import Relation, Requirement
from anyrt.core.units import counted
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, checked, need, show
from anyrt.ops._product import repeated
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS, OWN_NUMBERS, PACKED
from anyrt.prims.build import cast, contract, identity, map_, reduce_, squeeze, transpose, unsqueeze, windows
from anyrt.prims.map import broadcast
from anyrt.prims.view import Axis

DOTS = "..."
GRAMMAR = re.compile(r"T(,T)*(->T)?".replace("T", r"[a-z]*(\.\.\.[a-z]*)?"))
TYPES = FLOATS | INTS | (OWN_NUMBERS - PACKED)
OPEN = 64  # the assumed size of a dynamic dimension when products are ordered


@dataclass(frozen=True, slots=True)
class EinsumAttrs(Attrs):
    """Attributes of Einsum."""

    equation: str = attr(Kind.TEXT, "a term for each input, and that of the output: ij,jk->ik")


@dataclass(frozen=True, slots=True)
class Term:
    """An operand, with a label for each axis: lower-case letters of the equation, capitals for its dots."""

    value: Value
    labels: str


def expand(layer: Layer[EinsumAttrs]) -> tuple[Value, ...]:
    """A `Contract` for each pair of operands, the pair with the least work first. A sum of one operand alone
    is a `Reduce` before it, a product without a sum a `Map`, a diagonal a `View`."""
    values = [layer.input(i) for i in range(len(layer.inputs))]
    labels, out = parse(layer.name, layer.attrs.equation, [v.shape for v in values])
    dtype = values[0].dtype
    sizes, rules = _sizes(layer.name, labels, [v.shape for v in values])
    values[0] = checked(values[0], rules)
    terms = [_spread(_diagonal(Term(v, t)), sizes) for v, t in zip(values, labels, strict=True)]
    if len(terms) > 2 or (len(terms) == 2 and any(_alone(t, terms, out) for t in terms)):
        # Results of several sums or products are rounded once, at the end.
        wide = DataType.FLOAT if dtype in FLOATS else dtype
        terms = [Term(cast(t.value, wide), t.labels) for t in terms]
    terms = [_summed(t, _alone(t, terms, out)) for t in terms]
    while len(terms) > 1:
        i, j = _cheapest(terms, sizes)
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        both = "".join(dict.fromkeys(terms[i].labels + terms[j].labels))
        needed = "".join([out, *(t.labels for t in rest)])
        # The last result is in the order of the output, others in that of their operands.
        kept = "".join(c for c in both if c in needed) if rest else out
        terms = [*rest, _product(terms[i], terms[j], kept)]
    (term,) = terms
    y = cast(transpose(term.value, [term.labels.index(c) for c in out]), dtype)
    return (identity(y) if y == layer.input(0) else y,)


def parse(where: str, equation: str, shapes: Sequence[tuple[Dim, ...]]) -> tuple[list[str], str]:
    """The labels of each operand and of the result."""
    text = "".join(equation.split())
    if not GRAMMAR.fullmatch(text):
        raise _unfit(where, repr(equation), "terms of lower-case letters between commas, and at most one ->")
    inputs, arrow, out = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        got = f"{counted(len(terms), 'term')} in {equation!r} for {counted(len(shapes), 'input')}"
        raise _unfit(where, got, "one term for each")
    dots = [len(shape) - len(term.replace(DOTS, "")) for term, shape in zip(terms, shapes, strict=True)]
    for term, shape, more in zip(terms, shapes, dots, strict=True):
        if more < 0 or (more and DOTS not in term):
            raise _unfit(where, f"{term!r} for {show(shape)}", f"{len(shape)} letters, or dots for some")
    most = max(dots)
    capitals = ascii_uppercase[:most]
    labels = [t.replace(DOTS, capitals[most - more :]) for t, more in zip(terms, dots, strict=True)]
    if not arrow:
        counts = Counter("".join(terms).replace(".", ""))
        return labels, capitals + "".join(sorted(c for c, n in counts.items() if n == 1))
    kept = out.replace(DOTS, capitals)
    twice = [c for c, n in Counter(kept).items() if n > 1]
    unknown = sorted(set(kept) - set("".join(labels)))
    if twice or unknown:
        raise _unfit(
            where, f"{(*twice, *unknown)[0]!r} in the output {out!r}", "each letter of an input, once"
        )
    if capitals and DOTS not in out:
        raise _unfit(where, f"an output {out!r} for inputs with dots", f"{DOTS}{out!r}")
    return labels, kept


def _unfit(where: str, got: str, wanted: str) -> ArgumentError:
    return ArgumentError("AR320", where, got, wanted, 'write terms as in "ij,jk->ik"')


def _sizes(
    where: str, labels: Sequence[str], shapes: Sequence[tuple[Dim, ...]]
) -> tuple[dict[str, Dim], Requirements]:
    """The size of each label, and requirements: sizes of letters must be equal, those of dots broadcast."""
    sizes: dict[str, Dim] = {}
    rules: list[Requirement] = []
    text = ", ".join(map(show, shapes))
    for term, shape in zip(labels, shapes, strict=True):
        for c, size in zip(term, shape, strict=True):
            before = sizes.setdefault(c, size)
            if c.isupper():
                sizes[c] = broadcast((before,), (size,))[0]
                if before != size and 1 not in (before, size):
                    do = f"make sizes equal or 1: {before} and {size} in {text}"
                    rules.append(Requirement(before, Relation.BROADCAST, size, "AR112", where, do))
                continue
            sizes[c] = before if isinstance(before, int) else size
            got, do = f"sizes {before} and {size} of {c!r} in {text}", "use one letter for equal sizes"
            rules += need(where, before, Relation.EQ, size, "AR130", got, "one size", do)
    return sizes, tuple(rules)


def _diagonal(term: Term) -> Term:
    """The term with each label once: a repeated label reads the diagonal, where both indices are equal."""
    kept = "".join(dict.fromkeys(term.labels))
    if kept == term.labels:
        return term
    sizes = dict(zip(reversed(term.labels), reversed(term.value.shape), strict=True))
    axes = [Axis(0, kept.index(c)) for c in term.labels]
    return Term(windows(term.value, axes, tuple(sizes[c] for c in kept)), kept)


def _spread(term: Term, sizes: Mapping[str, Dim]) -> Term:
    """The term with axes of dots broadcast to the common size, or removed."""
    common = {k: sizes[c] for k, c in enumerate(term.labels) if c.isupper()}
    value, lost = repeated(term.value, common)
    return Term(value, "".join(c for k, c in enumerate(term.labels) if k not in lost))


def _alone(term: Term, terms: Iterable[Term], out: str) -> str:
    """The labels that only this term has, and that the output lacks."""
    others = "".join([out, *(t.labels for t in terms if t is not term)])
    return "".join(c for c in term.labels if c not in others)


def _summed(term: Term, over: str) -> Term:
    axes = tuple(term.labels.index(c) for c in over)
    kept = "".join(c for c in term.labels if c not in over)
    return Term(squeeze(reduce_("sum", term.value, axes), axes), kept)


def _cheapest(terms: Sequence[Term], sizes: Mapping[str, Dim]) -> tuple[int, int]:
    """The two terms whose product needs the fewest multiplications."""

    def work(pair: tuple[int, int]) -> int:
        labels = {*terms[pair[0]].labels, *terms[pair[1]].labels}
        return prod(n if isinstance(n := sizes[c], int) else OPEN for c in labels)

    return min(combinations(range(len(terms)), 2), key=work)


def _product(a: Term, b: Term, kept: str) -> Term:
    """The product of two terms, summed over the labels that are not kept."""
    if len(kept) < len({*a.labels, *b.labels}):
        return Term(contract(f"{a.labels},{b.labels}->{kept}", a.value, b.value), kept)
    return Term(map_("mul", _aligned(a, kept), _aligned(b, kept)), kept)


def _aligned(term: Term, labels: str) -> Value:
    """The term with an axis for each label, in their order, of size 1 for a label that it lacks."""
    order = [term.labels.index(c) for c in labels if c in term.labels]
    missing = [k for k, c in enumerate(labels) if c not in term.labels]
    return unsqueeze(transpose(term.value, order), missing)


def ref(attrs: EinsumAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """np.einsum in float64, all operands at once; integers in their own type."""
    with np.errstate(all="ignore"):
        if arrays[0].dtype.kind in "iu":
            wide = np.asarray(np.einsum(attrs.equation, *(x.astype(np.int64) for x in arrays)))
            return (wide.astype(arrays[0].dtype),)
        return (np.asarray(np.einsum(attrs.equation, *(x.astype(np.float64) for x in arrays))),)


def _case(equation: str, *shapes: tuple[int, ...], dtype: DataType = DataType.FLOAT) -> Case[EinsumAttrs]:
    return Case(EinsumAttrs(equation), shapes, (dtype,), low=-1, high=1, atol=2e-5)


def _whole(dtype: DataType) -> Case[EinsumAttrs]:
    return Case(EinsumAttrs("ij,jk,k->i"), ((3, 4), (4, 5), (5,)), (dtype,), low=0, high=9)


def cases() -> tuple[Case[EinsumAttrs], ...]:
    """One operand to four, types, implicit outputs, diagonals, dots, numbers, nothing to sum."""
    half, brain = DataType.HALF, DataType.BF16
    return (
        _case("ij,jk->ik", (3, 4), (4, 3)),
        *(_whole(t) for t in sorted(TYPES - FLOATS, key=int)),
        _case("bhqd, bhkd -> bhqk", (2, 3, 4, 5), (2, 3, 7, 5)),
        _case("ij->", (3, 17), dtype=half),
        _case("ii->i", (5, 5)),
        _case("bii,i", (2, 4, 4), (4,)),
        _case("ij,kl->jl", (3, 2), (4, 5), dtype=half),
        _case("...ij,...jk->...ik", (2, 1, 3, 5), (4, 5, 2)),
        _case(",ij->ij", (), (3, 5)),
        _case("abc,ad,be->cde", (3, 4, 2), (3, 5), (4, 3), dtype=half),
        _case("ik,kj->ij", (7, 33), (33, 9), dtype=brain),
        _case("ik,kj->ij", (3, 0), (0, 4)),
        _case("abcdefgh,hgfedcba->abcdefgh", (1, 2, 1, 2, 1, 3, 1, 2), (2, 1, 3, 1, 2, 1, 2, 1)),
    )


def mistakes() -> tuple[Mistake[EinsumAttrs], ...]:
    """Equations, sizes and types."""
    e, matrix, pair = EinsumAttrs, ((3, 5),), ((3, 5), (5, 4))
    ten, ones = e("abcde,fghij->abcdefghij"), ((1,) * 5,) * 2
    mixed = (DataType.FLOAT, DataType.HALF)
    return (
        Mistake("AR320", "an equation with other characters", e("ij+jk->ik"), pair),
        Mistake("AR320", "capital letters", e("IJ->JI"), matrix),
        Mistake("AR320", "more or fewer terms than inputs", e("ij->ji"), pair),
        Mistake("AR320", "more or fewer letters than dimensions", e("ijk->kji"), matrix),
        Mistake("AR320", "an output letter that no input has", e("ij->ik"), matrix),
        Mistake("AR320", "a repeated output letter", e("ij->ii"), matrix),
        Mistake("AR320", "dots that the output lacks", e("...j->j"), matrix),
        Mistake("AR130", "different sizes of a letter, even if one is 1", e("ij,jk->ik"), ((3, 5), (1, 4))),
        Mistake("AR130", "a diagonal of different sizes", e("ii->i"), matrix),
        Mistake("AR112", "dots that do not broadcast", e("...i,...i->..."), ((2, 5), (3, 5))),
        Mistake("AR115", "an output of more than 8 dimensions", ten, ones),
        Mistake("AR202", "a type that Einsum does not take", e("ij->ji"), matrix, (DataType.BOOL,)),
        Mistake("AR203", "operands of different types", e("ij,jk->ik"), pair, mixed),
        Mistake("AR130", "sizes that differ at run time", e("ij,jk->ik"), ((3, 5), (4, 4)), dynamic=True),
        Mistake("AR112", "dots that do not broadcast at run time", e("...i,...i->..."), ((2, 5), (3, 5)),
                dynamic=True),
    )  # fmt: skip


OPS = (
    Op(
        layer=LayerType.EINSUM,
        cls="IEinsumLayer",
        methods=(
            Method(
                "add_einsum",
                ("inputs", "equation"),
                variadic=True,
                example='layer = network.add_einsum([a, b], "bcij,bcjk->bcik")',
            ),
        ),
        inputs=(Input("inputs", TYPES, same_as=0),),
        attrs=EinsumAttrs,
        expand=expand,
        ref=ref,
        doc="Computes sums of products, as numpy.einsum. Axes with the same letter have one index and must "
        "have the same size. A letter that the output lacks is summed over; a letter twice in a term takes "
        "the diagonal. Dots stand for axes that broadcast. Without ->, the output has the dots, then the "
        "letters that occur once, in alphabetical order. More than two operands are multiplied in pairs, the "
        "pair with the least work first. Sums of floats are computed in float32 and rounded at the end; sums "
        "of integers wrap. Diagonals, dots, more than two operands, float64 and integers are extensions.",
        cases=cases,
        mistakes=mistakes,
        onnx=("Einsum",),
        source="operator page Einsum",
    ),
)
