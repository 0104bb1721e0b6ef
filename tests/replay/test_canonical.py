"""Canonical form: names do not matter, everything else does."""

import doctest

from anyrt.core.dims import Sym
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import For, Kernel, Loop, Store, load
from anyrt.ir.kerneltext import print_kernels
from tools.replays import canonical
from tools.replays.canonical import canonical_kernel


def kernel(outer, inner, name, shift=0, kind=Loop.VECTOR):
    i, j = Sym(outer, extent=8), Sym(inner, extent=16)
    x, y = (Buffer(f"{name}{n}", Scalar.F32, s, 128) for n, s in enumerate((Space.INPUT, Space.OUTPUT)))
    at = 16 * i.dim + j.dim
    body = (For(j, kind, (Store(y, at, load(x, at) + load(x, at + shift)),)),)
    return Kernel(name, i, body)


def test_names_of_variables_buffers_and_kernels_do_not_matter():
    same = {
        canonical_kernel(kernel(*names))
        for names in (("a", "b", "x"), ("b", "a", "f32"), ("i8", "add", "e0"))
    }
    assert len(same) == 1


def test_indices_and_kinds_of_loops_matter():
    different = (kernel("a", "b", "x"), kernel("a", "b", "x", 1), kernel("a", "b", "x", kind=Loop.SERIAL))
    assert len({canonical_kernel(k) for k in different}) == 3


def test_a_canonical_kernel_stays_as_it_is():
    once = canonical_kernel(kernel("z", "y", "x"))
    assert print_kernels([canonical_kernel(once)]) == print_kernels([once])


def test_the_example_holds():
    assert doctest.testmod(canonical).failed == 0
