"""Random graphs of primitives with sizes, for tests and benchmarks.

The dice are hypothesis in tests, which shrinks failing graphs, and seeds in benchmarks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count as counting
from typing import Protocol, TypeVar

import numpy as np

from anyrt.compiler.request import BuildRequest
from anyrt.core.counts import counts, highest
from anyrt.core.dims import Dim, Sym, minimum, product
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType, SampleMode
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.errors import AnyrtError
from anyrt.core.requirement import Requirement
from anyrt.ir.counted import counted
from anyrt.ir.graph import Graph, Symbol, Type, Value, apply, apply_all, nested, walk
from anyrt.ir.text import print_graph
from anyrt.ops import nms
from anyrt.ops._positions import positions
from anyrt.ops._record import Layer
from anyrt.plan.plan import Range
from anyrt.prims import build as b
from anyrt.prims.chosen import Chosen
from anyrt.prims.const import Shape
from anyrt.prims.map import kind_of
from anyrt.prims.repeated import Repeated
from anyrt.prims.scalar import SCALARS
from anyrt.prims.scan import Scan
from anyrt.prims.scatter import LAST, Scatter
from anyrt.prims.table import named_blobs, vocabulary
from anyrt.prims.taps import Border, Cubic, Linear, Nearest, TapRule
from anyrt.prims.view import Axis

T = TypeVar("T")
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64)
TYPES = [t for t in DataType if t is not DataType.E8M0]
FOLDED = frozenset(
    {DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT32, DataType.INT64, DataType.INT8}
)
VOLUME = 20_000
DEPTH = 2  # of regions inside one another
STEPS_OF_A_TEST = 9
N, M = Sym("x.0", 0, 64), Sym("x.1", 1, 64)
AXES = {Sym("x.0", 0, 8): 0, Sym("x.2", 1, 64): 2, Sym("x.3", 1, 64): 3}  # open ones of images


class Dice(Protocol):
    """A source of random choices."""

    def pick(self, *items: T) -> T:
        """One of the items."""

    def number(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""

    def flag(self) -> bool:
        """Yes or no."""

    def order(self, items: Sequence[T]) -> list[T]:
        """A permutation."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """Dice with a seed."""

    random: random.Random

    def pick(self, *items: T) -> T:
        return self.random.choice(items)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def order(self, items: Sequence[T]) -> list[T]:
        return self.random.sample(items, len(items))


@dataclass(frozen=True, slots=True, repr=False)
class Case:
    """A graph with sizes of its symbols, two sets if it has any."""

    graph: Graph
    sizes: list[dict[str, int]]

    def __repr__(self) -> str:
        return f"{print_graph(self.graph, vocabulary(named_blobs(self.graph)))}sizes {self.sizes}"


class Unfit(Exception):
    """The step does not fit the graph."""


def need(condition: object) -> None:
    """Raise `Unfit` unless the condition holds."""
    if not condition:
        raise Unfit


@dataclass(slots=True)
class Maker:
    """Grows a graph by random steps."""

    dice: Dice
    values: list[Value] = field(default_factory=list)
    depth: int = 0  # of the region that it fills
    numbers: Iterator[int] = field(default_factory=counting)  # of sizes that data decide
    tells: list[Value] = field(default_factory=list)
    kinds: Sequence[Callable[[Maker], Value]] = field(default_factory=lambda: STEPS)

    def step(self) -> None:
        """Add a value, unless the step does not fit or the value is too large."""
        try:
            value = self.dice.pick(*self.kinds)(self)
        except (AnyrtError, Unfit):
            return
        few = evaluate(highest(product(value.shape)), {"x.0": 20, "x.1": 20}) <= VOLUME
        if few and not any(counts(rule.left) or counts(rule.right) for rule in _rules([value])):
            self.values.append(value)

    def value(self, accepts: Callable[[Value], bool] = lambda v: True) -> Value:
        values = [v for v in self.values[-6:] if accepts(v)]
        need(values)
        return self.dice.pick(*reversed(values))

    def axis(self, v: Value) -> int:
        need(v.type.rank)
        axes = list(range(len(v.shape)))
        return self.dice.pick(*axes)

    def unary(self) -> Value:
        v = self.value()
        return b.map_(self.scalar_function(1, v), v)

    def binary(self) -> Value:
        v = self.value()
        pair = [v, self.other(v)]
        return b.map_(self.scalar_function(2, v), *(pair if self.dice.pick(True, False) else pair[::-1]))

    def scalar_function(self, arity: int, v: Value) -> str:
        """A function of numbers of the type of `v`."""
        names = [n for n, f in SCALARS.items() if f.arity == arity and kind_of(v.dtype) in f.kinds]
        return self.dice.pick(*names)

    def select(self) -> Value:
        v = self.value()
        flags = [u for u in self.values if u.dtype is DataType.BOOL and u.type.rank == v.type.rank]
        flag = self.dice.pick(*flags) if flags else b.cast(self.other(v), DataType.BOOL)
        return b.map_("select", flag, v, self.other(v))

    def other(self, v: Value) -> Value:
        """A value that broadcasts with `v`."""
        same = [u for u in self.values if u.dtype is v.dtype and u.type.rank == v.type.rank]
        match self.dice.pick("scalar", "tensor", "any", "any"):
            case "scalar":
                return b.scalar(self.dice.pick(2, 0, 1, 3), v)
            case "tensor":
                shape = tuple(self.dice.pick(1, d) if isinstance(d, int) else 1 for d in v.shape)
                return self.constant(shape, v)
        return self.dice.pick(*same)

    def constant(self, shape: Sequence[Dim], v: Value) -> Value:
        """Small numbers of the type of `v`."""
        data = np.random.default_rng(len(self.values)).integers(-3, 4, shape)
        return b.const(data / 2 if is_float(v.dtype) else data, v.dtype)

    def cast(self) -> Value:
        return b.cast(self.value(), self.dice.pick(*TYPES))

    def reduce(self) -> Value:
        v = self.value(lambda v: v.dtype in FOLDED)
        axes = [k for k in range(v.type.rank) if self.dice.pick(True, False)]
        return b.reduce_(self.dice.pick("sum", "max", "min", "prod"), v, axes)

    def centred(self) -> Value:
        """x minus its mean over some axes: the heart of a normalisation."""
        v = self.value(lambda v: v.dtype is DataType.FLOAT)
        axes = [k for k in range(v.type.rank) if self.dice.pick(True, False)]
        total = b.reduce_("sum", v, axes)
        return b.map_("sub", v, b.map_("mul", total, b.scalar(0.125, total)))

    def transpose(self) -> Value:
        v = self.value()
        return b.transpose(v, self.dice.order(range(v.type.rank)))

    def slice(self) -> Value:
        v = self.value()
        starts, sizes, steps = list[int](), list[Dim](), list[int]()
        for d in v.shape:
            start, size, step = 0, d, 1
            if isinstance(d, int) and d >= 2 and not self.dice.pick(True, False):
                step = self.dice.pick(1, 2, 3, -1, -2)
                start = self.dice.number(0, d - 1)
                size = self.dice.number(1, (d - 1 - start) // step + 1 if step > 0 else start // -step + 1)
            starts.append(start)
            sizes.append(size)
            steps.append(step)
        return b.slice_(v, starts, sizes, steps)

    def expand(self) -> Value:
        v = self.value(lambda v: 1 in v.shape)
        shape = tuple(self.dice.pick(1, 2, 5, 17) if d == 1 else d for d in v.shape)
        return b.expand(v, shape)

    def reshape(self) -> Value:
        v = self.value()
        shape = list(v.shape)
        match self.dice.pick("merge", "split", "unit", "flat", "regroup"):
            case "merge" if len(shape) > 1:
                k = self.dice.pick(*range(len(shape) - 1))
                shape[k : k + 2] = [shape[k] * shape[k + 1]]
            case "split" if shape:
                k = self.dice.pick(*range(len(shape)))
                divisors = [d for d in range(1, 65) if isinstance(shape[k], int) and shape[k] % d == 0]
                part = self.dice.pick(*divisors) if divisors else 1
                shape[k : k + 1] = [shape[k] // part, part]
            case "regroup" if len(shape) > 1 and all(isinstance(d, int) for d in shape):
                shape = self.dice.order(shape)
            case "flat":
                shape = [product(shape)]
            case _:
                shape.insert(self.dice.number(0, len(shape)), 1)
        need(len(shape) <= 5)
        return b.reshape(v, tuple(shape))

    def pad(self) -> Value:
        v = self.value()
        lo, hi = ([self.dice.pick(0, 0, 1, 3) for _ in v.shape] for _ in range(2))
        return b.pad(v, lo, hi, self.dice.pick(0, 1, 2.5) if is_float(v.dtype) else self.dice.pick(0, 1))

    def concat(self) -> Value:
        v = self.value()
        axis = self.axis(v)
        others = [
            u
            for u in self.values
            if u.dtype is v.dtype
            and u.type.rank == v.type.rank
            and all(k == axis or a == c for k, (a, c) in enumerate(zip(u.shape, v.shape, strict=True)))
        ]
        return b.concat([v, *(self.dice.pick(*others) for _ in range(self.dice.pick(1, 2)))], axis)

    def taps(self) -> Value:
        v = self.value()
        axis, how, selector = self.axis(v), self.dice.pick(*Coordinate), self.dice.pick(*Selector)
        size = self.dice.pick(1, 2, 3, 5, 8, 17, 33, v.shape[axis], v.shape[axis] * 2)
        rules: list[TapRule] = [Nearest(how, selector, self.dice.pick(*Rounding))]
        modes = (SampleMode.WRAP, SampleMode.CLAMP, SampleMode.REFLECT)
        rules += [Border(self.dice.pick(*modes), self.dice.pick(0, -2, 1), self.dice.pick(1, 2, -1))]
        if v.dtype in (DataType.FLOAT, DataType.HALF, DataType.BF16):
            rules += [Linear(how, selector)] * 2 + [Cubic(how, selector, -0.75, self.dice.pick(True, False))]
        return b.taps(v, axis, size, self.dice.pick(*rules))

    def scan(self) -> Value:
        v = self.value(lambda v: v.dtype in FOLDED)
        return apply(Scan(self.dice.pick("sum", "max", "min"), self.axis(v), self.dice.flag()), v)

    def scatter(self) -> Value:
        """The first elements of a value scattered into itself, stored or combined."""
        v = self.value(lambda v: v.dtype in FOLDED)
        axis = self.axis(v)
        n = v.shape[axis]
        size = tuple(minimum(n, self.dice.pick(1, 3, 9)) if k == axis else d for k, d in enumerate(v.shape))
        flat = (0,) * len(size), size, (1,) * len(size)
        at = [u for u in self.values if u.dtype is DataType.INT32 and u.shape == v.shape]
        where = self.dice.pick(*at, b.iota(v.shape, self.axis(v), DataType.INT32))
        fn = self.dice.pick(LAST, LAST, "sum", "max", "min")
        return apply(Scatter(axis, fn), v, b.slice_(where, *flat), b.slice_(v, *flat))

    def iota(self) -> Value:
        v = self.value()
        return b.iota(v.shape, self.axis(v), self.dice.pick(DataType.INT32, DataType.INT64, DataType.FLOAT))

    def contract(self) -> Value:
        """Sums of products with a constant, or with a value of a fitting shape."""
        v = self.value(lambda v: v.dtype in FOLDED)
        left = "abcdefgh"[: v.type.rank]
        roles = {c: self.dice.pick("kept", "summed", "summed", "both") for c in left}
        right = self.dice.order([c for c in left if roles[c] != "kept"]) + ["n"] * self.dice.pick(0, 1, 1, 1)
        right = self.dice.order(right)
        sizes = {**dict(zip(left, v.shape, strict=True)), "n": self.dice.pick(1, 3, 16, 33, 40)}
        shape = tuple(sizes[c] for c in right)
        if all(isinstance(d, int) for d in shape) and self.dice.flag():
            w = self.constant(shape, v)
        else:
            fitting = [u for u in self.values if u.dtype is v.dtype and u.shape == shape]
            w = self.dice.pick(*fitting) if fitting else b.expand(b.const(2, v.dtype), shape)
        out = self.dice.order([c for c in dict.fromkeys([*left, *right]) if roles.get(c) != "summed"])
        wide = DataType.INT32 if v.dtype is DataType.INT8 else v.dtype
        return b.contract(f"{left},{''.join(right)}->{''.join(out)}", v, w, wide)

    def windows(self) -> Value:
        """Windows along one or two axes, each a new last axis."""
        v = self.value(lambda v: v.type.rank <= 4)
        axes, shape = [Axis(0, k) for k in range(v.type.rank)], list(v.shape)
        for k in self.dice.order(range(v.type.rank))[: self.dice.pick(1, 2)]:
            size, step, apart = self.dice.pick(1, 2, 3), self.dice.pick(1, 1, 2), self.dice.pick(1, 1, 2)
            whole = shape[k]
            need(isinstance(whole, int) and whole > (size - 1) * apart)
            axes[k] = Axis(0, k, step, ((len(shape), apart),))
            shape[k] = (whole - (size - 1) * apart - 1) // step + 1
            shape.append(size)
        return b.windows(v, axes, tuple(shape))

    def convolve(self) -> Value:
        """Windows of a padded value, contracted with a constant, as a convolution expands."""
        v = self.value(lambda v: v.type.rank in (3, 4) and v.dtype in FOLDED)
        spatial = range(2, v.type.rank)
        border = [0, 0, *(self.dice.pick(0, 1) for _ in spatial)]
        padded = b.pad(v, border, border, 0.0 if is_float(v.dtype) else 0)
        axes, shape = [Axis(0, k) for k in range(v.type.rank)], list(padded.shape)
        for k in spatial:
            size, step, whole = self.dice.pick(1, 2, 3), self.dice.pick(1, 1, 2), shape[k]
            need(isinstance(whole, int) and whole >= size)
            axes[k] = Axis(0, k, step, ((len(shape), 1),))
            shape[k] = (whole - size) // step + 1
            shape.append(size)
        channels = shape[1]
        need(isinstance(channels, int))
        labels, inner = "nchw"[: v.type.rank], "ij"[: len(spatial)]
        each = self.dice.pick(True, False, False)
        kernel = (
            channels if each else self.dice.pick(1, 5, 16, 40, 64),
            *(() if each else (channels,)),
            *shape[v.type.rank :],
        )
        w = self.constant(kernel, v)
        wide = DataType.INT32 if v.dtype is DataType.INT8 else v.dtype
        name = "c" if each else "o"
        equation = f"{labels}{inner},{'c' if each else 'oc'}{inner}->n{name}{labels[2:]}"
        return b.contract(equation, b.windows(padded, axes, tuple(shape)), w, wide)

    def filter(self) -> Value:
        """Windows of 3 × 3 of the last value, with many channels and sizes that may be dynamic, contracted
        with a constant; sometimes with layers behind."""
        v, pick = self.values[-1], self.dice.pick
        lo, hi = ((0, 0, pick(1, 1, 0, 2), pick(1, 1, 0, 2)) for _ in range(2))
        x = b.pad(v, lo, hi, pick(0.0, 0.0, 1.5))
        n, channels, *sizes = x.shape
        need(isinstance(channels, int) and all(not isinstance(d, int) or d > 2 for d in sizes))
        axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
        windows = b.windows(x, axes, (n, channels, *(d - 2 for d in sizes), 3, 3))
        numbers, maps = np.random.default_rng(len(self.values)), pick(16, 17, 19, 32)
        w = b.const(numbers.standard_normal((maps, channels, 3, 3)), v.dtype)
        y = b.contract("nchwij,kcij->nkhw", windows, w, v.dtype)
        match pick("sums", "biased", "with itself"):
            case "biased":
                bias = b.const(numbers.standard_normal((1, maps, 1, 1)), v.dtype)
                return b.map_("max", b.map_("add", y, b.expand(bias, y.shape)), b.scalar(0, y))
            case "with itself" if y.shape == v.shape:
                return b.map_("add", y, v)
        return y

    def gather(self) -> Value:
        """Elements at data-dependent positions, some of them outside."""
        v = self.value(lambda v: v.type.rank > 0)
        axis, shape = self.axis(v), list(v.shape)
        shape[axis] = self.dice.pick(1, 3, 17, 40, shape[axis])
        dtype = self.dice.pick(DataType.INT32, DataType.INT64)
        fitting = [u for u in self.values if u.shape == tuple(shape) and not is_float(u.dtype)]
        if fitting and self.dice.flag():
            return b.gather(v, b.cast(self.dice.pick(*fitting), dtype), axis)
        at = b.iota(tuple(shape), self.dice.pick(axis, *range(v.type.rank)), dtype)
        scaled = b.map_("mul", at, b.scalar(self.dice.pick(1, -1, 3), at))
        return b.gather(v, b.map_("add", scaled, b.scalar(self.dice.pick(0, 7, -2), at)), axis)

    def repeat(self) -> Value:
        """A loop whose body has some steps, over one or two values."""
        need(self.depth < DEPTH)
        v, other = self.value(), self.value()
        flag, turn, place = b.const(True, DataType.BOOL), b.const(0, DataType.INT64), self.dice.flag()
        states = [v, other] if place else [v]
        first = [flag, turn, *states, *(() if place else (other,))]
        inside = [b.param(f"p{k}", x.shape, x.dtype) for k, x in enumerate(first)]
        then = self.within(inside[2:])
        count = b.map_("add", inside[1], b.scalar(1, turn))
        again = b.map_("lt", count, b.scalar(self.dice.pick(3, 1, 2, 0), turn))
        results = (again, count, *then.ends([x.type for x in states]))
        inputs, ends = ([(f"p{k}", x) for k, x in enumerate(xs)] for xs in (inside, results))
        body = counted(Graph(tuple(inputs), tuple(ends)), then.tells)
        return self.dice.pick(*apply_all(Repeated(body), *first)[2:])

    def choose(self) -> Value:
        """A condition with some steps in each branch."""
        need(self.depth < DEPTH)
        v, other = self.value(), self.value()
        numbers = [u for u in self.values if u.shape == () and u.dtype is DataType.BOOL]
        flag = self.dice.pick(*numbers, b.const(self.dice.flag(), DataType.BOOL))
        inside = [b.param(f"p{k}", x.shape, x.dtype) for k, x in enumerate((v, other))]
        inputs = tuple((f"p{k}", x) for k, x in enumerate(inside))
        regions = []
        for _ in range(2):
            inner = self.within(inside)
            (result,) = inner.ends([v.type])
            regions.append(counted(Graph(inputs, (("made", result),)), inner.tells))
        return apply(Chosen(*regions), flag, v, other)

    def within(self, params: Sequence[Value]) -> Maker:
        """Some steps inside a region with these parameters."""
        inner = Maker(self.dice, list(params), self.depth + 1, self.numbers, kinds=self.kinds)
        for _ in range(self.dice.number(1, 4)):
            inner.step()
        return inner

    def ends(self, types: Sequence[Type]) -> list[Value]:
        """Values of these types."""
        fitting = ([u for u in reversed(self.values) if u.type == of] for of in types)
        return [self.dice.pick(*values) for values in fitting]

    def nonzero(self) -> Value:
        """Positions of nonzero elements, or these elements, or their sum added to the value, or their
        number."""
        v = self.value()
        flat = b.reshape(v, (product(v.shape),))
        mask = self.dice.pick(flat, b.map_("lt", b.scalar(1, flat), flat))
        at, count = positions(
            f"found{next(self.numbers)}", mask, self.dice.pick(DataType.INT32, DataType.INT64)
        )
        elements = b.gather(flat, b.reshape(at, at.shape[1:]), 0)
        self.tells.append(count)
        kinds = ("sum", "sum", "positions", "elements", "many", "shape")
        match self.dice.pick(*kinds) if self.depth == 0 else self.dice.pick("sum", "sum", *kinds):
            case "positions":
                return at
            case "elements":
                return elements
            case "sum":
                need(v.dtype in FOLDED)
                total = b.reshape(b.reduce_("sum", elements, (0,)), (1,) * v.type.rank)
                return b.map_("add", v, total)
            case "many":
                return count
        return apply(Shape((elements.shape[0],)))

    def suppressed(self) -> Value:
        """Boxes on a grid after suppression, with a value as their scores."""
        v = self.value(lambda v: v.dtype in (DataType.FLOAT, DataType.HALF))
        many = product(v.shape)
        need(isinstance(many, int) and many <= 40)
        grid = np.random.default_rng(len(self.values)).integers(0, 9, (1, many, 4))
        inputs = (
            b.const(grid.astype(np.float32), v.dtype),
            b.reshape(v, (1, many, 1)),
            b.const(self.dice.pick(1, 3, 50), DataType.INT32),
            b.const(0.37, DataType.FLOAT),
            b.const(self.dice.pick(0.3, -1.0), DataType.FLOAT),
        )
        outputs = nms.expanded(Layer(f"nms{next(self.numbers)}", nms.NMSAttrs(), inputs))
        self.tells += [u for u in walk(outputs) if u.op.tells is not None]
        return self.dice.pick(*outputs)

    def input(self, name: str, symbols: Sequence[Sym]) -> Value:
        rank = self.dice.pick(2, 3, 1, 4)
        dtype = self.dice.pick(DataType.FLOAT, DataType.FLOAT, *TYPES)
        shape: list[Dim] = [self.dice.pick(*LENGTHS) for _ in range(rank)]
        for k, s in enumerate(symbols[:rank]):
            shape[k] = s.dim
        return b.param(name, tuple(shape), dtype)


KNOWN = (
    *(Maker.unary, Maker.binary, Maker.binary, Maker.select, Maker.cast, Maker.iota),
    *(Maker.reduce, Maker.centred, Maker.transpose, Maker.slice, Maker.expand),
    *(Maker.reshape, Maker.reshape, Maker.pad, Maker.concat, Maker.taps),
    *(Maker.contract, Maker.windows, Maker.convolve, Maker.gather, Maker.scan, Maker.scatter),
    *(Maker.repeat, Maker.choose),
)
STEPS = (*KNOWN, Maker.nonzero, Maker.suppressed)


def random_case(
    dice: Dice, steps: int = STEPS_OF_A_TEST, kinds: Sequence[Callable[[Maker], Value]] = STEPS
) -> Case:
    """A graph of at most so many steps of these kinds; no data-dependent sizes if they are `KNOWN`."""
    symbols = (list[Sym](), [], [N], [N, M])[dice.number(0, 3)]
    maker = Maker(dice, kinds=kinds)
    params = [maker.input("x", symbols)]
    symbols = [s for k, s in enumerate(symbols) if k < params[0].type.rank]
    if dice.flag():
        params.append(maker.input("y", []))
    maker.values += params
    for _ in range(dice.number(1, steps)):
        maker.step()
    results = [maker.values[-1], *(dice.pick(*maker.values) for _ in range(dice.pick(0, 0, 1, 2)))]
    outputs = tuple((f"out{k}", v) for k, v in enumerate(results))
    symbols_of_x = tuple(Symbol(s, "x", k) for k, s in enumerate(symbols))
    graph = counted(
        Graph(tuple(zip(("x", "y"), params, strict=False)), outputs, {}, symbols_of_x), maker.tells
    )
    return _sized(dice, graph, symbols)


def filtered_case(dice: Dice) -> Case:
    """One or two convolutions of 3 × 3, with as many channels as Winograd requires."""
    types = (*[DataType.FLOAT] * 3, DataType.HALF, DataType.BF16)
    shape: list[Dim] = [
        dice.pick(1, 2, 3),
        dice.pick(16, 17, 32),
        dice.pick(*LENGTHS[:8]),
        dice.pick(*LENGTHS),
    ]
    symbols = [s for s in AXES if dice.flag()] if dice.flag() else []
    for s in symbols:
        shape[AXES[s]] = s.dim
    maker = Maker(dice, [b.param("x", tuple(shape), dice.pick(*types))])
    for _ in range(dice.pick(1, 1, 2)):
        with suppress(AnyrtError, Unfit):
            maker.values.append(maker.filter())
    inputs, outputs = (("x", maker.values[0]),), (("out0", maker.values[-1]),)
    graph = Graph(inputs, outputs, {}, tuple(Symbol(s, "x", AXES[s]) for s in symbols))
    return _sized(dice, graph, symbols)


def _sized(dice: Dice, graph: Graph, symbols: Sequence[Sym]) -> Case:
    """The graph with two sets of sizes, or one if no size is dynamic; only sets that fit."""
    draws = range(2 if symbols else 1)
    sizes = [{s.name: max(dice.pick(1, 2, 3, 16, 17, 37, 0), s.lo) for s in symbols} for _ in draws]
    return Case(graph, [s for s in sizes if fits(graph, s)])


def fits(graph: Graph, sizes: dict[str, int]) -> bool:
    """Whether the graph accepts the sizes and no value is too large."""
    values = [v for inner in nested(graph) for v in walk(v for _, v in inner.outputs)]
    return all(r.holds(sizes) for r in _rules(values)) and all(
        evaluate(highest(product(v.shape)), sizes) <= 8 * VOLUME for v in values
    )


def _rules(values: Sequence[Value]) -> Iterator[Requirement]:
    """The requirements of values on sizes."""
    for v in walk(values):
        yield from v.op.requires(tuple(a.type for a in v.args), "layer")


def request(seed: int, steps: int, low: int, usual: int, high: int) -> BuildRequest:
    """The build request of a seed's graph, for sizes from `low` to `high`."""
    graph = random_case(Seeded(random.Random(seed)), steps).graph
    corners = [
        {name: tuple(evaluate(d, {"x.0": n, "x.1": n}) for d in value.shape) for name, value in graph.inputs}
        for n in (low, usual, high)
    ]
    ranges = tuple(Range(name, False, *(c[name] for c in corners)) for name, _ in graph.inputs)
    return BuildRequest(f"graph {seed}", graph, (ranges,) if graph.symbols else ())
