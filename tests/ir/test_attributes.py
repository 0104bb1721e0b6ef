"""Attributes: dimensions are found and replaced at any depth, and nothing else."""

import numpy as np

from anyrt.core.dims import Sym
from anyrt.core.dimvalues import substitute
from anyrt.core.enums import DataType, SampleMode
from anyrt.ir.attributes import open_sizes, with_sizes
from anyrt.ir.graph import Type
from anyrt.prims.const import Blob, Const, Param
from anyrt.prims.taprules import Border
from anyrt.prims.taps import Taps
from anyrt.prims.view import Axis, View

N, M = Sym("n"), Sym("m")


def test_sizes_are_found_at_every_depth():
    view = View((N.dim, 4), (Axis(M - 1, 0, -1), Axis(0, 1)))
    assert set(open_sizes(view)) == {N.dim, M - 1}
    assert list(open_sizes(Taps(0, 4, Border(SampleMode.WRAP, M * 2, 1)))) == [M * 2]


def test_sizes_are_replaced_by_other_sizes():
    param = Param("x", Type((N.dim, 3), DataType.FLOAT))
    assert with_sizes(param, lambda x: substitute(x, {N: M * 2})) == Param(
        "x", Type((M * 2, 3), DataType.FLOAT)
    )


def test_a_value_without_dynamic_dimensions_stays_the_same_object():
    constant = Const(Blob(np.zeros(2, np.float32), DataType.FLOAT), (2,))
    assert with_sizes(constant, lambda _: 1) is constant
    assert not list(open_sizes(constant))
