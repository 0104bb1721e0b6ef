"""The values of a contraction that are stored."""

from anyrt.core.enums import DataType
from anyrt.ir.graph import Type, apply, walk
from anyrt.ops._quantized import codes
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.contract import Contract
from anyrt.schedule.narrowest import narrowest

FLOAT, INT8, INT32 = DataType.FLOAT, DataType.INT8, DataType.INT32


def coded():
    """Sums of products of codes, and the codes quantized from them."""
    x, w = (apply(Param(n, Type((8, 8), INT8))) for n in "xw")
    sums = apply(Contract((0, 1), (1, 2), (0, 2), INT32), x, w)
    return sums, codes(b.map_("mul", b.cast(sums, FLOAT), b.scalar(0.5, b.cast(sums, FLOAT))), INT8)


def narrowest_of(*outputs):
    order = list(walk(outputs))
    readers = {v: [] for v in order}
    for v in order:
        for a in v.args:
            readers[a].append(v)
    return narrowest(order, readers)


def test_codes_are_stored_and_not_values_computed_from_them():
    sums, q = coded()
    y = b.map_("mul", b.cast(q, FLOAT), b.scalar(0.5, b.cast(q, FLOAT)))
    built = narrowest_of(y)
    assert (built[q], built[y]) == (q, q)
    assert sums not in built


def test_sums_that_others_read_are_stored_as_they_are():
    sums, q = coded()
    assert narrowest_of(q, b.reduce_("sum", sums, (0,))) == {}


def test_a_value_of_two_contractions_belongs_to_neither():
    _, p = coded()
    x, w = (apply(Param(n, Type((8, 8), INT8))) for n in "xv")
    other = b.cast(apply(Contract((0, 1), (1, 2), (0, 2), INT32), x, w), INT8)
    y = b.map_("min", b.cast(p, FLOAT), b.cast(other, FLOAT))
    built = narrowest_of(y)
    assert (built[p], built[other]) == (p, other)
    assert y not in built


def test_floats_of_a_product_are_no_narrower():
    x, w = (apply(Param(n, Type((8, 8), FLOAT))) for n in "xw")
    assert narrowest_of(b.map_("abs", apply(Contract((0, 1), (1, 2), (0, 2), FLOAT), x, w))) == {}
