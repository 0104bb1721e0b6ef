"""Operators that map directly to a layer: attributes by name, words as enum members."""

from functools import partial

import numpy as np
import pytest
from onnx import helper

import anyrt as trt
from anyrt.core.enums import LayerType
from anyrt.core.errors import AnyrtError
from anyrt.onnx import importers, plain
from anyrt.onnx.node import IMPORTERS, importer_of
from anyrt.ops import OPS

X = np.float32([[-2, 0.5], [3, -1]])


def run(monkeypatch, layer, x=X, extra=(), **attributes):
    """The outputs of a node of AnyRT's domain for this layer."""
    importers.load()
    monkeypatch.setitem(IMPORTERS, ("own", "Made"), partial(plain._layer, OPS[layer]))
    node = helper.make_node("Made", ["x"], ["y"], domain="own", **attributes)
    value = [helper.make_tensor_value_info(n, 1, None if n == "y" else ["a", 2]) for n in "xy"]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return trt.load(helper.make_model(graph, opset_imports=sets)).run({"x": x})["y"]


def test_words_are_members_and_numbers_are_attributes(monkeypatch):
    y = run(monkeypatch, LayerType.ACTIVATION, type="clip", alpha=-1.0, beta=2.0)
    np.testing.assert_array_equal(y, np.clip(X, -1, 2))


def test_numbers_and_flags_are_parameters_of_the_method(monkeypatch):
    y = run(monkeypatch, LayerType.REDUCE, op="sum", axes=2, keep_dims=0)
    np.testing.assert_array_equal(y, X.sum(1))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"type": "clap"}, "type = 'clap'.*one of .*clip"),
        ({"type": "relu", "alfa": 1.0}, "attribute alfa.*one of .*alpha"),
        ({}, "add_activation"),
    ],
)
def test_attributes_that_a_layer_lacks_are_reported(monkeypatch, attributes, message):
    with pytest.raises(AnyrtError, match=message):
        run(monkeypatch, LayerType.ACTIVATION, **attributes)


def test_every_name_that_an_operator_states_is_described():
    importers.load()
    stated = {name.rpartition("::")[::2] for op in OPS.values() for name in op.onnx}
    assert [name for name in stated if importer_of(name) is None] == []
