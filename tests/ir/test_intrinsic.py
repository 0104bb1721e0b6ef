"""The semantics of intrinsics: their texts compared with NumPy, and their names in kernels."""

import ml_dtypes
import numpy as np
import pytest

from anyrt.backends.cpu.intrinsics import INTRINSICS
from anyrt.core.dims import Sym
from anyrt.core.errors import PlanError
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.evaluate import evaluate
from anyrt.ir.kernel import For, Kernel, Loop, Store, alu, load
from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kerneltext import print_kernels
from tests.messages import diagnostic

I = Sym("i", extent=64)  # noqa: E741 - a loop
A, B = (Buffer(name, Scalar.I32, Space.INPUT, 64) for name in "ab")
TERMS = {Scalar.I8: np.int8, Scalar.U8: np.uint8, Scalar.I16: np.int16, Scalar.BF16: ml_dtypes.bfloat16}
TOTALS = {Scalar.I32: np.int32, Scalar.F32: np.float32}


@pytest.mark.parametrize("x", INTRINSICS, ids=lambda x: x.name)
def test_a_text_sums_the_products_of_the_terms_of_two_words(x):
    rng, wide = np.random.default_rng(0), TOTALS[x.total]
    sides = [rng.integers(-128, 128, (64, x.parts)).astype(TERMS[t]) for t in (x.first, x.second)]
    words = {b: terms.view(np.int32)[:, 0] for b, terms in zip("ab", sides, strict=True)}
    actual = evaluate(alu(x, load(A, I.dim), load(B, I.dim)), words, {"i": np.arange(64)})
    expected = (sides[0].astype(wide) * sides[1].astype(wide)).sum(1, dtype=wide)
    assert (actual.dtype, actual.tolist()) == (expected.dtype, expected.tolist())


def test_texts_name_the_intrinsics_that_their_reader_knows():
    y, x = Buffer("y", Scalar.I32, Space.OUTPUT, 64), INTRINSICS[1]
    body = For(I, Loop.VECTOR, (Store(y, I.dim, alu(x, load(A, I.dim), load(B, I.dim))),))
    text = print_kernels([kernel := Kernel("k", Sym("p", extent=1), (body,), 64)])
    assert parse_kernels(text, intrinsics=INTRINSICS) == (kernel,)
    with pytest.raises(PlanError, match=diagnostic("AR605", "kernels, line 6", "'dot4'")):
        parse_kernels(text)
    with pytest.raises(PlanError, match=diagnostic("AR607", "kernels, line 6", "dot4", "(i32)")):
        parse_kernels(text.replace("dot4(a[i], b[i])", "dot4(a[i])"), intrinsics=INTRINSICS)
