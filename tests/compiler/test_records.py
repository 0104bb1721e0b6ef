"""The inspector's description of each step of a program."""

from anyrt.compiler.records import WAYS, kernel_records
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, apply
from anyrt.prims import build as b
from anyrt.prims.chosen import Chosen
from anyrt.schedule.cost import Sizes
from tests import native


def branch(fn):
    x = b.param("p", (4,), DataType.FLOAT)
    return Graph((("p", x),), (("made", b.map_(fn, x)),))


def test_a_condition_that_is_a_constant_has_a_tensor():
    x = b.param("x", (4,), DataType.FLOAT)
    y = apply(Chosen(branch("neg"), branch("abs"), "if"), b.const(False, DataType.BOOL), x)
    result = kernel_records(native.lower(Graph((("x", x),), (("y", y),)), {}, Sizes({})))
    (choice,) = (r for r in result if r.kind == WAYS)
    assert [(t.dtype, t.shape) for t in choice.inputs] == [(DataType.BOOL, ())]
