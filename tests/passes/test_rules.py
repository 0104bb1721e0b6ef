"""Every rule on operands with special values: bit for bit the same before and after, in the interpreter, or
within the tolerance that the rule states."""

import random
from pathlib import Path

import numpy as np
import pytest

from anyrt.compiler.bounds import Bounded, bounded, exact
from anyrt.core.dims import Sym
from anyrt.core.dtype import cast, is_float, numpy_dtype
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Symbol, Value, walk
from anyrt.ir.interpret import compute, interpret
from anyrt.ir.reference import widen
from anyrt.ir.rewrite import Fail, Rule, rewrite
from anyrt.passes.late_division import LATE_DIVISION
from anyrt.passes.rules import RULES, holds
from anyrt.passes.simplify import simplify
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.contract import Contract
from anyrt.prims.gather import Gather
from anyrt.prims.reduce import Reduce
from tests.sampling import sample

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-45, 1.0, -1.0, 0.5, -2.5, 300.7, 3.3e38, 127.5]
TYPES = [DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.FP8, DataType.FP4, DataType.INT64]
TYPES += [DataType.INT32, DataType.INT8, DataType.UINT8, DataType.INT4, DataType.BOOL]


def operands(value: Value, rng: random.Random) -> dict[str, np.ndarray]:
    results = [v for v in walk([value]) if isinstance(v.op, Param)]
    return {v.op.name: special(v, rng) for v in results}


def special(value: Value, rng: random.Random) -> np.ndarray:
    count = int(np.prod(value.shape))
    if is_float(value.dtype):
        with np.errstate(all="ignore"):
            return cast(np.array(rng.choices(SPECIAL, k=count)), value.dtype).reshape(value.shape)
    ends = np.array([0, 1, -1, 127, 128, -128, 255, 2**31 - 1, -(2**31), 2**40])
    return cast(np.array(rng.choices(ends.tolist(), k=count)), value.dtype).reshape(value.shape)


def bits(x: np.ndarray) -> bytes:
    """The bits of the elements, with one representation for all NaN."""
    if x.dtype.kind in "iub":
        return x.tobytes()
    wide = x.astype(np.float64)
    return np.where(wide != wide, np.nan, wide).tobytes()


def unrounded(root: Value, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The interpreter's result before it is rounded to the type of the output."""
    results = {}
    for v in walk([root]):
        is_param = isinstance(v.op, Param)
        results[v] = (
            widen(feeds[v.op.name], v.dtype) if is_param else compute(v, [results[a] for a in v.args], {})
        )
    return results[root]


def applied(rule: Rule, seed: int) -> tuple[Value, Value, dict[str, np.ndarray]]:
    """An example, the result of the rule for it, and special values for both."""
    rng = random.Random(seed)
    value = rule.example(rng.randrange)
    result = rule.apply(value)
    assert isinstance(result, Value), f"the example does not fit: {result}"
    return value, result, operands(value, rng)


@pytest.mark.parametrize("rule", [r for r in RULES if not r.tolerance], ids=lambda r: r.name)
def test_rule_is_exact(rule):
    for seed in range(60):
        value, built, feeds = applied(rule, seed)
        inputs = tuple((v.op.name, v) for v in walk([value]) if isinstance(v.op, Param))
        before, after = (interpret(Graph(inputs, (("y", v),)), feeds)["y"] for v in (value, built))
        assert bits(before) == bits(after), (feeds, before, after)


@pytest.mark.parametrize("rule", [r for r in RULES if r.tolerance], ids=lambda r: r.name)
def test_rule_keeps_its_tolerance_and_every_special_value(rule):
    for seed in range(200):
        value, built, feeds = applied(rule, seed)
        before, after = unrounded(value, feeds), unrounded(built, feeds)
        np.testing.assert_allclose(after, before, rule.tolerance, 0.0)
        special = ~np.isfinite(before) | (before == 0)
        assert bits(before[special]) == bits(after[special]), (feeds, before, after)


def whole_range(value: Value, rng: random.Random) -> np.ndarray:
    """Elements of every magnitude that a type has: evenly spread over exponents, subnormals, the ends, zeros
    of both signs, infinities and NaN, and rows of one magnitude."""
    if not is_float(value.dtype):
        return special(value, rng)
    count, near = int(np.prod(value.shape)), rng.choice([None, -140, -126, -60, 0, 60, 120, 126])
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4028234e38, -3.4028234e38, 2.0**-126, 2.0**-149]

    def element() -> float:
        if near is None and rng.random() < 0.2:
            return rng.choice(ends)
        exponent = rng.uniform(-149, 128) if near is None else near + rng.random()
        return rng.choice([-1.0, 1.0]) * 2.0**exponent

    with np.errstate(all="ignore"):
        return cast(np.array([element() for _ in range(count)]), value.dtype).reshape(value.shape)


def with_bounds(root: Value, feeds: dict[str, np.ndarray]) -> Bounded:
    """The results that kernels may compute in float32."""
    results: dict[Value, Bounded] = {}
    for v in walk([root]):
        is_param = isinstance(v.op, Param)
        results[v] = (
            exact(feeds[v.op.name], v.dtype)
            if is_param
            else bounded(v, tuple(results[a] for a in v.args), {})
        )
    return results[root]


def in_range(root: Value, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The elements for which no intermediate value or partial sum exceeds float32."""
    results: dict[Value, np.ndarray] = {}
    for v in walk([root]):
        if isinstance(v.op, Param):
            results[v] = widen(feeds[v.op.name], v.dtype)
            continue
        args = [results[a] for a in v.args]
        built = compute(v, args, {})
        if is_float(v.dtype):
            sizes = [np.where(np.isfinite(a), np.abs(a), 0) if a.dtype.kind == "f" else a for a in args]
            sums = isinstance(v.op, Contract) or (isinstance(v.op, Reduce) and v.op.fn == "sum")
            most = compute(v, sizes, {}) if sums else np.abs(built)
            built = np.where(most > np.finfo(np.float32).max, np.copysign(np.inf, built), built)
        results[v] = built
    return results[root]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_rule_holds_for_numbers_of_every_size(rule):
    """Where float32 represents all intermediate values before the rule, it does after it, and both agree."""
    for seed in sample(range(300), 5):
        value, built, _ = applied(rule, seed)
        rng = random.Random(seed)
        feeds = {v.op.name: whole_range(v, rng) for v in walk([value]) if isinstance(v.op, Param)}
        before, after = with_bounds(value, feeds), with_bounds(built, feeds)
        with np.errstate(all="ignore"):
            a, b = np.asarray(before.array, np.float64), np.asarray(in_range(built, feeds), np.float64)
            allowed = before.error + np.where(np.isfinite(after.error), after.error, 0.0)
            agree = (a == b) | ((a != a) & (b != b)) | (np.abs(a - b) <= allowed + rule.tolerance * np.abs(a))
        wrong = np.isfinite(before.error) & ~agree
        assert not wrong.any(), (feeds, a[wrong], b[wrong])


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_rule_is_applied_wherever_its_example_stands(rule):
    value = rule.example(random.Random(1).randrange)
    graph = Graph((), (("y", value),))
    assert rewrite(graph, RULES).outputs[0][1] != value


@pytest.mark.parametrize("wide", TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("narrow", TYPES, ids=lambda t: t.name)
def test_a_type_that_holds_another_keeps_all_its_values(narrow, wide):
    if not holds(wide, narrow):
        return
    if narrow is DataType.BOOL:
        every = np.array([False, True])
    elif narrow in (DataType.FLOAT, DataType.INT32, DataType.INT64):
        every = special_of(narrow)
    else:
        size = numpy_dtype(narrow).itemsize * 8
        raw = np.arange(1 << size, dtype=np.uint16 if size == 16 else np.uint8)
        with np.errstate(all="ignore"):
            every = cast(raw.view(numpy_dtype(narrow)).astype(np.float64), narrow)
    assert bits(cast(cast(every, wide), narrow)) == bits(every)


def special_of(t: DataType) -> np.ndarray:
    if is_float(t):
        with np.errstate(all="ignore"):
            return cast(np.array(SPECIAL), t)
    limits = np.iinfo(numpy_dtype(t))
    return np.array([limits.min, -1, 0, 1, 2**24 + 1, limits.max], numpy_dtype(t))


def test_documents_say_where_rules_lose_digits():
    text = (Path(__file__).parents[2] / "docs/architecture.md").read_text()
    assert [r.name for r in RULES if r.range and f"| {r.name} | {r.range} |" not in text] == []


@pytest.mark.parametrize("scale", [1.5, -3.0, 2.0**16])
def test_no_factor_is_scaled_out_of_the_range_of_its_type(scale):
    """The smaller factor may hold 3e38 where the larger one, which is scaled, holds 1."""
    x, k = b.param("x", (1, 1, 5), DataType.FLOAT), b.param("k", (1, 7, 5), DataType.FLOAT)
    y = b.contract("bik,bjk->bij", x, b.map_("mul", k, b.scalar(scale, k)))
    assert isinstance({r.name: r for r in RULES}["scale of the larger factor of a product"].apply(y), Fail)


def test_a_guard_says_why_it_rejects():
    by_name = {r.name: r for r in RULES}
    value = by_name["cast to the same type"].example(random.Random(0).randrange)
    assert by_name["identity"].apply(value) == Fail("another pattern")


def test_weights_of_one_row_of_values_are_divided_where_they_are():
    """The product of one vector of weights and one of values is a scalar, which has no row to divide."""
    x = b.param("x", (5,), DataType.FLOAT)
    powers = b.map_("exp", b.map_("sub", x, b.reduce_("max", x, (0,))))
    y = b.contract("j,j->", b.map_("div", powers, b.reduce_("sum", powers, (0,))), x)
    assert rewrite(Graph((("x", x),), (("y", y),)), [LATE_DIVISION]).outputs == (("y", y),)


def test_weights_of_a_softmax_are_found_whichever_object_stands_for_a_value():
    x, v = (b.param(n, (2, 5, 5), DataType.FLOAT) for n in "xv")
    powers = b.map_("exp", b.map_("sub", x, b.reduce_("max", x, (2,))))
    total = b.reduce_("sum", Value(powers.node), (2,))  # as nodes of another network hold it
    y = b.contract("bij,bjk->bik", b.map_("div", powers, total), v)
    assert rewrite(Graph((("x", x), ("v", v)), (("y", y),)), [LATE_DIVISION]).outputs != (("y", y),)


@pytest.mark.parametrize(
    ("least", "limit", "expected"), [(0, None, 0), (0, 1.0, 0), (1, None, 0), (0, -1.0, 1)]
)
def test_weights_of_no_keys_have_zeros_as_their_product(least, limit, expected):
    """`expected`: the number of quotients that stay, because their sum may be 0 or less."""
    keys = Sym("x.1", least, 9)
    x, v = b.param("x", (2, keys.dim), DataType.FLOAT), b.param("v", (keys.dim, 3), DataType.FLOAT)
    powers = b.map_("exp", b.map_("sub", x, b.reduce_("max", x, (1,))))
    total = b.reduce_("sum", powers, (1,))
    total = total if limit is None else b.map_("max", total, b.scalar(limit, total))
    y = b.contract("ij,jk->ik", b.map_("div", powers, total), v)
    result = rewrite(Graph((("x", x), ("v", v)), (("y", y),), {}, (Symbol(keys, "x", 1),)), [LATE_DIVISION])
    ((_, actual),) = result.outputs
    assert (actual == y) == bool(expected)
    for n in range(least, 3):
        feeds = {"x": np.ones((2, n), np.float32), "v": np.ones((n, 3), np.float32)}
        assert (interpret(result, feeds)["y"] == (1.0 if n else 0.0)).all()


def test_of_a_cache_and_a_query_the_query_is_scaled():
    q, k = b.param("q", (2, 1, 8), DataType.FLOAT), b.param("k", (2, 50, 8), DataType.FLOAT)
    scaled = [b.map_("mul", x, b.scalar(0.35, x)) for x in (q, k)]
    result = simplify(Graph((("q", q), ("k", k)), (("y", b.contract("bik,bjk->bij", *scaled)),)))
    ((_, y),) = result.outputs
    assert y.args[1] == k
    assert y.args[0] != q
    feeds = {n: np.random.default_rng(0).random(x.shape, np.float32) for n, x in (("q", q), ("k", k))}
    expected = np.einsum("bik,bjk->bij", feeds["q"] * 0.1225, feeds["k"])
    np.testing.assert_allclose(interpret(result, feeds)["y"], expected, rtol=1e-5)


@pytest.mark.parametrize("places", [[1], [0, 2], [3, 2, 1], [0, 1, 3], [2, 2], []])
def test_elements_at_known_positions_are_slices_where_these_go_in_steps(places):
    x = b.param("x", (4, 3), DataType.FLOAT)
    at = b.const(np.array(places, np.int64).reshape(-1, 1), DataType.INT64)
    result = simplify(Graph((("x", x),), (("y", b.gather(x, b.expand(at, (len(places), 3)), 0)),)))
    ((_, y),) = result.outputs
    assert isinstance(y.op, Gather) == (places in ([0, 1, 3], [2, 2], []))
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert (interpret(result, {"x": values})["y"] == values[np.array(places, int)]).all()
