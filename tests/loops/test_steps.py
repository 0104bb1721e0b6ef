"""Every step of every strategy preserves the results of a kernel: random graphs, typical networks, and the
cases of operators.

Kernels run on small integers, with every access checked. Their outputs are equal bit for bit, except where a
step reorders a sum: then both lie within the bounds around the reference.

ANYRT_FUZZ=2000 tries that many graphs of each kind, and all cases, instead of the daily few.
"""

import random
import zlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest

from anyrt.backends.cpu.strategies import reduction
from anyrt.compiler.bounds import differing
from anyrt.compiler.trial import constant_offsets
from anyrt.compiler.verify import reference
from anyrt.core.counts import at_most
from anyrt.core.dims import Sym, product
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import cast, is_packed, numpy_dtype, stored_bytes, unpack4
from anyrt.core.enums import DataType, LayerType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.errors import CompileError
from anyrt.core.machine import REFERENCE, Costs
from anyrt.ir.buffer import Space
from anyrt.ir.evaluate import DTYPES
from anyrt.ir.graph import Graph, Symbol, walk
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.rewrite import Fail
from anyrt.ir.run import run
from anyrt.ir.statements import buffers_of
from anyrt.ops._cases import all_cases, case_run
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.contract import Contract
from anyrt.prims.taps import Cubic, Linear, Nearest
from anyrt.schedule.cost import Sizes
from anyrt.schedule.group import Inside
from anyrt.schedule.launch import Launch, Schedule
from anyrt.schedule.versions import serving
from benchmarks.random_graphs import KNOWN, Case, Maker, Seeded, fits, random_case
from tests import native
from tests.sampling import sample, tries

BATCHES = 2
PRODUCTS = 1 << 18
SMALL = 4  # integers below this bound: sums of thousands of their products are exact
# These reorder sums.
REORDERING = (
    "collapse",
    "vectorise",
    "split by range",
    "fold along",
    "fuse folds",
    "sum in blocks",
    "reorder sums",
    "words",
    "unsigned words",
    "accumulate",
    "reorder loops",
    "window tile",
)
OWN = (Space.SCRATCH, Space.REGISTER)
# If the caches near the core are tiny, small kernels are split, batched and prefetched like large ones.
TINY = replace(
    REFERENCE,
    l1_bytes=1 << 10,
    l2_bytes=1 << 10,
    line_bytes=32,
    pages=8,
    cores=1,
    vector_bits=128,
    costs=Costs(latency=1),
)
N = Sym("x.0", 1, 30)
FLOAT = DataType.FLOAT


# ---- typical networks -------------------------------------------------------------------------


def normalised(dice, x):
    """Normalised rows: minus their mean, divided by their deviation, and the epilogue."""
    v = b.cast(x, FLOAT)
    v = b.map_("sigmoid", v) if dice.flag() else v
    axes = dice.pick((1,), (1,), (0,)) if isinstance(x.shape[0], int) else (1,)
    count = int(np.prod([x.shape[k] for k in axes]))
    mean = b.map_("div", b.reduce_("sum", v, axes), b.scalar(count, v))
    off = b.map_("sub", v, mean)
    squares = b.reduce_("sum", b.map_("mul", off, off), axes)
    if dice.flag():
        return b.cast(b.map_("add", v, squares), x.dtype)
    return b.cast(b.map_("mul", off, b.map_("rsqrt", b.map_("add", squares, b.scalar(1, v)))), x.dtype)


def resized(dice, x, vertical, horizontal):
    """An image resized, perhaps after an expensive operation."""
    how, which = dice.pick(*Coordinate), dice.pick(*Selector)
    rules = [Linear(how, which), Cubic(how, which, -0.75, True), Nearest(how, which, Rounding.FLOOR)]
    v = b.cast(x, FLOAT)
    v = b.map_("mul", v, b.map_("sigmoid", v)) if dice.flag() else v
    for axis in dice.order([vertical, horizontal]):
        v = b.taps(v, axis, dice.pick(5, 13, 24, 3), dice.pick(*rules))
    return v


def rows(dice):
    shape = (dice.pick(3, 70, 133, 133, N.dim), dice.pick(8, 20, 65, 130, 130, 520))
    x = b.param("x", shape, dice.pick(FLOAT, DataType.HALF, DataType.BF16))
    return normalised(dice, x)


def pixels(dice):
    channels = dice.pick(1, 2, 3, 4, 5)
    x = b.param("x", (dice.pick(6, 11, N.dim), dice.pick(9, 22), channels), dice.pick(DataType.UINT8, FLOAT))
    v = resized(dice, x, 0, 1)
    v = b.transpose(v, (2, 0, 1)) if dice.flag() else v
    return b.map_("mul", v, b.const(np.arange(v.shape[-1])[None, None], FLOAT)) if dice.flag() else v


def planes(dice):
    shape = (dice.pick(1, 2, N.dim), dice.pick(6, 11), dice.pick(9, 22))
    x = b.param("x", shape, dice.pick(FLOAT, DataType.HALF))
    v = resized(dice, x, 1, 2)
    return b.transpose(v, (1, 2, 0)) if dice.flag() else v


def turned(dice):
    shape = dice.pick((dice.pick(3, 20, N.dim), dice.pick(4, 33, 70)), (N.dim, 5, 3, 9), (3, 2, 7, 40))
    x = b.param("x", shape, dice.pick(FLOAT, DataType.UINT8, DataType.INT64))
    v = b.map_("add", x, b.const(np.arange(shape[-1]).reshape((1,) * (len(shape) - 1) + (-1,)) % 3, x.dtype))
    return b.transpose(v, dice.order(range(len(shape))))


def known_case(dice):
    """A random graph whose kernels accept any numbers, because none computes positions for another."""
    return random_case(dice, kinds=KNOWN)


def typical_case(dice):
    """One of the typical networks, perhaps with some more layers."""
    maker = Maker(dice, [dice.pick(rows, rows, pixels, planes, turned)(dice)], kinds=KNOWN)
    for _ in range(dice.pick(0, 0, 1, 3)):
        maker.step()
    outputs = tuple((f"out{k}", v) for k, v in enumerate(dict.fromkeys((maker.values[-1], maker.values[0]))))
    (x,) = (v for v in walk(v for _, v in outputs) if isinstance(v.op, Param))
    symbols = (Symbol(N, "x", 0),) if N.dim in x.shape else ()
    sizes = [{N.name: n} for n in (dice.number(1, 30), 3)] if symbols else [{}]
    graph = Graph((("x", x),), outputs, {}, symbols)
    return Case(graph, [s for s in sizes if fits(graph, s)])


# ---- steps, one after the other -----------------------------------------------------------------


@dataclass
class Steps:
    """The steps of a launch's kernel, run at some sizes."""

    schedule: Schedule
    launch: Launch
    sizes: dict[str, int]
    lanes: int

    def check(self):
        before, text = None, ""
        trace = self.schedule.trace(self.launch)
        for step in trace if self.launch.group.tile is None else trace[-1:]:  # inner ones use other memory
            if isinstance(step.result, Fail):
                continue
            where, text = f"{self.launch.kind}, {step.step}, at {self.sizes}", f"{text}\n{step.step}:\n"
            text += print_kernels([step.result])
            assert list(kernel_faults(step.result)) == [], f"{where}\n{text}"
            after = self.outcome(step.result, f"{where}\n{text}")
            wrong = None if before is None else self.differing(before, after, step.step in REORDERING)
            assert wrong is None, f"{where}: {wrong}\n{text}"
            before, text = after, print_kernels([step.result])

    def outcome(self, kernel, text):
        """The content of memory after a kernel."""
        used = [x for x in buffers_of(kernel.body) if x.space not in OWN]
        memory = {x: self.tables[x.offset].view(DTYPES[x.stored]) for x in used if x.space is Space.TABLE}
        memory |= {x: self.filled(x) for x in used if x.space is not Space.TABLE}
        try:
            run(kernel, memory, self.sizes, self.lanes)
        except (CompileError, AssertionError) as fault:
            pytest.fail(f"{text}\n{fault}")
        return {x.name: memory[x] for x in used if x.space in (Space.OUTPUT, Space.ARENA)}

    def filled(self, buffer):
        """Memory before a kernel runs."""
        array = self.integers(buffer.name, buffer.type, evaluate(buffer.size, self.sizes))
        return stored_bytes(array, buffer.type).view(DTYPES[buffer.stored]).copy()

    def integers(self, name, dtype, count):
        least = 0 if dtype in (DataType.BOOL, DataType.UINT8) else -SMALL
        numbers = np.random.default_rng(zlib.crc32(name.encode())).integers(least, SMALL, count)
        return cast(numbers.astype(np.float64), dtype)

    @cached_property
    def tables(self):
        """Memory of the tables, by offset."""
        memory = {}
        for kernel in replace(self.schedule.tables, read=None).kernels():
            used = buffers_of(kernel.body)
            memory |= {
                x.offset: np.zeros(evaluate(x.entries, self.sizes), DTYPES[x.stored])
                for x in used
                if x.offset not in memory
            }
            run(kernel, {x: memory[x.offset] for x in used}, self.sizes)
        return memory

    def differing(self, before, after, reordered):
        """A description of the first difference of two outcomes, or None; sums that were `reordered` may
        differ within bounds."""
        for name in before:
            a, c = before[name], after[name]
            differs = (a != c) & ((a == a) | (c == c))
            if differs.any() and not (reordered and self.near(a, name) and self.near(c, name)):
                at = int(differs.argmax())
                return f"{name}[{at}] was {a[at]}, is {c[at]}, and {int(differs.sum()) - 1} others"
        return None

    def near(self, array, name):
        """Whether a result lies within the bounds of the reference."""
        group = self.launch.group
        built = {group.buffer.name: (group.root, group.part), **{x.name: (v, None) for v, x in group.also}}
        value, part = built[name]
        shape, whole = self.shape(value.shape), self.shape(part.shape if part else value.shape)
        got = unpack4(array, int(np.prod(shape)), value.dtype) if is_packed(value.dtype) else array
        got = got.view(numpy_dtype(value.dtype)).reshape(whole)
        if part is not None:
            start = evaluate(part.start, self.sizes)
            got = np.take(got, range(start, start + shape[part.axis]), part.axis)
        return not differing(got, self.expected[value], value.dtype).any()

    def shape(self, dims):
        return tuple(evaluate(d, self.sizes) for d in dims)

    @cached_property
    def expected(self):
        values = (self.launch.group.root, *(v for v, _ in self.launch.group.also))
        stored, held = Inside(self.schedule.buffers, self.launch.group.own), {}
        for v in walk(values):
            if v in stored:
                buffer, shape = stored[v], self.shape(v.shape)
                held[v] = self.integers(buffer.name, v.dtype, int(np.prod(shape))).reshape(shape)
        return {v: reference(v, held, self.sizes) for v in values}


def check(graph, sizes_list, machine):
    lowered = native.lower(graph, constant_offsets(graph), Sizes(sizes_list[0]), machine=machine)
    for sizes in sizes_list:
        schedule = lowered.schedules[serving((v.guard for v in lowered.module.versions), sizes)]
        for launch in {id(x.call.kernel): x for x in schedule.launches}.values():
            Steps(schedule, launch, sizes, lowered.machine.lanes).check()


def products(graph, sizes):
    """The number of products that are added."""
    result = 0
    for value in walk(v for _, v in graph.outputs):
        if isinstance(value.op, Contract):
            pairs = zip((value.op.left, value.op.right), value.args, strict=True)
            lengths = {n: d for labels, v in pairs for n, d in zip(labels, v.shape, strict=True)}
            result += evaluate(product(lengths.values()), sizes)
    return result


def one(make, seed):
    dice = Seeded(random.Random(seed))
    case, machine = make(dice), dice.pick(REFERENCE, TINY)
    # Each of these is an example that is followed through every step.
    sizes = [s for s in case.sizes if products(case.graph, s) <= PRODUCTS]
    if sizes:
        check(case.graph, sizes, machine)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("make", [known_case, typical_case])
def test_each_step_leaves_what_a_kernel_computes(make, batch):
    for seed in range(batch, tries(14), BATCHES):
        one(make, seed)


def test_sums_in_blocks_of_few_terms_leave_what_a_kernel_computes(monkeypatch):
    monkeypatch.setattr(reduction, "TERMS", 3)
    for seed in range(tries(6)):
        one(typical_case, seed)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_each_step_leaves_what_an_operator_computes(batch):
    # These read positions that an earlier kernel computes, and which cannot be random.
    results = {LayerType.NMS, LayerType.NON_ZERO}
    every = [
        (n, op, case) for n, (op, case) in enumerate(x for x in all_cases() if x[0].layer not in results)
    ]
    for number, op, case in sample(every, 53):
        if number % BATCHES == batch:
            run_of = case_run(op, case, dynamic=number % 2 == 1)
            sizes = at_most(run_of.sizes, (s.sym for s in run_of.graph.symbols))
            check(run_of.graph, [sizes], (REFERENCE, TINY)[number // 2 % 2])
