"""What a graph asks of its sizes reaches the plan, whatever passes make of the graph."""

from anyrt.compiler.driver import build
from anyrt.compiler.request import BuildRequest
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.graph import Graph, Symbol, apply
from anyrt.plan.file import read_plan
from anyrt.plan.plan import Range
from anyrt.prims import build as b
from anyrt.prims.checked import Checked


def test_a_condition_survives_the_passes_that_drop_what_carries_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    n = Sym("x.0", 1, 8)
    x = b.param("x", (n.dim,), DataType.FLOAT)
    rule = Requirement(n.dim, Relation.LE, 5, "AR114", "slice1", "slice less")
    graph = Graph((("x", x),), (("y", apply(Checked((rule,)), x)),), {}, (Symbol(n, "x", 0),))
    plan = read_plan(build(BuildRequest("net", graph, ((Range("x", False, (1,), (4,), (8,)),),)))).plan
    assert plan.requirements == (rule,)
