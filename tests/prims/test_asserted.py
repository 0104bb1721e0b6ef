"""Data-dependent conditions, which each inference checks before it computes the values that depend
on them."""

import numpy as np
import pytest

from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError
from anyrt.core.machine import REFERENCE
from anyrt.core.requirement import FINE, Assertion
from anyrt.ir.graph import Graph, apply
from anyrt.ir.interpret import interpret
from anyrt.ir.program import print_module
from anyrt.ir.text import parse_graph, print_graph
from anyrt.passes import PASSES
from anyrt.plan.program import Program
from anyrt.prims import build as b
from anyrt.prims.asserted import Asserted
from anyrt.prims.chosen import Chosen
from anyrt.prims.table import named_blobs, vocabulary
from anyrt.schedule.cost import Sizes
from tests import native
from tests.messages import diagnostic
from tests.native import load, verify
from tests.targets import host

I64, RULE = DataType.INT64, Assertion("AR131", "cache", "position {}", "none below 0", "write inside")


def least(x):
    """FINE, or the least element if that is below 0."""
    low = b.reshape(b.reduce_("min", x, (0,)), ())
    return b.map_("select", b.map_("lt", low, b.scalar(0, low)), low, b.scalar(FINE, low))


def judged():
    """x + 1, for an x without elements below 0, and x · 2 for any."""
    x = b.param("x", (5,), I64)
    y = apply(Asserted(RULE), x, least(x))
    return Graph(
        (("x", x),), (("twice", b.map_("mul", x, b.scalar(2, x))), ("y", b.map_("add", y, b.scalar(1, y))))
    )


def trial(graph):
    low = native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE)
    return low, Trial(load(low, host()), {})


@pytest.mark.parametrize("values", [[0, 1, 2, 3, 4], [-1, 0, 5, -7, 2]])
def test_a_run_ends_where_a_condition_on_data_does_not_hold(values):
    low, run = trial(judged())
    (_, x), (_, y) = *low.graph.inputs, low.graph.outputs[1]
    run.write(low.schedule.buffers[x], np.array(values), I64)
    run.write(low.schedule.buffers[y], np.full(5, 99), I64)
    if min(values) < 0:
        with pytest.raises(ShapeError, match=diagnostic("AR131", "cache", -7, 0)):
            run.run()
        assert run.read(low.schedule.buffers[y], I64, (5,)).tolist() == [99] * 5
    else:
        run.run()
        assert run.read(low.schedule.buffers[y], I64, (5,)).tolist() == [1, 2, 3, 4, 5]


def graph_of(result):
    """x + 1 under a condition: a scalar input, or the result of a branch on it."""
    x, c = b.param("x", (5,), I64), b.param("c", (), I64)
    y = apply(Asserted(RULE), x, result(c))
    return Graph((("x", x), ("c", c)), (("y", b.map_("add", y, b.scalar(1, y))),))


def branch(c):
    """A scalar that equals c, returned by a branch if c is below 0."""
    e = b.param("e", (), I64)
    graphs = (Graph((("e", e),), (("o", o),)) for o in (e, b.map_("sub", e, b.scalar(1, e))))
    return apply(Chosen(*graphs), b.map_("lt", c, b.scalar(0, c)), c)


@pytest.mark.parametrize("result", [lambda c: c, branch])
@pytest.mark.parametrize("value", [FINE, -7])
def test_a_condition_that_no_kernel_makes_is_judged(result, value):
    low, run = trial(graph_of(result))
    (_, x), (_, c) = low.graph.inputs
    run.write(low.schedule.buffers[x], np.arange(5), I64)
    run.write(low.schedule.buffers[c], np.array(value), I64)
    if value == FINE:
        run.run()
        assert run.read(low.schedule.buffers[low.graph.outputs[0][1]], I64, (5,)).tolist() == [1, 2, 3, 4, 5]
    else:
        with pytest.raises(ShapeError, match=diagnostic("AR131", "cache", -7, 0)):
            run.run()


def test_the_host_program_says_what_is_judged():
    low, _ = trial(judged())
    assert sum(line.endswith(", or AR131") for line in print_module(low.module).splitlines()) == 1
    assert low.module.assertions == (RULE,)


def test_kernels_are_verified_whatever_random_data_say():
    low, _ = trial(judged())
    assert verify(low, host(), [{}]) == ()


def test_passes_and_texts_keep_conditions():
    graph = judged()
    for step in PASSES:
        graph = step.run(graph)
    words = vocabulary(named_blobs(graph))
    text = print_graph(graph, words)
    assert "Asserted(assertion=Assertion(" in text
    assert print_graph(parse_graph(text, words), words) == text


def test_the_interpreter_judges_too():
    assert interpret(judged(), {"x": np.arange(5)})["y"].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(ShapeError, match=diagnostic("AR131", "cache", -3, 0)):
        interpret(judged(), {"x": np.arange(5) - 3})


def test_conditions_known_to_be_false_are_rejected_while_building():
    x = b.param("x", (5,), I64)
    for number, fine in ((FINE, True), (-4, False)):
        graph = Graph((("x", x),), (("y", apply(Asserted(RULE), x, b.const(np.int64(number), I64))),))
        if fine:
            assert trial(graph)
        else:
            with pytest.raises(ShapeError, match=diagnostic("AR131", "cache", -4, 0)):
                trial(graph)


def test_only_numbers_judge_with_codes_that_there_are():
    x = b.param("x", (5,), I64)
    with pytest.raises(DTypeError, match="AR202"):
        apply(Asserted(RULE), x, x)
    with pytest.raises(ArgumentError, match="AR304"):
        apply(Asserted(Assertion("AR999", "", "", "", "")), x, least(x))


def test_programs_carry_assertions():
    program = Program((), 0, 0, 0, 0, (), (), assertions=(RULE,))
    assert Program.parse(program.as_json(), {}) == program
