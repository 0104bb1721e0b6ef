"""Tensors that reuse the memory of another one, which their kernel reads for the last time."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from anyrt.compiler.inplace import _bordered_alike, taken_over
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.compiler.verify import random_inputs
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.buffer import Space
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.interpret import interpret
from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.statements import buffers_in_order
from anyrt.loops.overwrite import reads_what_it_stores, stores_of
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from anyrt.schedule.launch import in_line
from tests import native
from tests.native import load, verify
from tests.sampling import tries
from tests.targets import host

F, N = DataType.FLOAT, Sym("x.0", 1, 200)
SIDE = 64
WEIGHTS = np.random.default_rng(7).standard_normal((SIDE, SIDE)) / 8


def product(x, k=0):
    """x times weights."""
    return b.contract("mk,kn->mn", x, b.const(np.roll(WEIGHTS, k, 0), F))


def relu(x):
    return b.map_("max", x, b.scalar(0.0, x))


def block(x, k=0):
    """Two products, added to the input of the first one."""
    return relu(b.map_("add", product(relu(product(x, k)), k + 1), x))


def lowered(make, rows=SIDE):
    """The network of `make`, behind a product, and before one."""
    x = b.param("x", (rows, SIDE), F)
    symbols = () if isinstance(rows, int) else (Symbol(N, "x", 0),)
    graph = Graph((("x", x),), (("y", product(make(product(x, 5)), 6)),), {}, symbols)
    for step in PASSES:
        graph = step.run(graph)
    return native.lower(graph, constant_offsets(graph), Sizes({N.name: 100}), machine=REFERENCE)


def shared(low):
    """The number of tensors that reuse another tensor's memory."""
    line = in_line(low.schedule)
    return len(taken_over(line.steps, line.last_uses()))


def is_right(low, sizes=None):
    """Whether the outputs of the whole network equal the interpreter's."""
    trial = Trial(load(low, host()), sizes or {})
    feeds = random_inputs(low.graph, sizes or {})
    buffers = low.schedule.buffers
    for name, value in low.graph.inputs:
        trial.write(buffers[value], feeds[name], value.dtype)
    trial.run()
    ((name, value),) = low.graph.outputs
    expected = interpret(low.graph, feeds)[name]
    return np.allclose(trial.read(buffers[value], F, expected.shape), expected, rtol=1e-4, atol=1e-3)


def test_blocks_with_residuals_need_two_tensors():
    """The residual, and the intermediate tensor of a block; without reuse there would be a third one."""
    low = lowered(lambda x: block(block(block(x), 2), 4))
    assert (shared(low), low.arena_bytes) == (3, 2 * 4 * SIDE * SIDE)
    assert is_right(low)
    assert verify(low, host(), [{}]) == ()


def test_blocks_of_an_open_number_of_rows_do_where_that_is_known():
    low = lowered(lambda x: relu(b.map_("exp", b.map_("neg", x))), N.dim)
    assert all(is_right(low, {N.name: n}) for n in (1, 15, 200))


def test_versions_have_tensors_of_their_own():
    """Tensors with the same name in two versions would share the place of the later one."""
    x, y = b.param("x", (N.dim, SIDE), F), b.param("y", (Sym("y.0", 1, 200).dim, SIDE), F)
    symbols = (Symbol(N, "x", 0), Symbol(Sym("y.0", 1, 200), "y", 0))
    built = product(block(b.map_("add", product(x), product(y, 1)), 2))
    graph = Graph((("x", x), ("y", y)), (("z", built),), {}, symbols)
    low = native.lower(graph, constant_offsets(graph), Sizes({N.name: 9, "y.0": 9}), machine=REFERENCE)
    first, second = ({b for b in s.buffers.values() if b.space is Space.ARENA} for s in low.schedules)
    assert first
    assert first.isdisjoint(second)


@pytest.mark.parametrize("fills", [False, True])
def test_a_border_is_stored_between_two_tensors_in_place_unless_it_fills_the_whole(fills):
    root = SimpleNamespace(type=0)
    launch = SimpleNamespace(group=SimpleNamespace(border=1, fills=fills, layout=None, root=root))
    assert _bordered_alike({0: launch, 1: launch}, [1], [0]) is not fills


@pytest.mark.parametrize(("columns", "fills"), [(12, True), (30, False)])
def test_a_border_in_each_cache_line_fills_the_whole(columns, fills):
    """Rows of 12 float32 numbers and their padding fit into a cache line, those of 30 do not."""
    x = b.param("x", (1, 4, 100, columns), F)
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
    windows = b.windows(b.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), 7.0), axes, (*x.shape, 3, 3))
    weights = np.random.default_rng(1).standard_normal((4, 4, 3, 3))
    graph = Graph((("x", x),), (("y", b.contract("nchwij,kcij->nkhw", windows, b.const(weights, F))),))
    low = native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE)
    assert [s.group.fills for s in low.schedule.launches if s.group.border is not None] == [fills]
    assert is_right(low)
    assert verify(low, host(), [{}]) == ()


NOT_IN_PLACE = {
    "it is read transposed": lambda x: relu(b.map_("add", product(relu(product(x))), b.transpose(x, (1, 0)))),
    "it is read a row further": lambda x: relu(b.map_("add", product(relu(product(x))), shifted(x))),
    "the product reads its rows": lambda x: relu(b.map_("add", product(x), x)),
    "its rows are folded": lambda x: b.map_("sub", x, b.reduce_("max", x, (1,))),
    "it is read later": lambda x: b.map_("add", product(block(x)), x),
}


def shifted(x):
    """Each row shifted by one, and the last one repeated."""
    rows = [b.slice_(x, (at, 0), (count, SIDE), (1, 1)) for at, count in ((1, SIDE - 1), (SIDE - 1, 1))]
    return b.concat(rows, 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("why", NOT_IN_PLACE)
def test_others_keep_their_memory(why):
    low = lowered(NOT_IN_PLACE[why])
    assert is_right(low)


def normed(x):
    """Rows minus their mean, multiplied by weights."""
    mean = b.map_("mul", b.reduce_("sum", x, (1,)), b.scalar(1 / SIDE, x))
    return product(b.map_("sub", x, mean), 7)


def near(x):
    """Products of each row's neighbours."""
    around = b.pad(x, (1, 0), (1, 0), 0.0)
    parts = [product(b.slice_(around, (k, 0), x.shape, (1, 1)), k) for k in (0, 2)]
    return b.map_("add", *parts)


INSIDE = (
    product,
    normed,
    near,
    lambda x: product(relu(product(x, 2)), 3),
    lambda x: b.map_("exp", b.map_("neg", b.map_("abs", product(x)))),
)


def chain(dice, x):
    """Sums of a tensor and a function of it, sometimes of an earlier tensor."""
    seen = [x]
    for _ in range(dice.randint(2, 4)):
        pair = [dice.choice(INSIDE)(x), x if dice.random() < 0.8 else dice.choice(seen)]
        x = b.map_(dice.choice(("add", "add", "sub", "max")), *dice.sample(pair, 2))
        x = relu(x) if dice.random() < 0.5 else x
        seen.append(x)
    return x


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(tries(4)))
def test_random_residuals_are_right(seed):
    dice = random.Random(seed)
    rows = dice.choice((SIDE, 33, N.dim))
    low = lowered(lambda x: chain(dice, x), rows)
    assert all(is_right(low, {N.name: n}) for n in ((1, 17, 100) if rows is N.dim else (0,)))


HEAD = """
buffer x FLOAT arena 96 offset 0
buffer w FLOAT input 96 offset 0
buffer y FLOAT arena 96 offset 0
buffer s f32 scratch 96 offset 0
"""


def kernel(body, turns=12):
    """A kernel of this many items, with its buffers."""
    (result,) = parse_kernels(f'{HEAD}kernel "k" p 0.. < {turns} work 1 scratch 384 {{\n{body}\n}}\n')
    named = {b.name: b for b in buffers_in_order(result)}
    return result, named["y"], named.get("x")


IN_PLACE = {
    "one element after the other": "for vector j 0.. < 8 {\n store y[8*p + j] = add(x[8*p + j], w[j])\n}",
    "as it is, and from scratch": "for vector j 0.. < 8 {\n store s[j] = w[j]\n}\n"
    "for vector j 0.. < 8 {\n store y[8*p + j] = add(x[8*p + j], mul(s[j], x[8*p + j]))\n}",
}
OTHERWISE = {
    "one element further": "for vector j 0.. < 8 {\n store y[8*p + j] = x[mod(8*p + j + 1, 96)]\n}",
    "before, in another loop": "for vector j 0.. < 8 {\n store s[j] = x[8*p + j]\n}\n"
    "for vector j 0.. < 8 {\n store y[8*p + j] = s[mod(j + 1, 8)]\n}",
    "twice": "for vector j 0.. < 8 {\n store y[8*p + j] = x[8*p + j]\n}\n"
    "for vector j 0.. < 8 {\n store y[8*p + j] = neg(x[8*p + j])\n}",
}


@pytest.mark.parametrize("how", IN_PLACE)
def test_a_kernel_may_read_what_it_stores(how):
    result = kernel(IN_PLACE[how])
    assert reads_what_it_stores(*result)
    assert stores_of(*result[:2]) == 96


@pytest.mark.parametrize("how", OTHERWISE)
def test_a_kernel_must_not_read_what_may_be_stored(how):
    result = kernel(OTHERWISE[how])
    assert not (reads_what_it_stores(*result) and stores_of(*result[:2]) == 96)


@pytest.mark.parametrize(
    ("body", "turns", "count"),
    [
        ("for vector j 0.. < min(16, 96 + -16*p) {\n store y[16*p + j] = 0.0:f32\n}", 6, 96),
        ("for vector j 0.. < min(20, 96 + -20*p) {\n store y[20*p + j] = 0.0:f32\n}", 5, 96),
        ("for vector j 0.. < min(20, 96 + -20*p) {\n store y[20*p + j] = 0.0:f32\n}", 6, 96),
        ("for vector j 0.. < 20 {\n store y[20*p + j] = 0.0:f32\n}", 5, 100),
    ],
)
def test_stores_are_counted(body, turns, count):
    assert stores_of(*kernel(body, turns)[:2]) == count
