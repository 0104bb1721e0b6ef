"""The option `checked` checks every access and leaves the results unchanged."""

import re
from dataclasses import replace

import numpy as np
import pytest

from anyrt.compiler.records import with_records
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dims import Sym, add, mul
from anyrt.core.enums import DataType, ResizeCoordinateTransformation, ResizeSelector, SampleMode
from anyrt.core.errors import CompileError
from anyrt.core.requirement import Fence
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.visit import Rewrite
from anyrt.plan.program import Program
from anyrt.prims import build as b
from anyrt.prims.taps import Border, Linear
from anyrt.schedule.cost import Sizes
from tests import native
from tests.messages import diagnostic
from tests.native import load
from tests.targets import choose

F = DataType.FLOAT
LEVELS = pytest.mark.parametrize("level", ["sse2", None])


def lowered(y, **inputs):
    graph = Graph(tuple(inputs.items()), (("y", y),), {}, ())
    return native.lower(graph, constant_offsets(graph), Sizes({}), checked=True)


def broken(built, name, move):
    """The same kernels with their accesses to one buffer out of range."""

    def access(buffer, at):
        return buffer, move(at) if buffer.name == name else at

    def change(call):
        kernel = replace(call.kernel, body=Rewrite(access=access).body(call.kernel.body))
        return replace(call, kernel=kernel)

    versions = [replace(v, steps=[change(c) for c in v.steps]) for v in built.module.versions]
    return replace(built, module=replace(built.module, versions=versions))


def run(built, level):
    trial = Trial(load(built, choose(level)), {})
    trial.run()
    return trial


@pytest.mark.sampled(2)
@LEVELS
@pytest.mark.parametrize(
    ("count", "name", "move", "element"),
    [
        (1, "in_x", lambda at: add(at, 1), 1),
        (5, "in_x", lambda at: add(at, 1), 5),
        (40, "in_x", lambda at: add(at, 1), 40),
        (40, "in_x", lambda at: add(at, -1), -1),
        (40, "in_x", lambda at: mul(at, 2), re.compile(r"\b[47]\d")),
        (40, "in_x", lambda at: mul(at, 100), re.compile(r"\d+00")),
        (40, "in_x", lambda at: mul(at, -1), re.compile(r"-\d+")),
        (40, "in_x", lambda at: 1 << 50, 1 << 50),
        (1, "out_y", lambda at: add(at, 1), 1),
        (5, "out_y", lambda at: add(at, 1), 5),
        (40, "out_y", lambda at: add(at, 1), 40),
        (40, "out_y", lambda at: add(at, -(1 << 40)), -(1 << 40)),
        (40, "out_y", lambda at: mul(at, 100), re.compile(r"\d+00")),
        (40, "out_y", lambda at: mul(at, -1), re.compile(r"-\d+")),
    ],
)
def test_an_element_that_is_not_there_ends_the_run(count, name, move, element, level):
    x = b.param("x", (count,), F)
    built = broken(lowered(b.map_("mul", x, b.scalar(2.0, x)), x=x), name, move)
    with pytest.raises(CompileError, match=diagnostic("AR810", "map", element, name, count)):
        run(built, level)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", ["in_x", "in_w", "out_y"])
@pytest.mark.parametrize(
    ("dtype", "level"), [(F, "avx2"), (F, None), (DataType.BF16, None), (DataType.INT8, None)]
)
def test_sums_of_products_are_checked_too(name, dtype, level):
    wide = DataType.INT32 if dtype is DataType.INT8 else dtype
    x, w = b.param("x", (64, 128), dtype), b.param("w", (128, 96), dtype)
    lowering = lowered(b.contract("ik,kj->ij", x, w, wide), x=x, w=w)
    run(lowering, level)
    with pytest.raises(CompileError, match=diagnostic("AR810", "contract", re.compile(r"\d+"), name)):
        run(broken(lowering, name, lambda at: add(at, 4096)), level)


def test_memory_of_a_thread_is_checked():
    x = b.param("x", (8, 100), F)
    lowering = lowered(b.map_("div", x, b.reduce_("sum", b.map_("exp", x), [1])), x=x)
    names = {buffer.name for call in lowering.module.calls for buffer in call.buffers} - {"in_x", "out_y"}
    for name in names:
        with pytest.raises(CompileError, match=diagnostic("AR810", re.compile(r"\d+"), name)):
            run(broken(lowering, name, lambda at: add(at, 9000)), None)


def test_the_next_run_begins_without_what_the_last_one_found():
    x, at = b.param("x", (4,), F), b.param("at", (5,), DataType.INT32)
    built = broken(lowered(b.gather(x, at, 0), x=x, at=at), "in_x", lambda at: mul(at, 2))
    trial = Trial(load(built, choose(None)), {})
    buffers = {buffer.name: buffer for buffer in built.module.places}
    trial.write(buffers["in_x"], np.arange(4, dtype=np.float32), F)
    for positions, fits in (([0, 1, 3, 0, 0], False), ([0, 1, 0, 1, 0], True), ([3, 0, 0, 0, 0], False)):
        trial.write(buffers["in_at"], np.array(positions, np.int32), DataType.INT32)
        if fits:
            trial.run()
        else:
            with pytest.raises(CompileError, match=diagnostic("AR810", "gather", 6, "in_x", 4)):
                trial.run()
    assert trial.read(buffers["out_y"], F, (5,)).tolist() == [0, 0, 0, 0, 0]


def test_tables_are_checked_when_they_are_filled():
    x = b.param("x", (30,), F)
    rule = Linear(ResizeCoordinateTransformation.HALF_PIXEL, ResizeSelector.UPPER)
    lowering = lowered(b.taps(x, 0, 70, rule), x=x)
    (table,) = lowering.module.tables
    body = Rewrite(access=lambda buffer, at: (buffer, add(at, 200))).body(table.body)
    module = replace(lowering.module, tables=[replace(table, body=body)])
    with pytest.raises(CompileError, match=diagnostic("AR810", table.name, 200)):
        run(replace(lowering, module=module), None)


def test_an_error_names_tensors_of_the_network():
    x = b.param("x", (4,), F)
    lowering = lowered(b.map_("exp", x), x=x)
    compiled = with_records(native.compile_lowered(lowering, choose(None)), lowering)
    assert compiled.program.fences == (Fence("map", ("x", "y")),)
    assert Program.parse(compiled.program.as_json(), {}) == compiled.program


@LEVELS
def test_a_border_around_taps_of_nothing_reads_nothing(level):
    n = Sym("x.0", 0, 9)
    x = b.param("x", (n.dim, 15, 33), F)
    y = b.pad(b.taps(x, 1, 8, Border(SampleMode.REFLECT, -2, 2)), (0, 0, 1), (3, 1, 0), 2.5)
    graph = Graph((("x", x),), (("y", y),), {}, (Symbol(n, "x", 0),))
    lowering = native.lower(graph, constant_offsets(graph), Sizes({n.name: 5}), checked=True)
    trial = Trial(load(lowering, choose(level)), {n.name: 0})
    trial.run()
    place = next(buffer for buffer in lowering.module.places if buffer.name == "out_y")
    assert set(trial.read(place, F, (3, 9, 34)).flat) == {2.5}
