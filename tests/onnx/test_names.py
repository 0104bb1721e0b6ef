"""The ONNX names in layers are those that the parser supports."""

import pytest
from onnx import defs

from anyrt.onnx import importers
from anyrt.onnx.functions import is_function
from anyrt.onnx.node import importer_of
from anyrt.ops import ALL_OPS

NAMES = sorted({name for op in ALL_OPS for name in op.onnx})


@pytest.mark.parametrize("name", NAMES)
def test_every_name_that_a_layer_carries_is_described(name):
    importers.load()
    described = importer_of(("", name)) or is_function(("", name), defs.onnx_opset_version())
    assert described, f"no importer of {name}"
