"""Outputs of layers are rounded to their types."""

from dataclasses import replace

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, apply
from anyrt.ir.interpret import interpret
from anyrt.ops._cases import all_cases, case_run
from anyrt.passes import PASSES
from anyrt.passes.round_layers import rounded_outputs
from anyrt.prims import build as b
from anyrt.prims.pad import Pad
from anyrt.prims.reduce import Reduce
from anyrt.prims.scan import Scan
from anyrt.schedule.cost import Sizes
from tests import native

FLOAT, HALF, BF16 = DataType.FLOAT, DataType.HALF, DataType.BF16
X, Y = b.param("x", (2, 4), HALF), b.param("y", (4, 3), HALF)


def output(value, *operands):
    (result,) = rounded_outputs(operands or (X,), (value,))
    return result


def test_results_of_functions_are_rounded():
    assert output(b.map_("exp", X)) == b.map_("to_half", b.map_("exp", X))
    assert output(b.map_("add", X, X)) == b.map_("to_half", b.map_("add", X, X))


@pytest.mark.parametrize("fn", ["neg", "abs", "ceil", "sign"])
def test_functions_that_round_nothing_stay(fn):
    assert output(b.map_(fn, X)) == b.map_(fn, X)


def test_moves_stay():
    for value in (b.transpose(X, (1, 0)), b.reshape(X, (8,)), apply(Pad((1, 0), (0, 0), 0.5), X)):
        assert output(value) == value


def test_a_border_that_the_type_does_not_hold_is_rounded():
    value = apply(Pad((1, 0), (0, 0), 0.1), X)
    assert output(value) == b.map_("to_half", value)


def test_folds_are_rounded_where_they_compute():
    assert output(b.reduce_("max", X, (1,))) == b.reduce_("max", X, (1,))
    assert output(b.reduce_("sum", X, (1,))) == b.map_("to_half", b.reduce_("sum", X, (1,)))


def test_values_between_the_primitives_of_a_layer_are_float32():
    wide = b.cast(X, FLOAT)
    value = b.map_("mul", b.map_("exp", X), X)
    assert output(value) == b.map_("to_half", b.cast(b.map_("mul", b.map_("exp", wide), wide), HALF))
    total = apply(Reduce("sum", (1,)), b.map_("exp", X))
    assert output(total).args[0].args[0] == apply(Reduce("sum", (1,)), b.map_("exp", wide))


def test_a_result_of_another_type_is_made_of_float32():
    wide = b.map_("exp", b.cast(X, FLOAT))
    assert output(b.map_("lt", b.map_("exp", X), X)) == b.map_("lt", wide, b.cast(X, FLOAT))
    assert output(b.cast(b.map_("exp", X), FLOAT)) == wide


def test_factors_of_sums_of_products_have_the_type_that_the_layer_says():
    weights = b.cast(b.map_("exp", b.cast(X, FLOAT)), HALF)
    value = b.contract("ij,jk->ik", weights, Y)
    assert output(value, X, Y) == b.map_("to_half", b.contract("ij,jk->ik", b.map_("to_half", weights), Y))


def test_constants_that_are_cast_are_rounded():
    ones = b.cast(b.const([[0.1] * 4], FLOAT), HALF)
    assert output(b.map_("max", X, ones)) == b.map_("max", X, b.map_("to_half", ones))


def test_stores_are_rounded_by_the_interpreter_too():
    graph = Graph((("x", X),), (("y", b.map_("ceil", apply(Scan("sum", 1), X))),))
    assert graph.outputs[0][1] == output(graph.outputs[0][1])
    x = np.float16([[2048, 0.5, 0, 0]] * 2)
    assert interpret(graph, {"x": x})["y"].tolist() == [[2048] * 4] * 2


def test_layers_read_no_further_than_their_operands():
    operand = b.map_("exp", X)
    assert output(b.map_("neg", operand), operand) == b.map_("neg", operand)
    assert output(operand, operand) == operand


HALVES = [(op, case) for op, case in all_cases() if {HALF, BF16} & {*(case.dtypes or ())}]


def kernels(graph, sizes):
    for step in PASSES:
        graph = step.run(graph)
    return len(native.lower(graph, constant_offsets(graph), Sizes(sizes), machine=REFERENCE).module.kernels)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("op", "case"), HALVES, ids=[f"{op.title}-{i}" for i, (op, _) in enumerate(HALVES)])
def test_rounding_the_outputs_of_a_layer_needs_no_kernel_of_its_own(op, case):
    run = case_run(op, case, dynamic=False)
    names, outputs = zip(*run.graph.outputs, strict=True)
    built = rounded_outputs([v for _, v in run.graph.inputs], outputs)
    rounded = replace(run.graph, outputs=tuple(zip(names, built, strict=True)))
    assert kernels(rounded, run.sizes) == kernels(run.graph, run.sizes)
