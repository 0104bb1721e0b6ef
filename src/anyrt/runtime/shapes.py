"""All values that depend on the shapes of inputs; computed once per combination.

>>> n = Sym("n", 1, 64)
>>> value_of(dims.floordiv(n.dim * 3 + 2, 4), {"n": 6})
5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from anyrt.core import dims
from anyrt.core.counts import counts, highest, is_open
from anyrt.core.dims import Dim, Fn, Sym, product, symbols
from anyrt.core.dtype import storage_bytes
from anyrt.core.errors import BindingError, ProfileError, ShapeError
from anyrt.core.requirement import Relation, Requirement, broken
from anyrt.plan.abi import align
from anyrt.plan.plan import Binding, Plan, Range, SymbolRecord
from anyrt.plan.program import Program
from anyrt.runtime.pauses import ComputedSizes

Shape = tuple[int, ...]

MAX_ELEMENTS: Final = (1 << 31) - 1
_MAX_SIZE: Final = 1 << 62
_REMEMBERED: Final = 256


def value_of(x: Dim, sizes: Mapping[str, int]) -> int:
    """`x` for known symbols; ShapeError if a part exceeds 62 bits: no plan makes it expensive."""
    return _value(x, sizes, {})


def _value(x: Dim, sizes: Mapping[str, int], results: dict[Fn, int]) -> int:
    """The same; `results`: results of functions that occur in several places."""
    if isinstance(x, int):
        return _checked(x)
    total = 0
    for monomial, coefficient in x.terms:
        term = coefficient
        for atom in monomial:
            if isinstance(atom, Fn) and atom not in results:
                results[atom] = _call(atom, [_value(a, sizes, results) for a in atom.args])
            term = _checked(term * (sizes[atom.name] if isinstance(atom, Sym) else results[atom]))
        total += term
    return _checked(total)


def _call(fn: Fn, args: Sequence[int]) -> int:
    if fn.op == dims.SCALE:
        if abs(args[0] * fn.factor) > _MAX_SIZE:
            raise ShapeError("AR111", "sizes", f"{args[0]} scaled by {fn.factor}", "at most 2^62")
        value = dims.scaled(args[0], fn.factor)
    else:
        value = dims.BINARY[fn.op](args[0], args[1])
    assert isinstance(value, int), f"{fn} of numbers is {value}"
    return value


def _checked(value: int) -> int:
    if not -_MAX_SIZE <= value <= _MAX_SIZE:
        raise ShapeError("AR111", "sizes", f"a size of {value.bit_length()} bits", "at most 2^62")
    return value


@dataclass(frozen=True, slots=True)
class Resolved:
    """The values that depend on the shapes of the inputs, tuples in the order of the bindings. Data-dependent
    sizes are −1; `nbytes` and the others are upper bounds. Sizes without an upper bound are those of the
    inference; until they are computed, they count as 0 there."""

    shapes: tuple[Shape, ...]
    nbytes: tuple[int, ...]
    slots: tuple[int, ...]
    arena_bytes: int
    table_bytes: int
    scratch_bytes: int


class Resolver:
    """Resolves shapes for one engine, for any number of threads."""

    def __init__(self, plan: Plan, program: Program) -> None:
        self.plan, self.program = plan, program
        self.inputs = tuple(b for b in plan.bindings if b.is_input)
        self._most = tuple(highest(product(b.memory)) for b in plan.bindings)
        # Takes no Python lock, which a forked child could find locked for ever.
        self._remembered = lru_cache(_REMEMBERED)(self._compute)

    def resolve(
        self, shapes: tuple[Shape, ...], values: tuple[Shape | None, ...], computed: ComputedSizes = ()
    ) -> Resolved:
        """For the shapes of all inputs, and the elements of shape tensors (None for other inputs).
        `computed`: the computed sizes without an upper bound."""
        return self._remembered(shapes, values, computed)

    def sizes(
        self, shapes: tuple[Shape, ...], values: tuple[Shape | None, ...], computed: ComputedSizes = ()
    ) -> dict[str, int]:
        """The value of every symbol, the upper bounds of data-dependent ones; ProfileError if one is outside
        the compiled range."""
        by_name = {b.name: (s, v) for b, s, v in zip(self.inputs, shapes, values, strict=True)}
        open_sizes = self._open_sizes(computed)
        sizes: dict[str, int] = {}
        for record in self.plan.symbols:
            if is_open(record.sym):
                sizes[record.name] = open_sizes.get(record.name, 0)
                continue
            if record.most is not None:
                sizes[record.name] = value_of(highest(record.most), sizes)
                continue
            shape, elements = by_name[record.tensor]
            source = elements if record.is_value else shape
            assert source is not None, f"no values for {record.tensor}"
            value = source[record.axis]
            if not record.lo <= value <= record.hi:
                what = "element" if record.is_value else "dimension"
                wanted = f"{record.lo} to {record.hi}"
                where = f"{record.tensor}, {what} {record.axis}"
                raise ProfileError("AR505", where, got=str(value), wanted=wanted)
            sizes[record.name] = value
        return sizes

    def _open_sizes(self, computed: ComputedSizes) -> dict[str, int]:
        """The known ones of the sizes without an upper bound."""
        opens = [s.name for s in self.plan.symbols if is_open(s.sym)]
        return {
            name: x for name, x in zip(opens, computed or [None] * len(opens), strict=True) if x is not None
        }

    def _compute(
        self, shapes: tuple[Shape, ...], values: tuple[Shape | None, ...], computed: ComputedSizes
    ) -> Resolved:
        sizes, open_sizes = self.sizes(shapes, values, computed), self._open_sizes(computed)
        for binding, shape in zip(self.inputs, shapes, strict=True):
            _check_consistent(binding, shape, sizes)
        for requirement in self.plan.requirements:
            if all(s.name in open_sizes for x in (requirement.left, requirement.right) for s in counts(x)):
                check_requirement(requirement, sizes, self.plan)
        known = {s.name: sizes[s.name] for s in self.plan.symbols if s.most is None or s.name in open_sizes}
        every = tuple(_shape(b, known) for b in self.plan.bindings)
        volumes = [value_of(n, sizes) for n in self._most]
        for binding, shape, count in zip(self.plan.bindings, every, volumes, strict=True):
            if count > MAX_ELEMENTS:
                wanted = f"at most {MAX_ELEMENTS} elements"
                raise ShapeError("AR111", binding.name, got=f"shape {shape}", wanted=wanted)
        program = self.program
        return Resolved(
            shapes=every,
            nbytes=tuple(storage_bytes(b.dtype, n) for b, n in zip(self.plan.bindings, volumes, strict=True)),
            slots=tuple(value_of(d, sizes) for d in program.slots),
            arena_bytes=_bytes(program.arena_bytes, sizes),
            table_bytes=_bytes(program.table_bytes, sizes),
            scratch_bytes=_bytes(program.scratch_bytes, sizes),
        )


def actual_shape(binding: Binding, sizes: Mapping[str, int]) -> Shape:
    """The shape of a tensor, −1 if it depends on a size that no inference has computed yet; of its highest
    rank until an inference has determined its rank."""
    shape = binding.shape
    if binding.rank is not None and all(s.name in sizes for s in counts(binding.rank)):
        shape = shape[: value_of(binding.rank, sizes)]
    known = (all(s.name in sizes for s in counts(d)) for d in shape)
    return tuple(value_of(d, sizes) if ok else -1 for d, ok in zip(shape, known, strict=True))


def _bytes(dim: Dim, sizes: Mapping[str, int]) -> int:
    value = value_of(dim, sizes)
    if value < 0:
        raise ShapeError("AR120", "memory", f"{value} bytes", "0 or more")
    return align(value)


def _shape(binding: Binding, sizes: Mapping[str, int]) -> Shape:
    shape = actual_shape(binding, sizes)
    if any(n < 0 and not counts(d) for n, d in zip(shape, binding.shape, strict=False)):
        raise ShapeError("AR120", binding.name, f"shape {shape}", "sizes of 0 or more")
    return shape


def _check_consistent(binding: Binding, shape: Shape, sizes: Mapping[str, int]) -> None:
    """Two inputs may share a symbol; then their dimensions are equal."""
    expected = tuple(value_of(d, sizes) for d in binding.shape)
    if shape != expected:
        raise BindingError(
            "AR710",
            binding.name,
            got=f"shape {shape}",
            wanted=f"{expected}, the shape that other inputs imply",
            do="use equal dimensions for one name",
        )


def check_requirement(requirement: Requirement, sizes: Mapping[str, int], plan: Plan) -> None:
    """Raise an error if the sizes do not meet a requirement of the plan."""
    a, b = value_of(requirement.left, sizes), value_of(requirement.right, sizes)
    match requirement.relation:
        case Relation.EQ:
            holds = a == b
        case Relation.LE:
            holds = a <= b
        case Relation.BROADCAST:
            holds = a == b or 1 in (a, b)
    if not holds:
        read = {s.name for s in symbols(requirement.left) | symbols(requirement.right)}
        sources = [f"{_source(s)} = {sizes[s.name]}" for s in plan.symbols if s.name in read]
        raise broken(requirement, str(a), str(b), f" where {', '.join(sources)}")


def _source(symbol: SymbolRecord) -> str:
    """The source of a size in the user's terms."""
    if symbol.most is not None:
        return symbol.name
    return f"{symbol.tensor}[{symbol.axis}]" if symbol.is_value else f"{symbol.tensor}.shape[{symbol.axis}]"


def check_shape(binding: Binding, shape: Shape, limits: Range | None) -> None:
    """An input's shape against its declaration and the current profile; raises the error."""
    if len(shape) != len(binding.shape):
        wanted = f"{len(binding.shape)} dimensions"
        do = "give one size for each"
        raise ShapeError("AR122", binding.name, got=f"shape {shape}", wanted=wanted, do=do)
    for axis, (size, dim) in enumerate(zip(shape, binding.shape, strict=True)):
        if isinstance(dim, int) and size != dim:
            do = "give the size of the network, or make it dynamic there: -1 in add_input"
            raise ShapeError("AR123", f"{binding.name}, dimension {axis}", str(size), str(dim), do)
        if size < 0:
            raise ShapeError("AR120", binding.name, f"shape {shape}", "sizes of 0 or more")
    if limits is not None:
        check_limits(binding.name, shape, limits)


def check_limits(name: str, numbers: Shape, limits: Range) -> None:
    """Dimensions or values against a profile."""
    if not all(lo <= x <= hi for lo, x, hi in zip(limits.min, numbers, limits.max, strict=True)):
        what = "values" if limits.is_values else "shape"
        do = "select another profile, or build with a wider one"
        wanted = f"{limits.min} to {limits.max}, the limits of the profile"
        raise ProfileError("AR505", name, got=f"{what} {numbers}", wanted=wanted, do=do)
