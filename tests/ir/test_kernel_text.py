"""Kernels as text: printing and parsing returns an equal kernel; tampered text gives clean errors."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrt.core.dims import Dim, Sym, floordiv, minimum
from anyrt.core.enums import DataType
from anyrt.core.errors import PlanError
from anyrt.ir import kernel as k
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import Alloc, Barrier, Expr, Fold, For, If, Kernel, Let, Loop, MultiReduction, Op, Store
from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.visit import statements

N = Sym("n", 1, 64)
ROW, COL, BLOCK = Sym("i", extent=N.dim), Sym("j", extent=8), Sym("b 1", 0, 9, extent=minimum(N.dim, 9))
X, Y = (
    Buffer("x", DataType.FLOAT, Space.INPUT, N * 8),
    Buffer("my y", DataType.HALF, Space.OUTPUT, N * 8, N * 64),
)
ACC, POS = Buffer("acc", Scalar.F32, Space.REGISTER), Buffer("pos", Scalar.I32, Space.TABLE, 8, slope=2)
AT = ROW * 8 + COL
TAP = k.bound(k.load(POS, COL.dim), 0, 7, "tap")


def stored(x: Expr) -> Store:
    return Store(Y, AT, k.cast(x, Scalar.F16))


def one(*body: k.Stmt) -> Kernel:
    return Kernel("k", ROW, (For(COL, Loop.VECTOR, body),), N * 3, 128)


def deep() -> Expr:
    x = k.load(X, AT)
    for step in range(40):
        x = k.fma(x, x, float(step))
    return x


BYTES, WORDS = Buffer("bytes", DataType.INT8, Space.CONST, 64), Buffer("words", Scalar.I32, Space.SCRATCH, 16)
TILE = Buffer("tile", Scalar.F32, Space.REGISTER, 8)
TEAM = Buffer("team", Scalar.F32, Space.SHARED, N * 8)
OTHER = Buffer("acc.o", Scalar.F32, Space.REGISTER)
ROW_TAP = k.bound(k.load(POS, ROW.dim), 0, 7, "tap")
KERNELS = [
    Kernel(
        "a tap in two loops",
        ROW,
        (
            For(COL, Loop.SERIAL, (stored(k.load(X, ROW_TAP)),)),
            For(COL, Loop.UNROLL, (stored(k.load(X, ROW_TAP + 1)),)),
        ),
    ),
    one(stored(k.load(X, AT) + 1.5)),
    one(stored(deep())),
    one(stored(k.load(X, ROW * 8 + TAP) * k.load(X, ROW * 8 + TAP))),
    one(stored(k.load(X, k.bound(k.load(POS, TAP), 1, 5)))),
    one(stored(k.bitcast(k.bitcast(k.load(X, AT), Scalar.I32) ^ -(1 << 31), Scalar.F32))),
    one(stored(k.select(k.index(AT) < (1 << 62), k.const(float("-inf"), Scalar.F32), float("nan")))),
    one(stored(k.cast(k.const(True, Scalar.BOOL), Scalar.F32) + k.const(-0.0, Scalar.F32))),
    Kernel(
        "with branch",
        ROW,
        (If(k.index(ROW.dim) < k.index(N // 2), (Store(Y, ROW * 8, k.const(1.0, Scalar.F16)),)),),
    ),
    Kernel(
        "sum",
        ROW,
        (
            Alloc(ACC, k.const(0.0, Scalar.F32)),
            For(COL, Loop.SERIAL, (Fold(ACC, Op.ADD, k.load(X, AT)),)),
            For(COL, Loop.UNROLL, (stored(k.load(X, AT) / k.load(ACC, 0)),)),
        ),
    ),
    Kernel("sizes of buffers only", Sym("p", extent=1), (Store(Y, 0, k.const(2.0, Scalar.F16)),)),
    Kernel(
        "an array in registers, and vectors of four of them",
        ROW,
        (
            Alloc(TILE, k.const(0.0, Scalar.F32)),
            For(COL, Loop.UNROLL, (Store(TILE, COL.dim, k.load(X, AT)),)),
            For(BLOCK, Loop.VECTOR, (Fold(TILE, Op.ADD, k.load(X, BLOCK.dim), 3),), 4),
            Store(Y, ROW * 8, k.cast(k.load(TILE, 7), Scalar.F16)),
        ),
    ),
    one(
        Alloc(ACC, k.const(0.0, Scalar.F32)),
        MultiReduction(
            (ACC,),
            (k.load(ACC, 0) * k.load(X, AT) + k.load(ACC, 0),),
            (k.const(1.0, Scalar.F32),),
            (OTHER,),
            (k.load(ACC, 0) * k.load(OTHER, 0),),
        ),
    ),
    Kernel(
        "blocks",
        ROW,
        (
            For(
                BLOCK,
                Loop.BLOCK,
                (For(COL, Loop.THREAD, (Store(TEAM, COL.dim, k.load(X, AT)), Barrier())),),
            ),
        ),
        1,
        0,
        N * 32,
    ),
    Kernel(
        "words",
        ROW,
        (For(COL, Loop.VECTOR, (Store(WORDS, COL.dim, k.load(BYTES, COL * 4, word=True)),)),),
        1,
        64,
    ),
    Kernel("let", ROW, (Let(BLOCK, floordiv(ROW.dim, 8)), Store(Y, BLOCK.dim, k.const(2.0, Scalar.F16)))),
]


@pytest.mark.parametrize("kernel", KERNELS)
def test_printed_kernels_come_back_equal(kernel: Kernel):
    assert parse_kernels(print_kernels([kernel])) == (kernel,)


def test_several_kernels_share_declarations():
    assert parse_kernels(print_kernels(KERNELS)) == tuple(KERNELS)


def test_kernels_that_mean_several_buffers_by_one_name_come_back_equal():
    kernels = []
    for offset in (64, 64, 0):
        kept = Buffer("rows", Scalar.F32, Space.SCRATCH, 8, offset)
        kernels.append(Kernel("k", ROW, (Store(kept, 0, k.const(1.0, Scalar.F32)),), scratch=96))
    assert parse_kernels(print_kernels(kernels)) == tuple(kernels)
    assert parse_kernels(print_kernels(kernels[::-1])) == tuple(kernels[::-1])
    assert print_kernels(kernels).count("buffer rows") == 2


def test_the_text_of_a_kernel():
    square = k.load(X, AT) + 1.0
    assert print_kernels([one(stored(square * square))]).splitlines() == [
        "symbol n 1..64",
        'buffer "my y" HALF output 8*n offset 64*n',
        "buffer x FLOAT input 8*n offset 0",
        'kernel "k" i 0.. < n work 3*n scratch 128 {',
        "  for vector j 0.. < 8 {",
        "    e0 = add(x[8*i + j], 1.0:f32)",
        '    store "my y"[8*i + j] = f16(mul(e0, e0))',
        "  }",
        "}",
    ]


def test_elements_of_registers_and_vectors_of_several_are_written_behind_their_names():
    text = print_kernels([next(x for x in KERNELS if x.name.startswith("an array"))])
    assert [line.strip() for line in text.splitlines()][5:10] == [
        "alloc tile = 0.0:f32",
        "for unroll j 0.. < 8 {",
        "store tile[j] = x[8*i + j]",
        "}",
        'for vector*4 "b 1" 0..9 < min(9, n) {',
    ]
    assert '    fold tile[3] add x["b 1"]' in text.splitlines()


def test_blocks_and_what_they_share_have_words():
    text = print_kernels([next(x for x in KERNELS if x.name == "blocks")]).splitlines()
    assert "buffer team f32 shared 8*n offset 0" in text
    assert text[-8:] == [
        'kernel "blocks" i 0.. < n work 1 scratch 0 shared 32*n {',
        '  for block "b 1" 0..9 < min(9, n) {',
        "    for thread j 0.. < 8 {",
        "      store team[j] = x[8*i + j]",
        "      barrier",
        "    }",
        "  }",
        "}",
    ]


def test_a_fold_of_several_registers_names_its_steps_starts_and_merge():
    text = print_kernels(
        [next(x for x in KERNELS for s in statements(x.body) if isinstance(s, MultiReduction))]
    )
    assert "    fold (acc) step (add(mul(acc[0], x[8*i + j]), acc[0])) from (1.0:f32)" in text
    assert " merge (acc.o) (mul(acc[0], acc.o[0]))\n" in text


def test_shared_expressions_print_in_linear_size():
    assert len(print_kernels([one(stored(deep()))])) < 3000


def name_of(bound: Dim) -> str:
    (((sym,), _),) = bound.terms
    return sym.name


def test_a_bound_value_is_named_by_its_expression_where_that_is_short():
    assert name_of(TAP) == "tap{pos[j]}"


def test_a_bound_value_of_a_long_expression_has_a_short_name_that_is_the_same_in_every_run():
    names = [name_of(k.bound(k.cast(deep() * factor, Scalar.I32), 0, 7)) for factor in (1.0, 2.0)]
    assert names == [
        "v{i32(mul.f32(#399f89828b6fcb69, 1.0:f32))}",
        "v{i32(mul.f32(#399f89828b6fcb69, 2.0:f32))}",
    ]


def test_values_bound_inside_one_another_have_short_names():
    inside = TAP
    for _ in range(6):
        inside = k.bound(k.load(POS, inside + 1), 0, 7)
    assert len(name_of(inside)) <= len("v{}") + k.BRIEF
    kernel = one(stored(k.load(X, inside)))
    assert parse_kernels(print_kernels([kernel])) == (kernel,)


GOOD = print_kernels([KERNELS[3], KERNELS[9]])


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("buffer x FLOAT", "buffer x FLAT", "AR605", "one of FLOAT"),
        ("input", "inputs", "AR605", "one of input"),
        ("for vector", "for each", "AR605", "one of serial"),
        ("for vector", "for vector*3", "AR607", "over vectors of 3 registers"),
        ("fold acc", "fold acc[1]", "AR607", "index 1 of register acc"),
        ("fold acc add", "fold acc plus", "AR605", "one of add"),
        ("fold acc", "fold abc", "AR605", "a buffer declared above"),
        ("mul(", "mule(", "AR605", "an instruction"),
        ("f16(mul", "f32(mul", "AR607", "holds f16 and receives f32"),
        ("mul(", "sqrt(", "AR607", "sqrt of (f32, f32)"),
        ("0.0:f32", "0.5:i32", "AR605", "an integer for i32"),
        ("0.0:f32", "0:i32", "AR607", "acc holds f32 and receives i32"),
        ("+ v.0]", "+ v.1]", "AR605", "a known symbol"),
        ("x[8*i + j]", "e9", "AR605", "a name defined above"),
        ("kernel", "colonel", "AR605", "one of symbol"),
        ("}", "", "AR605", ""),
        ("alloc acc = 0.0:f32", "", "AR607", "before it is allocated"),
    ],
)
def test_tampered_text_is_rejected(old: str, new: str, code: str, said: str):
    assert old in GOOD
    with pytest.raises(PlanError) as caught:
        parse_kernels(GOOD.replace(old, new, 1), "dump")
    assert caught.value.code == code
    assert "dump, line" in caught.value.where
    assert said in str(caught.value)


@settings(max_examples=300)
@given(
    st.integers(0, len(GOOD) - 1),
    st.integers(0, 6),
    st.sampled_from(["0", "i", "(", "]", "f32", "{", "e0", "min"]),
)
def test_mutated_text_parses_or_is_rejected(at: int, length: int, word: str):
    with contextlib.suppress(PlanError):
        kernels = parse_kernels(GOOD[:at] + word + GOOD[at + length :])
        assert parse_kernels(print_kernels(kernels)) == kernels
