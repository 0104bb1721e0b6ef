"""Tensors without elements: nothing of them is read, not even beside a condition that discards it."""

import numpy as np
import pytest

from anyrt.codegen.llvm import Level, choose
from anyrt.compiler import native
from anyrt.compiler.trial import Trial, constant_offsets, load
from anyrt.core.dims import Sym, evaluate
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Symbol, Type, Value
from anyrt.ir.kernel import Scalar, const
from anyrt.ir.prim import Read
from anyrt.plan import abi
from anyrt.prims import build as b
from anyrt.prims.concat import Concat
from anyrt.prims.pad import Pad
from anyrt.schedule.cost import Sizes

N = Sym("x.0", 0, 64)


def run(y: Value, shape: tuple[int, ...], level: str | None) -> np.ndarray:
    """`y` for an empty x whose address is 0."""
    x = b.param("x", (N.dim, 3), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", y),), {}, (Symbol(N, "x", 0),))
    loaded = load(native.lower(graph, constant_offsets(graph), Sizes({N.name: 5})), choose(level))
    trial = Trial(loaded, {N.name: 0})
    trial.args[abi.FIRST_BINDING] = 0
    trial.run()
    return trial.blocks["tensor y"].bytes[: -abi.ALIGNMENT].view(np.float32).reshape(shape)


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
def test_what_stands_for_an_element_of_nothing_is_the_first_one(op):
    wide, found = Type((N.dim, 5000), DataType.FLOAT), []
    operand = Read(wide, lambda at: found.append(tuple(at)) or const(0.0, Scalar.F32))
    out, index = op.infer((wide,)), (Sym("i", extent=3).dim, Sym("j", extent=5000).dim)
    op.lower(out, (operand,), index)
    assert [evaluate(d, {N.name: 0, "i": 1, "j": 4000}) for d in found[0]] == [0, 0]
    assert [evaluate(d, {N.name: 9, "i": 3, "j": 4000}) for d in found[0]][1] == 4000
