"""A layer as its record describes it: added by its method with the attributes of a case, read back, and
computed.

Hand-written cases cover most operators; those have no case here, except for a few, so that the test for new
operators is itself tested."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.enums import LayerType
from anyrt.ops import OPS
from anyrt.ops._cases import case_run, dtype_of
from tests.api import test_add_methods as methods
from tests.api import test_layer_attributes as attributes

ALWAYS = {LayerType.UNARY, LayerType.SOFTMAX, LayerType.ACTIVATION}


def is_left(op):
    """Whether a method or an attribute of an operator has no hand-written case."""
    own = {(op.owner, spec.name) for spec in op.specs() if spec.name not in attributes.OTHERS}
    adds = {method.name for method in op.methods if op.outputs} - methods.OTHERS
    return not (own <= set(attributes.CASES) and adds <= set(methods.CASES))


LEFT = [op for op in OPS.values() if op.layer in ALWAYS or is_left(op)]


def added(net, op, case):
    """The layer of a case, and its attributes by name."""
    method, values = op.methods[0], {spec.name: getattr(case.attrs, spec.name) for spec in op.specs()}
    named = zip((i.name for i in op.inputs), case.shapes, strict=True)
    inputs = {
        name: net.add_input(f"x{i}", dtype_of(case, i), shape)
        for i, (name, shape) in enumerate(named)
        if shape is not None
    }
    renamed = dict(method.renamed)
    layer = getattr(net, method.name)(**{p: (inputs | values)[renamed.get(p, p)] for p in method.params})
    for name in values.keys() - {renamed.get(p, p) for p in method.params}:
        setattr(layer, name, values[name])
    return layer, values


@pytest.mark.parametrize("op", LEFT, ids=lambda op: op.layer.name)
def test_layer_of_a_record_has_its_class_reads_back_and_computes(op, log):
    case = op.cases()[0]
    builder = trt.Builder(log)
    net = builder.create_network()
    layer, values = added(net, op, case)
    assert (type(layer), layer.num_outputs) == (getattr(trt, op.owner), len(op.outputs))
    assert {name: getattr(layer, name) for name in values} == values
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(net, builder.create_builder_config())
    run = case_run(op, case, False)
    got = engine.run(**run.feeds)["y"]
    np.testing.assert_allclose(got, run.expected[0], rtol=1e-5, atol=1e-5)
