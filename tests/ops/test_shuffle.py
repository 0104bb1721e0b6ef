"""Forms of Shuffle that the derived cases cannot show."""

import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import LayerType as L
from anyrt.ir.graph import walk
from anyrt.ops import OPS
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import Layer
from anyrt.prims.build import param


def shuffled(rank):
    """A tensor of `rank` dynamic axes, reshaped by a tensor with as many values, which may be 0 and -1."""
    x = param("x", tuple(Sym(f"x.{i}").dim for i in range(rank)), DataType.FLOAT)
    dims = param("dims", (rank,), DataType.INT64, tuple(Sym(f"d{i}", -1, 9) for i in range(rank)))
    return expand_layer(OPS[L.SHUFFLE], Layer("layer", OPS[L.SHUFFLE].attrs(), (x, dims)))[0]


@pytest.mark.parametrize("rank", [1, 2, 4, 8])
def test_sizes_of_unknown_signs_stay_short(rank):
    y = shuffled(rank)
    rules = [r for v in walk([y]) for r in v.op.requires(tuple(a.type for a in v.args), "layer")]
    assert all(len(d.terms) == 1 for d in y.shape)
    assert max(len(str(r.right)) for r in rules) < 1000 * rank


def test_dynamic_mistakes_are_found_before_the_volume_is_compared():
    y = shuffled(2)
    rules = [r for v in walk([y]) for r in v.op.requires(tuple(a.type for a in v.args), "reshape")]
    codes = [r.code for r in rules if not r.holds({"x.0": 3, "x.1": 4, "d0": -1, "d1": -1})]
    assert (codes[0], rules[0].where) == ("AR104", "layer")


def test_copied_size_that_is_given_too_stays_as_it_is():
    n = Sym("n", 0, 99).dim
    x = param("x", (n, 6), DataType.FLOAT)
    dims = param("dims", (2,), DataType.INT64, (Sym("n", 0, 99), Sym("d", -1, -1)))
    y = expand_layer(OPS[L.SHUFFLE], Layer("layer", OPS[L.SHUFFLE].attrs(), (x, dims)))[0]
    assert y.shape == (n, 6)
