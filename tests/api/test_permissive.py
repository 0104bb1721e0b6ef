"""Each behaviour that TensorRT rejects: a warning, an error on request, and a row in the docs."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import anyrt as trt
from anyrt.api.building.permissive import FLOAT64, INTEGERS, MEMBER, OPERANDS, PERMISSIONS, PROFILE, TYPE
from anyrt.core.errors import NotSupportedError

DOCS = Path(__file__).parents[2] / "docs/differences.md"


def profile(network):
    x = network.add_input("x", trt.float32, (-1, 2))
    return network.add_identity(x)


def float64(network):
    return network.add_constant((2,), np.zeros(2))


def types(network):
    return network.add_identity(network.add_input("x", trt.DataType.INT16, (2,)))


def member(network):
    x = network.add_input("x", trt.int32, (2,))
    return network.add_elementwise(x, x, trt.ElementWiseOperation.BIT_AND)


def integers(network):
    x = network.add_input("x", trt.int32, (2, 2))
    return network.add_matrix_multiply(x, trt.MatrixOperation.NONE, x, trt.MatrixOperation.NONE)


def operands(network):
    x = network.add_input("x", trt.float32, (2, 2))
    return network.add_einsum([x], "ii->i")


CASES = {
    PROFILE: profile,
    FLOAT64: float64,
    TYPE: types,
    MEMBER: member,
    INTEGERS: integers,
    OPERANDS: operands,
}


class Lines(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.warnings = []

    def log(self, severity, msg):
        if severity is trt.ILogger.WARNING:
            self.warnings.append(msg)


def build(make, network=None):
    log = Lines()
    builder = trt.Builder(log)
    network = builder.create_network(0)
    network.mark_output(make(network).get_output(0))
    return log, builder.build_serialized_network(network, builder.create_builder_config())


def test_every_permission_has_a_case_and_a_row_in_the_docs():
    assert list(CASES) == [*PERMISSIONS]
    text = DOCS.read_text()
    for permission in PERMISSIONS:
        assert f"| {permission.title} | {permission.condition} | {permission.do} |" in text


@pytest.mark.parametrize("permission", PERMISSIONS, ids=lambda p: p.title)
def test_a_build_warns_once(permission):
    log, plan = build(CASES[permission])
    assert plan is not None
    (messages,) = [w for w in log.warnings if "TensorRT would reject this network" in w]
    assert "ANYRT_LIKE_TENSORRT=1" in messages


@pytest.mark.parametrize("permission", PERMISSIONS, ids=lambda p: p.title)
def test_the_switch_makes_it_an_error_with_the_condition(permission, monkeypatch):
    monkeypatch.setenv("ANYRT_LIKE_TENSORRT", "1")
    with trt.strict(), pytest.raises(NotSupportedError, match="AR905") as caught:
        build(CASES[permission])
    assert permission.condition in str(caught.value)


def test_no_warning_for_arguments_that_tensorrt_accepts(monkeypatch):
    monkeypatch.setenv("ANYRT_LIKE_TENSORRT", "1")
    log, plan = build(lambda n: n.add_softmax(n.add_input("x", trt.float32, (2, 2))))
    assert plan is not None
    assert log.warnings == []


def test_models_are_loaded_without_a_word(monkeypatch, tmp_path, capfd):
    x, y = (helper.make_tensor_value_info(n, 11, ["n"]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    for value in ("0", "1"):
        monkeypatch.setenv("ANYRT_LIKE_TENSORRT", value)
        assert trt.load(model).run({"x": np.float64([-1])})["y"] == [1]
    assert "TensorRT" not in capfd.readouterr().err
