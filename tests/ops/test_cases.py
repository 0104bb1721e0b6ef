"""Cases of every operator: the interpreted expansion compared with the operator's own reference.

The daily run has all cases, except for a few operators with slow references, for which it has a cover
(telling.py).
"""

import numpy as np
import pytest

from anyrt.core.counts import counts
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import LayerType
from anyrt.core.errors import AnyrtError
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.ops import ALL_OPS
from anyrt.ops._cases import all_mistakes, case_graph, case_run, differences, operands
from tests.ops.telling import telling

SLOW = {LayerType.GRID_SAMPLE, LayerType.MOE, LayerType.NMS, LayerType.POOLING, LayerType.RESIZE}
MISTAKES = [pytest.param(op, m, id=f"{op.layer.name}-{m.code}-{m.why}") for op, m in all_mistakes()]


def broken(graph: Graph, sizes: dict[str, int]) -> list[str]:
    """The codes of the requirements that do not hold for these dimensions, except data-dependent ones."""
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
    for case in telling(op) if op.layer in SLOW else op.cases():
        run = case_run(op, case, dynamic)
        assert not broken(run.graph, run.sizes), case
        with np.errstate(all="ignore"):
            got = interpret(run.graph, run.feeds, run.sizes)
        wrong += [(case, line) for line in differences(run, got)]
    assert not wrong


def deciding(op, of):
    """The cases or mistakes in which the elements of an operand determine dimensions."""
    places = [k for k in range(len(op.inputs)) if op.operand(k).shape_values and not op.operand(k).build_time]
    return [x for x in of if any(len(x.shapes) > k and x.shapes[k] is not None for k in places)]


DECIDING = [op for op in ALL_OPS if deciding(op, op.cases())]
REFUSED = [p for p in MISTAKES if p.values[1].dynamic and deciding(p.values[0], [p.values[1]])]


@pytest.mark.parametrize("op", DECIDING, ids=lambda op: op.layer.name)
def test_sizes_that_runs_alone_find_give_the_same(op):
    wrong = []
    for case in deciding(op, op.cases()):
        if not case.static_only:
            run = case_run(op, case, dynamic=True, followed=False)
            with np.errstate(all="ignore"):
                got = interpret(run.graph, run.feeds, run.sizes)
            wrong += [(case, line) for line in differences(run, got)]
    assert not wrong


@pytest.mark.parametrize(("op", "mistake"), REFUSED)
def test_mistakes_that_runs_alone_find_are_rejected(op, mistake):
    arrays = operands(op, mistake)
    graph, sizes = case_graph(op, mistake, True, arrays, followed=False)
    feeds = {name: arrays[int(name[1:])].astype(numpy_dtype(v.dtype)) for name, v in graph.inputs}
    tells = Graph(graph.inputs, graph.outputs[1:], symbols=graph.symbols)
    try:
        results = {name: int(x) for name, x in interpret(tells, feeds, sizes).items()}
    except AnyrtError as error:
        refused = [error.code]
    else:
        every = walk([graph.outputs[0][1]])
        rules = [r for v in every for r in v.op.requires([a.type for a in v.args], "layer")]
        refused = [r.code for r in rules if not r.holds({**sizes, **results})]
    assert mistake.code in refused


@pytest.mark.parametrize(("op", "mistake"), MISTAKES)
def test_mistake_is_rejected_by_code_and_layer(op, mistake):
    try:
        graph, sizes = case_graph(op, mistake, mistake.dynamic, operands(op, mistake))
        results = [(code, "layer") for code in broken(graph, sizes)] if mistake.dynamic else []
    except AnyrtError as error:
        results = [(error.code, error.where)] if error.got and error.wanted and error.do else []
    assert (mistake.code, "layer") in results
