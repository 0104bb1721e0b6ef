"""Constant factors packed in the order in which kernels read them."""

import sys

import numpy as np

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.passes.pack_constants import pack_constants
from anyrt.prims import build


def test_a_factor_may_end_a_chain_that_is_longer_than_python_recurses():
    """As the residual sums of a network with quantised layers do."""
    x = first = build.param("x", (4, 64), DataType.FLOAT)
    for k in range(2 * sys.getrecursionlimit()):
        x = build.map_("add", x, build.scalar(float(k), x))
    weights = build.const(np.ones((64, 64), np.float32), DataType.FLOAT)
    product = build.contract("mk,kn->mn", x, weights)
    ((_, packed),) = pack_constants(Graph((("x", first),), (("y", product),))).outputs
    assert packed.args[0] is x
    assert packed.args[1] is not weights
