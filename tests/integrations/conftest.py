"""Models for the batch engines and other servers."""

import socket

import pytest
from onnx import parser

NEG = '<ir_version: 10, opset_import: ["": 21]> g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }'
# For each row a number and a tensor of three axes, of types that tables lack: two inputs, two outputs.
WIDE = """<ir_version: 10, opset_import: ["": 21]>
g (bfloat16[n, 2, 2] a, uint8[n] b) => (bfloat16[n, 2, 2] twice, uint8[n] same)
{ twice = Add(a, a) same = Identity(b) }"""


def _written(text, place):
    place.write_bytes(parser.parse_model(text).SerializeToString())
    return place


@pytest.fixture(scope="session")
def neg(tmp_path_factory):
    return _written(NEG, tmp_path_factory.mktemp("models") / "neg.onnx")


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    return _written(WIDE, tmp_path_factory.mktemp("models") / "wide.onnx")


@pytest.fixture(scope="module")
def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
