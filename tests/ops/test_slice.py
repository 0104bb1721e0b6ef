"""Forms of Slice that the derived cases cannot show."""

import numpy as np
import pytest

from anyrt.core.enums import DataType, SampleMode
from anyrt.core.enums import LayerType as L
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.ops import OPS
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import Layer
from anyrt.prims.build import const, param


def filled(number, dtype):
    x = param("x", (2,), dtype)
    attrs = OPS[L.SLICE].attrs((-1,), (4,), (1,), SampleMode.FILL)
    fill = const(np.array(number), dtype)
    y = expand_layer(OPS[L.SLICE], Layer("layer", attrs, (x, None, None, None, fill)))[0]
    return y, interpret(Graph((("x", x),), (("y", y),)), {"x": np.array([1, 2])}, {})["y"]


def test_constant_fill_becomes_the_border_of_one_pad():
    y, array = filled(7.5, DataType.FLOAT)
    assert array.tolist() == [7.5, 1.0, 2.0, 7.5]
    assert [type(v.op).__name__ for v in walk([y])] == ["Param", "Pad"]


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (2**53 + 1, DataType.INT64),
        (-(2**63), DataType.INT64),
        (-0.0, DataType.FLOAT),
        (np.nan, DataType.FLOAT),
    ],
)
def test_any_constant_fill_arrives_unchanged(number, dtype):
    _, array = filled(number, dtype)
    np.testing.assert_array_equal(array[[0, 3]], np.array([number, number], array.dtype))
    assert np.signbit(array[0]) == np.signbit(array.dtype.type(number))
