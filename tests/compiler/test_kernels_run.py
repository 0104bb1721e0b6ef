"""Kernels of the pipeline run without LLVM: they print, parse back, are valid, and agree with the graph's
interpreter."""

import numpy as np
import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.compiler.bounds import differing
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.compiler.verify import random_inputs, reference
from anyrt.core.dims import Sym
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import is_packed, numpy_dtype, stored_bytes, unpack4
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.machine import REFERENCE
from anyrt.ir.buffer import Space
from anyrt.ir.evaluate import DTYPES
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.run import run
from anyrt.ir.statements import buffers_of
from anyrt.ir.verify import kernel_faults
from anyrt.ops._math import mean
from anyrt.prims import build as b
from anyrt.prims.taps import Cubic, Linear
from anyrt.schedule.cost import Sizes
from anyrt.schedule.pieces import pieces
from anyrt.schedule.versions import serving
from tests import native
from tests.native import load
from tests.targets import choose, parsed

F, H = DataType.FLOAT, DataType.HALF
ROWS, LENGTH = Sym("x.0", 0, 512), Sym("x.1", 1, 512)


def normalised(x, axes=(1,)):
    wide = b.cast(x, F)
    off = b.map_("sub", wide, mean(wide, axes))
    return b.cast(b.map_("mul", off, b.map_("rsqrt", mean(b.map_("square", off), axes))), x.dtype)


def resized(x, rule):
    return b.taps(b.taps(b.cast(x, F), 1, 2 * x.shape[1], rule), 2, 2 * x.shape[2], rule)


def added(x, dtype):
    return b.map_("add", x, b.const(np.arange(-4, 4)[None], dtype))


LINEAR = Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)
CUBIC = Cubic(Coordinate.HALF_PIXEL, Selector.FORMULA, -0.75, True)
CASES = {
    "map": (lambda x: b.map_("tanh", x), (5, 70), F),
    "branch of a residual": (lambda x: b.map_("add", x, b.map_("sigmoid", normalised(x))), (5, 70), F),
    "tiles": (lambda x: b.transpose(x, (1, 0)), (70, 133), F),
    "rows one by one": (normalised, (3, 77), F),
    "rows in batches": (normalised, (128, 77), H),
    "rows in pairs": (normalised, (64, 1100), H),
    "chunks of a row": (normalised, (2, 3 * pieces(REFERENCE).folded + 17), F),
    "columns": (lambda x: normalised(x, (0,)), (300, 9), F),
    "fold of everything": (lambda x: b.reduce_("max", x, (0, 1)), (40, 33), DataType.INT32),
    "resize of rows": (lambda x: resized(b.map_("exp", x), LINEAR), (2, 9, 31), F),
    "window of rows": (lambda x: resized(x, CUBIC), (1, 24, 40, 3), DataType.UINT8),
    "photograph": (
        lambda x: b.cast(b.transpose(resized(x, LINEAR), (0, 3, 1, 2)), H),
        (1, 24, 40, 3),
        DataType.UINT8,
    ),
    "nibbles": (lambda x: added(x, DataType.INT4), (3, 8), DataType.INT4),
    "small floats": (lambda x: added(x, DataType.FP8), (3, 8), DataType.FP8),
    "parts": (lambda x: b.concat([x, b.pad(x, (0, 2), (0, 1), 2.5)], 1), (5, 19), F),
    "positions that are data": (
        lambda x: b.gather(x, b.cast(b.map_("mul", x, b.scalar(60.0, x)), DataType.INT64), 1),
        (5, 70),
        F,
    ),
    "positions in what may be empty": (
        lambda x: b.gather(x, b.cast(b.map_("mul", x, b.scalar(60.0, x)), DataType.INT32), 0),
        (ROWS.dim, 5),
        F,
    ),
    "open sizes": (lambda x: b.map_("mul", normalised(x), x), (ROWS.dim, LENGTH.dim), F),
    "open resize": (lambda x: b.taps(x, 1, 75, LINEAR), (ROWS.dim, LENGTH.dim), F),
    "padding of what may be empty": (lambda x: b.pad(x, (1, 0), (2, 0), 1.5), (ROWS.dim, 5), F),
}
SIZES = [{"x.0": m, "x.1": n} for m, n in ((3, 50), (0, 7), (17, 300))]


def lowered(name):
    make, shape, dtype = CASES[name]
    x = b.param("x", shape, dtype)
    symbols = tuple(Symbol(s, "x", k) for k, s in enumerate((ROWS, LENGTH)) if s.dim in shape)
    graph = Graph((("x", x),), (("y", make(x)),), {}, symbols)
    return native.lower(graph, constant_offsets(graph), Sizes({"x.0": 64, "x.1": 50}))


class Memory:
    """Arrays by the place of their buffer: tables have several names."""

    def __init__(self, value, sizes):
        self.places, self.sizes, self.arrays = value.module.places, sizes, {}

    def __getitem__(self, buffer):
        kind, size = DTYPES[buffer.stored], evaluate(buffer.entries, self.sizes)
        whole = self.arrays.setdefault(self.places[buffer], np.full(size, 77).astype(kind))
        return whole.view(kind)

    def write(self, buffer, array, dtype):
        self[buffer].view(np.uint8)[:] = stored_bytes(array, dtype)

    def read(self, buffer, dtype, shape):
        raw, count = self[buffer].view(np.uint8), int(np.prod(shape))
        return (unpack4(raw, count, dtype) if is_packed(dtype) else raw.view(numpy_dtype(dtype))).reshape(
            shape
        )


def result(actual, sizes, kernels=None):
    """The output, from NumPy alone."""
    memory, graph = Memory(actual, sizes), actual.graph
    version = serving((v.guard for v in actual.module.versions), sizes)
    schedule = actual.schedules[version]
    held = {v: a for (_, v), a in zip(graph.inputs, random_inputs(graph, sizes).values(), strict=True)}
    for value, buffer in schedule.buffers.items():
        if buffer.space is Space.CONST:
            memory.write(buffer, value.op.blob.data, value.dtype)
        elif value in held:
            memory.write(buffer, held[value], value.dtype)
    for kernel in kernels or (
        *actual.module.tables,
        *(c.bound for c in actual.module.versions[version].steps),
    ):
        values = (x for x in buffers_of(kernel.body) if x.space not in (Space.SCRATCH, Space.REGISTER))
        run(kernel, {x: memory[x] for x in values}, sizes)
    ((_, y),) = graph.outputs
    out = next(x for x in actual.module.places if x.name == "out_y")
    return memory.read(out, y.dtype, tuple(evaluate(d, sizes) for d in y.shape)), reference(y, held, sizes)


@pytest.mark.parametrize("name", CASES)
def test_kernels_run_as_the_graph_does(name):
    lowering = lowered(name)
    for sizes in SIZES if lowering.graph.symbols else [{}]:
        got, expected = result(lowering, sizes)
        assert not differing(got, expected, got_type(lowering)).any(), sizes


def got_type(value):
    ((_, y),) = value.graph.outputs
    return y.dtype


@pytest.mark.parametrize("name", CASES)
def test_kernels_print_and_come_back_equal(name):
    kernels = (*lowered(name).module.tables, *lowered(name).module.kernels)
    again = parsed(print_kernels(kernels))
    assert again == kernels
    assert [f for k in again for f in kernel_faults(k)] == []


@pytest.mark.parametrize("level", [None, Level.SSE2])
@pytest.mark.parametrize("length", [3, 77, 1100, LENGTH.dim])
def test_sums_are_bit_for_bit_those_of_generated_code(length, level):
    x = b.param("x", (5, length), F)
    symbols = () if isinstance(length, int) else (Symbol(LENGTH, "x", 1),)
    graph = Graph((("x", x),), (("y", b.reduce_("sum", x, (1,))),), {}, symbols)
    lowering, sizes = native.lower(graph, {}, Sizes({"x.1": 500})), {"x.1": 483} if symbols else {}
    target = choose(level and level.value)
    trial, memory = Trial(load(lowering, target), sizes), Memory(lowering, sizes)
    buffers, feed = {v.name: v for v in lowering.module.places}, random_inputs(graph, sizes)["x"]
    for each in (trial, memory):
        each.write(buffers["in_x"], feed, F)
    trial.run()
    for kernel in lowering.module.kernels:
        inputs = {x: memory[x] for x in buffers.values()}
        run(kernel, inputs, sizes, target.processor.vector_bits // 32)
    got, expected = (each.read(buffers["out_y"], F, (5, 1)) for each in (memory, trial))
    assert got.tobytes() == expected.tobytes()
