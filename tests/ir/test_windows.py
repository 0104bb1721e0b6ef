"""Windows of convolutions and pooling."""

from anyrt.core.dims import Sym, add, minimum, mul
from anyrt.ir.windows import together

A, B, C = (Sym(name, extent=9) for name in "ijk")


def test_an_index_that_several_loops_move_lies_in_a_window():
    assert together(add(mul(2, A.dim), C.dim), (A, B, C)) == (0, 2)
    assert together(minimum(A.dim, add(B.dim, 3)), (A, B, C)) == (0, 1)


def test_an_index_that_one_loop_moves_lies_in_none():
    assert together(add(mul(2, A.dim), 5), (A, B, C)) == ()
