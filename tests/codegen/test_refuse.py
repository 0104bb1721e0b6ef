"""Constructs of the kernel language that the LLVM backend does not support raise errors that name them."""

import pytest

from anyrt.backends.cpu.emit import emit
from anyrt.core.dims import Sym
from anyrt.core.errors import NotSupportedError
from anyrt.core.machine import REFERENCE
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import (
    Alloc,
    Barrier,
    Fold,
    For,
    Kernel,
    Let,
    Loop,
    MultiReduction,
    Op,
    bound,
    const,
    load,
)
from anyrt.ir.kernelrules import kernel_faults

P, I = Sym("p", extent=2), Sym("i", extent=8)  # noqa: E741 - loop variables
T = Sym("t", extent=4)
N = Sym("n", extent=I.dim + 1)
COUNTS = Buffer("counts", Scalar.I32, Space.INPUT, 8)
TAKEN = Sym("m", extent=bound(load(COUNTS, I.dim), 0, 9, "count"))
ACC = Buffer("acc", Scalar.F32, Space.REGISTER)
OTHER = Buffer("acc.o", Scalar.F32, Space.REGISTER)
ZERO = const(0.0, Scalar.F32)


@pytest.mark.parametrize(
    "body",
    [
        [Alloc(ACC, ZERO), MultiReduction((ACC,), (ZERO,), (ZERO,), (OTHER,), (ZERO,))],
        [For(I, Loop.BLOCK, (For(T, Loop.THREAD, (Barrier(),)),))],
        [For(I, Loop.VECTOR, (Let(T, I.dim // 2),))],
        [For(I, Loop.VECTOR, (For(T, Loop.VECTOR, ()),))],
        [For(I, Loop.VECTOR, (For(T, Loop.SERIAL, (For(N, Loop.SERIAL, ()),)),))],
        [For(I, Loop.VECTOR, (For(TAKEN, Loop.SERIAL, ()),))],
        [Alloc(ACC, ZERO), For(I, Loop.VECTOR, (Fold(ACC, Op.ADD, ZERO),), 2)],
    ],
    ids=["fold of several", "block", "let", "vector", "length", "length by memory", "vectors of 2"],
)
def test_code_that_cannot_be_written_yet_is_rejected(body, golden_text):
    kernel = Kernel("k", P, tuple(body))
    assert list(kernel_faults(kernel)) == []
    with pytest.raises(NotSupportedError) as caught:
        emit(kernel, REFERENCE)
    golden_text(caught.value)
