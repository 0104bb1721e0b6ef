"""The number of lanes of a vector."""

from anyrt.core.dims import Sym
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import Store, cast, index, load
from anyrt.ir.statements import lanes_for

N = Sym("n", extent=64)
X = Buffer("x", Scalar.F32, Space.ARENA, 64)


def test_the_widest_type_fills_a_vector_unless_little_is_computed_in_64_bits():
    count, x = index(N.dim), load(X, N.dim)
    words = count * count + count * 3
    numbers = (x * x + x) * x - x
    assert lanes_for((Store(X, N.dim, x + 1.0),), 512) == 16
    assert lanes_for((Store(X, N.dim, cast(words, Scalar.F32)),), 512) == 8
    assert lanes_for((Store(X, N.dim, cast(words, Scalar.F32) * (numbers * x)),), 512) == 16
