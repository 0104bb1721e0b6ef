"""Requirements of a graph on dimensions reach the plan through all passes."""

from dataclasses import replace

import numpy as np
import pytest

from anyrt.compiler.request import BuildRequest, Settings, Verify
from anyrt.compiler.settled import settled
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.graph import Graph, Symbol, apply
from anyrt.plan.file import read_plan
from anyrt.plan.plan import Range
from anyrt.prims import build as b
from anyrt.prims.checked import Checked
from tests.messages import diagnostic
from tests.native import build


def test_a_condition_survives_the_passes_that_drop_what_carries_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    n = Sym("x.0", 1, 8)
    x = b.param("x", (n.dim,), DataType.FLOAT)
    rule = Requirement(n.dim, Relation.LE, 5, "AR114", "slice1", "slice less")
    graph = Graph((("x", x),), (("y", apply(Checked((rule,)), x)),), {}, (Symbol(n, "x", 0),))
    plan = read_plan(build(BuildRequest("net", graph, ((Range("x", False, (1,), (4,), (8,)),),)))).plan
    assert plan.requirements == (rule,)


def product(left, right, *ranges):
    """A request for a product of inputs with these dimensions, and a product of the result and a constant of
    15 rows."""
    a, c = b.param("a", left, DataType.FLOAT), b.param("c", right, DataType.FLOAT)
    weights = b.const(np.ones((15, 8)), DataType.FLOAT)
    y = b.contract("mk,kn->mn", b.contract("mk,kn->mn", a, c), weights)
    sizes = ((d, name, axis) for name, v in (("a", a), ("c", c)) for axis, d in enumerate(v.shape))
    symbols = tuple(Symbol(s, name, axis) for d, name, axis in sizes for s in SIZES if d == s.dim)
    profile = tuple(Range(name, False, *shapes) for name, shapes in zip("ac", ranges, strict=True))
    return BuildRequest("net", Graph((("a", a), ("c", c)), (("y", y),), {}, symbols), (profile,))


SIZES = M, K, L, N = Sym("m", 1, 9), Sym("k", 0, 64), Sym("l", 2, 64), Sym("n", 0, 64)
OPEN = product((M.dim, K.dim), (L.dim, N.dim), ((1, 2), (5, 7), (9, 64)), ((2, 9), (7, 16), (64, 64)))


def test_a_size_is_the_number_or_the_other_size_that_it_can_only_be():
    request = settled(OPEN)
    assert dict(request.implied) == {K: L.dim, N: 15}
    assert [v.shape for _, v in request.graph.inputs] == [(M.dim, L.dim), (L.dim, 15)]
    assert [x.shape for x in request.bindings] == [(M.dim, K.dim), (L.dim, N.dim), (M.dim, 8)]
    assert request.sizes(0, 1) == {"m": 5, "k": 7, "l": 7, "n": 15}


def test_kernels_are_verified_at_sizes_that_are_implied(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    plan = read_plan(build(replace(OPEN, settings=Settings(verify=Verify.FULL)))).plan
    assert "verified at 3 shapes" in plan.report


def test_sizes_that_weights_contradict_are_rejected_when_built():
    rows, columns = ((1, 16), (5, 16), (9, 16)), ((2, 2), (7, 7), (64, 64))
    with pytest.raises(ShapeError, match=diagnostic("AR112", "contract", 16, 15)):
        settled(product((M.dim, 16), (L.dim, L.dim), rows, columns))
