"""Tensors without elements are never read, not even under a condition that discards the value."""

import numpy as np
import pytest

from anyrt.backends.cpu.emit import emit
from anyrt.backends.cpu.processors import Level
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.dimvalues import evaluate
from anyrt.core.enums import DataType, SampleMode
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.machine import REFERENCE
from anyrt.ir.buffer import Scalar, Space
from anyrt.ir.graph import Graph, Symbol, Type, Value
from anyrt.ir.kernel import const
from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.prim import Read
from anyrt.plan import abi
from anyrt.prims import build as b
from anyrt.prims.concat import Concat
from anyrt.prims.pad import Pad
from anyrt.prims.taps import Border, Cubic, Nearest
from anyrt.prims.view import Axis, View
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load
from tests.targets import choose

N = Sym("x.0", 0, 64)
NEAREST = Nearest(Coordinate.ASYMMETRIC, Selector.FORMULA, Rounding.FLOOR)
CUBIC = Cubic(Coordinate.ASYMMETRIC, Selector.FORMULA, -0.75, exclude_outside=False)
FAR = 1 << 28  # elements, beyond the pages mapped after a small tensor


def run(y: Value, shape: tuple[int, ...], level: str | None) -> np.ndarray:
    """`y` for an empty x whose address is 0."""
    x = b.param("x", (N.dim, 3), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", y),), {}, (Symbol(N, "x", 0),))
    loaded = load(native.lower(graph, constant_offsets(graph), Sizes({N.name: 5})), choose(level))
    trial = Trial(loaded, {N.name: 0})
    trial.args[abi.FIRST_BINDING] = 0
    trial.run()
    return trial.blocks["tensor y"].bytes[: -abi.ALIGNMENT].view(np.float32).reshape(shape)


@pytest.mark.parametrize(
    ("first", "second", "framed"),
    [("n", "5", {"pos1"}), ("5", "n", {"pos0"}), ("n", "n", {"pos0", "pos1"})],
)
def test_addresses_of_tables_count_from_one_that_is_never_empty(first, second, framed):
    text = f"""
symbol n 0..64
buffer pos0 i32 table {first} offset 0
buffer pos1 i32 table {second} offset 256
buffer y FLOAT output n offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {{
  for vector i1 0.. < n {{
    store y[i1] = f32(add(pos0[i1], pos1[0]))
  }}
}}
"""
    (kernel,) = parse_kernels(text)
    assert {b.name for b in emit(kernel, REFERENCE).frame.buffers if b.space is Space.TABLE} == framed


@pytest.mark.parametrize("level", [None, Level.SSE2.value])
def test_padding_nothing_gives_the_border(level):
    x = b.param("x", (N.dim, 3), DataType.FLOAT)
    y = run(b.pad(b.map_("exp", x), (2, 0), (1, 4), 7.0), (3, 7), level)
    assert (y == 7.0).all()


@pytest.mark.parametrize("level", [None, Level.SSE2.value])
def test_concatenating_nothing_gives_the_rest(level):
    x = b.param("x", (N.dim, 3), DataType.FLOAT)
    rest = b.const(np.arange(6).reshape(2, 3), DataType.FLOAT)
    assert run(b.concat([x, rest, x], 0), (2, 3), level).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("level", [None, Level.SSE2.value])
def test_folding_nothing_gives_the_identity(level):
    x = b.param("x", (N.dim, 3), DataType.FLOAT)
    assert run(b.reduce_("max", x, (0,)), (1, 3), level).tolist() == [[-np.inf] * 3]


@pytest.mark.parametrize("op", [Pad((2, 0), (1, 0), 7.0), Concat(0)], ids=["pad", "concat"])
def test_an_empty_operand_is_indexed_at_its_first_element(op):
    wide, results = Type((N.dim, 5000), DataType.FLOAT), []
    operand = Read(wide, lambda at: results.append(tuple(at)) or const(0.0, Scalar.F32))
    out, index = op.infer((wide,)), (Sym("i", extent=3).dim, Sym("j", extent=5000).dim)
    op.lower(out, (operand,), index)
    assert [evaluate(d, {N.name: 0, "i": 1, "j": 4000}) for d in results[0]] == [0, 0]
    assert [evaluate(d, {N.name: 9, "i": 3, "j": 4000}) for d in results[0]][1] == 4000


def test_an_empty_tensor_has_no_kernel():
    """Its kernel would store rows and read tables that no kernel had filled."""
    x = b.param("x", (1, 1, 2, 4), DataType.FLOAT)
    y = b.taps(b.taps(x, 3, 2, CUBIC), 2, 0, CUBIC)
    graph = Graph((("x", x),), (("y", b.taps(b.taps(y, 3, 4, NEAREST), 0, 2, NEAREST)),))
    lowered = native.lower(graph, {}, Sizes())
    assert (lowered.module.kernels, lowered.module.tables) == ((), [])
    Trial(load(lowered, choose(None)), {}).run()


def test_folding_an_empty_tensor_reads_no_element():
    x = b.param("x", (6, 1), DataType.FLOAT)
    view = b.slice_(x, (5, 0), (1, 0), (1, 1))
    graph = Graph((("x", x),), (("y", b.reduce_("prod", view, (1,))),))
    assert "store out_y[0] = 1.0:f32" in print_kernels(native.lower(graph, {}, Sizes()).module.kernels)


def test_an_operand_of_products_that_is_empty_at_all_sizes_lies_somewhere():
    """No kernel writes it, so it would have no place in the arena."""
    x, v = b.param("x", (N.dim, 2, 3), DataType.FLOAT), b.param("v", (0, 3, 5), DataType.FLOAT)
    off = b.map_("sub", v, b.reduce_("sum", v, (2,)))
    y = b.reshape(b.contract("bnk,bkm->bnm", x, off), (N.dim, 2, 5))
    graph = Graph((("x", x), ("v", v)), (("y", y),), {}, (Symbol(N, "x", 0),))
    trial = Trial(load(native.lower(graph, {}, Sizes({N.name: 5})), choose(None)), {N.name: 0})
    trial.run()
    assert trial.blocks["tensor y"].bytes.size == abi.ALIGNMENT


@pytest.mark.parametrize("level", [None, Level.SSE2.value])
@pytest.mark.parametrize(
    "part",
    [
        lambda x: b.taps(x, 0, N.dim, NEAREST),
        lambda x: b.taps(x, 0, N.dim, CUBIC),
        lambda x: b.taps(x, 0, N.dim, Border(SampleMode.REFLECT, 3, -1)),
        lambda x: b.slice_(x, (FAR, 0), (N.dim, 2), (1, 1)),
        lambda x: b.slice_(x, (N.dim - 1, 0), (N.dim, 2), (-FAR, 1)),
        lambda x: b.reduce_("sum", b.slice_(x, (FAR, 0), (N.dim, 2), (1, 1)), (1,)),
    ],
    ids=["nearest", "cubic", "border", "slice", "flip", "fold"],
)
def test_padding_an_empty_part_gives_the_border(part, level):
    """Next to the condition, the kernel loads the part's first element, so the part needs a valid address."""
    x, n = b.param("x", (6, 2), DataType.FLOAT), b.param("n", (N.dim,), DataType.FLOAT)
    y = b.pad(part(x), (2, 0), (1, 0), 7.0)
    graph = Graph((("x", x), ("n", n)), (("y", y),), {}, (Symbol(N, "n", 0),))
    trial = Trial(load(native.lower(graph, {}, Sizes({N.name: 5})), choose(level)), {N.name: 0})
    trial.run()
    got = trial.blocks["tensor y"].bytes[: -abi.ALIGNMENT].view(np.float32)
    assert got.tolist() == [7.0] * 3 * y.shape[1]


def test_a_view_that_may_be_empty_reads_in_place_where_its_index_is_sure():
    wide, results = Type((N.dim, 8), DataType.FLOAT), []
    operand = Read(wide, lambda at: results.append(tuple(at)) or const(0.0, Scalar.F32))
    view = View((N.dim, 3), (Axis(0, 0), Axis(5, 1)))
    i, j = Sym("i", extent=N.dim).dim, Sym("j", extent=3).dim
    view.lower(view.infer((wide,)), (operand,), (i, j))
    assert results == [(i, j + 5)]
