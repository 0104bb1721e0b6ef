"""Random graphs: native code agrees with the interpreter, kernel by kernel and as a whole.

ANYRT_FUZZ=2000 tries that many graphs, new ones each time, instead of the everyday few.
"""

import os
from dataclasses import dataclass, field

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from anyrt.codegen.llvm import Level, choose
from anyrt.compiler import native
from anyrt.compiler.bounds import differing
from anyrt.compiler.trial import Trial, constant_offsets, load
from anyrt.compiler.verify import random_inputs, reference, verify
from anyrt.core.dims import Sym, evaluate, product
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType, SampleMode
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.errors import AnyrtError
from anyrt.ir.graph import Graph, Symbol, walk
from anyrt.ir.text import print_graph
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.map import kind_of
from anyrt.prims.scalar import SCALARS
from anyrt.prims.table import named_blobs, vocabulary
from anyrt.prims.taps import Border, Cubic, Linear, Nearest
from anyrt.schedule.cost import Sizes

FUZZ = int(os.environ.get("ANYRT_FUZZ", "0"))
LEVELS = [None, *(level.value for level in (Level.AVX2, Level.SSE2))]
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64)
TYPES = [t for t in DataType if t is not DataType.E8M0]
FOLDED = frozenset(
    {DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT32, DataType.INT64, DataType.INT8}
)
NARROW = frozenset(t for t in DataType if is_float(t)) - {DataType.FLOAT}
VOLUME = 20_000
N, M = Sym("x.0", 0, 64), Sym("x.1", 1, 64)


@dataclass(repr=False)
class Case:
    """A graph with two sets of sizes."""

    graph: Graph
    sizes: list[dict[str, int]]

    def __repr__(self):
        return f"{print_graph(self.graph, vocabulary(named_blobs(self.graph)))}sizes {self.sizes}"


class Unfit(Exception):
    """The step cannot be taken from here."""


def need(condition):
    if not condition:
        raise Unfit


@dataclass
class Maker:
    """Grows a graph by random steps."""

    draw: object
    values: list = field(default_factory=list)

    def pick(self, *items):
        return self.draw(st.sampled_from(items))

    def value(self, wanted=lambda v: True):
        found = [v for v in self.values[-6:] if wanted(v)]
        need(found)
        return self.pick(*reversed(found))

    def numeric(self):
        return self.value(lambda v: v.dtype not in (DataType.FP4, DataType.BOOL))

    def axis(self, v):
        need(v.type.rank)
        return self.pick(*range(v.type.rank))

    def unary(self):
        v = self.value()
        names = [n for n, f in SCALARS.items() if f.arity == 1 and kind_of(v.dtype) in f.kinds]
        return b.map_(self.pick(*names), v)

    def binary(self):
        v = self.value()
        names = [n for n, f in SCALARS.items() if f.arity == 2 and kind_of(v.dtype) in f.kinds]
        pair = [v, self.other(v)]
        return b.map_(self.pick(*names), *(pair if self.pick(True, False) else pair[::-1]))

    def select(self):
        v = self.value()
        flags = [u for u in self.values if u.dtype is DataType.BOOL and u.type.rank == v.type.rank]
        flag = self.pick(*flags) if flags else b.cast(self.other(v), DataType.BOOL)
        return b.map_("select", flag, v, self.other(v))

    def other(self, v):
        """Something that broadcasts with `v`."""
        same = [u for u in self.values if u.dtype is v.dtype and u.type.rank == v.type.rank]
        match self.pick("scalar", "tensor", "any", "any"):
            case "scalar":
                return b.scalar(self.pick(2, 0, 1, 3), v)
            case "tensor":
                shape = tuple(self.pick(1, d) if isinstance(d, int) else 1 for d in v.shape)
                data = np.random.default_rng(len(self.values)).integers(-3, 4, shape)
                return b.const(data / 2 if is_float(v.dtype) else data, v.dtype)
        return self.pick(*same)

    def cast(self):
        return b.cast(self.value(), self.pick(*TYPES))

    def reduce(self):
        v = self.value(lambda v: v.dtype in FOLDED)
        axes = [k for k in range(v.type.rank) if self.pick(True, False)]
        return b.reduce_(self.pick("sum", "max", "min", "prod"), v, axes)

    def centred(self):
        """x minus its mean over some axes: the heart of a normalisation."""
        v = self.value(lambda v: v.dtype is DataType.FLOAT)
        axes = [k for k in range(v.type.rank) if self.pick(True, False)]
        total = b.reduce_("sum", v, axes)
        return b.map_("sub", v, b.map_("mul", total, b.scalar(0.125, total)))

    def transpose(self):
        v = self.value()
        return b.transpose(v, self.draw(st.permutations(range(v.type.rank))))

    def slice(self):
        v = self.value()
        starts, sizes, steps = [], [], []
        for d in v.shape:
            whole = not isinstance(d, int) or d < 2 or self.pick(True, False)
            step = 1 if whole else self.pick(1, 2, 3, -1, -2)
            start = 0 if whole else self.draw(st.integers(0, d - 1))
            room = d if whole else (d - 1 - start) // step + 1 if step > 0 else start // -step + 1
            starts.append(start)
            steps.append(step)
            sizes.append(room if whole else self.draw(st.integers(1, room)))
        return b.slice_(v, starts, sizes, steps)

    def expand(self):
        v = self.value(lambda v: 1 in v.shape)
        shape = tuple(self.pick(1, 2, 5, 17) if d == 1 else d for d in v.shape)
        return b.expand(v, shape)

    def reshape(self):
        v = self.value()
        shape = list(v.shape)
        match self.pick("merge", "split", "unit", "flat", "regroup"):
            case "merge" if len(shape) > 1:
                k = self.pick(*range(len(shape) - 1))
                shape[k : k + 2] = [shape[k] * shape[k + 1]]
            case "split" if shape:
                k = self.pick(*range(len(shape)))
                divisors = [d for d in range(1, 65) if isinstance(shape[k], int) and shape[k] % d == 0]
                part = self.pick(*divisors) if divisors else 1
                shape[k : k + 1] = [shape[k] // part, part]
            case "regroup" if len(shape) > 1 and all(isinstance(d, int) for d in shape):
                shape = self.draw(st.permutations(shape))
            case "flat":
                shape = [product(shape)]
            case _:
                shape.insert(self.draw(st.integers(0, len(shape))), 1)
        need(len(shape) <= 5)
        return b.reshape(v, tuple(shape))

    def pad(self):
        v = self.value()
        lo, hi = ([self.pick(0, 0, 1, 3) for _ in v.shape] for _ in range(2))
        return b.pad(v, lo, hi, self.pick(0, 1, 2.5) if is_float(v.dtype) else self.pick(0, 1))

    def concat(self):
        v = self.value()
        axis = self.axis(v)
        others = [
            u
            for u in self.values
            if u.dtype is v.dtype
            and u.type.rank == v.type.rank
            and all(k == axis or a == c for k, (a, c) in enumerate(zip(u.shape, v.shape, strict=True)))
        ]
        return b.concat([v, *(self.pick(*others) for _ in range(self.pick(1, 2)))], axis)

    def taps(self):
        v = self.value()
        axis, how, selector = self.axis(v), self.pick(*Coordinate), self.pick(*Selector)
        size = self.pick(1, 2, 3, 5, 8, 17, 33, v.shape[axis], v.shape[axis] * 2)
        rules = [Nearest(how, selector, self.pick(*Rounding))]
        modes = (SampleMode.WRAP, SampleMode.CLAMP, SampleMode.REFLECT)
        rules += [Border(self.pick(*modes), self.pick(0, -2, 1), self.pick(1, 2, -1))]
        if v.dtype in (DataType.FLOAT, DataType.HALF, DataType.BF16):
            rules += [Linear(how, selector)] * 2 + [Cubic(how, selector, -0.75, self.pick(True, False))]
        return b.taps(v, axis, size, self.pick(*rules))

    def iota(self):
        v = self.value()
        return b.iota(v.shape, self.axis(v), self.pick(DataType.INT32, DataType.INT64, DataType.FLOAT))

    def input(self, name, symbols):
        rank = self.pick(2, 3, 1, 4)
        dtype = self.pick(DataType.FLOAT, DataType.FLOAT, *TYPES)
        shape = [self.pick(*LENGTHS) for _ in range(rank)]
        for k, s in enumerate(symbols[:rank]):
            shape[k] = s.dim
        return b.param(name, tuple(shape), dtype)


STEPS = (
    *(Maker.unary, Maker.binary, Maker.binary, Maker.select, Maker.cast, Maker.iota),
    *(Maker.reduce, Maker.centred, Maker.transpose, Maker.slice, Maker.expand),
    *(Maker.reshape, Maker.reshape, Maker.pad, Maker.concat, Maker.taps),
)


@st.composite
def cases(draw):
    maker = Maker(draw)
    symbols = [[], [], [N], [N, M]][draw(st.integers(0, 3))]
    params = [maker.input("x", symbols)]
    symbols = [s for k, s in enumerate(symbols) if k < params[0].type.rank]
    if draw(st.booleans()):
        params.append(maker.input("y", []))
    maker.values += params
    for _ in range(draw(st.integers(1, 9))):
        try:
            made = maker.pick(*STEPS)(maker)
        except (AnyrtError, Unfit):
            continue
        if evaluate(product(made.shape), {"x.0": 20, "x.1": 20}) <= VOLUME:
            maker.values.append(made)
    made = [
        maker.values[-1],
        *(maker.pick(*maker.values) for _ in range(draw(st.sampled_from([0, 0, 1, 2])))),
    ]
    outputs = tuple((f"out{k}", v) for k, v in enumerate(made))
    found = tuple(Symbol(s, "x", k) for k, s in enumerate(symbols))
    graph = Graph(tuple(zip(("x", "y"), params, strict=False)), outputs, {}, found)
    lengths = st.sampled_from((1, 2, 3, 16, 17, 37, 0))
    sizes = [{s.name: max(draw(lengths), s.lo) for s in symbols} for _ in range(2 if symbols else 1)]
    return Case(graph, [s for s in sizes if fits(graph, s)])


def fits(graph, sizes):
    """True when no size is refused and nothing is too large."""
    values = list(walk(v for _, v in graph.outputs))
    rules = (r for v in values for r in v.op.requires(tuple(a.type for a in v.args), "layer"))
    return all(r.holds(sizes) for r in rules) and all(
        evaluate(product(v.shape), sizes) <= 8 * VOLUME for v in values
    )


def whole_run(loaded, sizes, original):
    """Elements of each output that differ from the interpreter's for the graph before all passes, when all
    kernels run one after the other."""
    lowered = loaded.lowered
    trial, feeds = Trial(loaded, sizes), random_inputs(lowered.graph, sizes)
    buffers = {b.name: b for b in lowered.module.places}
    for name, value in lowered.graph.inputs:
        if f"in_{name}" in buffers:
            trial.write(buffers[f"in_{name}"], feeds[name], value.dtype)
    trial.run()
    assert not trial.overrun()
    held = {value: feeds[name] for name, value in original.inputs}
    return {
        name: int(
            differing(got(trial, buffers, name, v, sizes), reference(v, held, sizes, NARROW), v.dtype).sum()
        )
        for name, v in original.outputs
    }


def got(trial, buffers, name, value, sizes):
    shape = tuple(evaluate(d, sizes) for d in value.shape)
    return trial.read(buffers[f"out_{name}"], value.dtype, shape)


LIMITS = settings(
    max_examples=FUZZ or 60,
    derandomize=not FUZZ,
    print_blob=bool(FUZZ),
    suppress_health_check=list(HealthCheck),
)


@LIMITS
@given(cases(), st.sampled_from(LEVELS), st.booleans())
def test_native_code_agrees_with_the_interpreter(case, level, optimise):
    assume(case.sizes)
    graph = case.graph
    for step in PASSES if optimise else ():
        graph = step.run(graph, False)
    lowered = native.lower(graph, constant_offsets(graph), Sizes(case.sizes[0]))
    target = choose(level)
    assert [str(m) for m in verify(lowered, target, case.sizes)] == []
    for sizes in case.sizes:
        assert not any(whole_run(load(lowered, target), sizes, case.graph).values()), sizes
