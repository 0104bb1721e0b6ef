"""Every case of every operator: the expansion, interpreted, against the operator's own reference."""

import numpy as np
import pytest

from anyrt.core.counts import counts
from anyrt.core.errors import AnyrtError
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.ops import ALL_OPS
from anyrt.ops._cases import all_mistakes, case_graph, case_run, differences, operands

MISTAKES = [pytest.param(op, m, id=f"{op.layer.name}-{m.code}-{m.why}") for op, m in all_mistakes()]


def broken(graph: Graph, sizes: dict[str, int]) -> list[str]:
    """The codes of the requirements that do not hold for these sizes, but for those that data decide."""
    rules = (
        rule
        for value in walk(v for _, v in graph.outputs)
        for rule in value.op.requires(tuple(a.type for a in value.args), "layer")
    )
    return [r.code for r in rules if not (counts(r.left) | counts(r.right) or r.holds(sizes))]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("op", ALL_OPS, ids=lambda op: op.layer.name)
def test_expansion_agrees_with_reference(op, dynamic):
    wrong = []
    for case in op.cases():
        run = case_run(op, case, dynamic)
        assert not broken(run.graph, run.sizes), case
        with np.errstate(all="ignore"):
            got = interpret(run.graph, run.feeds, run.sizes)
        wrong += [(case, line) for line in differences(run, got)]
    assert not wrong


@pytest.mark.parametrize(("op", "mistake"), MISTAKES)
def test_mistake_is_refused_by_code_and_layer(op, mistake):
    try:
        graph, sizes = case_graph(op, mistake, mistake.dynamic, operands(op, mistake))
        found = [(code, "layer") for code in broken(graph, sizes)] if mistake.dynamic else []
    except AnyrtError as error:
        found = [(error.code, error.where)] if error.got and error.wanted and error.do else []
    assert (mistake.code, "layer") in found
