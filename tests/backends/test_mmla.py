"""Sums of 2 × 2 tiles with SMMLA and BFMMLA: eligible loops, when tiles pay, and the generated text.

tests/codegen/test_aarch64.py and tools/arm64.py check that their code computes the same results.
"""

from dataclasses import replace

import numpy as np
import pytest

from anyrt.backends.cpu.emit import emit
from anyrt.backends.cpu.mmla import intrinsic
from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.backends.interp.target import InterpTarget
from anyrt.compiler.report import build_report
from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from anyrt.core.machine import Machine
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.statements import loops
from anyrt.loops.tensorize import tensorize
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests.backends.test_interp import job
from tests.native import lower
from tests.targets import NEON_MM, parsed

I, J = Sym("i4", extent=4), Sym("j2", extent=16)  # noqa: E741  # the loops are called so
N = Sym("x.0", 1, 64)
BF16, I8, F, I32 = DataType.BF16, DataType.INT8, DataType.FLOAT, DataType.INT32
TEXT = """
buffer acc i32 register 4 offset 0
buffer tile i32 scratch 64 offset 0
buffer w INT8 const 1024 offset 0
buffer x INT8 input 4096 offset 0
buffer y INT32 output 2048 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 256 {
  for serial t1 0.. < 4 {
    for vector j2 0.. < 16 {
      alloc acc = 0:i32
      for serial w3 0.. < 6 {
        for unroll i4 0.. < 4 {
          fold acc[i4] add dot4(word(x[64*i4 + 256*t1 + 4*w3]), word(w[4*j2 + 128*w3]))
        }
      }
      for unroll e5 0.. < 4 {
        store tile[16*e5 + j2] = acc[e5]
      }
    }
    for serial e6 0.. < 4 {
      for vector j7 0.. < 16 {
        store y[16*e6 + j7 + 64*t1] = neg(tile[16*e6 + j7])
      }
    }
  }
}
"""


def test_a_loop_equivalent_to_the_instruction_is_marked():
    (kernel,) = parsed(TEXT)
    printed = print_kernels([kernel])
    listing = print_kernels([tensorize(kernel, J, I, intrinsic)])
    assert listing == printed.replace("j2 0.. < 16 {", "j2 0.. < 16 by smmla {")


@pytest.mark.parametrize(
    ("there", "other", "why"),
    [
        ("j2 0.. < 16", "j2 0.. < 12", "4 rows of 12 lanes fill no tiles"),
        ("w3 0.. < 6", "w3 0.. < 5", "5 words fill no tiles"),
        ("4*w3]), word(w", "5*w3]), word(w", "its rows and words are not evenly spaced"),
        ("word(x[64*i4", "word(x[64*i4*i4", "its rows are not evenly spaced"),
        ("dot4(", "mul(", "it sums other terms than dots of loads"),
        ("alloc acc = 0", "alloc acc = 1", "it does not sum dots of several rows and store the sums"),
    ],
)
def test_the_reason_why_a_loop_does_not_match_the_instruction(there, other, why):
    (kernel,) = parsed(TEXT.replace(there, other))
    assert tensorize(kernel, J, I, intrinsic).reason == why


def test_the_instruction_is_written_where_loops_are_marked_and_nowhere_else():
    (kernel,) = parsed(TEXT)
    marked = tensorize(kernel, J, I, intrinsic)
    assert emit(marked, NEON_MM).text.count("call <4 x i32> @llvm.aarch64.neon.smmla") == 2 * 8
    assert "smmla" not in emit(kernel, NEON_MM).text
    assert "smmla" not in emit(marked, replace(NEON_MM, has_i8mm=False)).text
    assert "smmla" not in emit(marked, Machine()).text


def product(rows, terms, lanes, dtype=I8, constant=True):
    rng = np.random.default_rng(0)
    x, data = b.param("x", (rows, terms), dtype), rng.integers(-128, 128, (terms, lanes))
    w = b.const(data, dtype) if constant else b.param("w", (terms, lanes), dtype)
    y = b.contract("mk,kn->mn", x, w, I32 if dtype is I8 else F)
    symbols = (Symbol(N, "x", 0),) if rows is N.dim else ()
    graph = Graph((("x", x),) if constant else (("x", x), ("w", w)), (("y", y),), {}, symbols)
    for step in PASSES:
        graph = step.run(graph)
    return graph


def lowered(graph, machine=NEON_MM):
    return lower(graph, constant_offsets(graph), Sizes({N.name: 16}), machine=machine)


def marks(built):
    return {s.intrinsic for k in built.module.kernels for s in loops(k.body) if s.intrinsic}


@pytest.mark.parametrize(
    ("rows", "terms", "dtype", "result"),
    [
        (16, 64, I8, {"smmla"}),
        (16, 64, BF16, {"bfmmla"}),
        (N.dim, 64, I8, {"smmla"}),
        (1, 64, I8, set()),
        (2, 64, I8, set()),
        (4, 64, I8, {"smmla"}),
        (16, 8, I8, set()),
    ],
    ids=str,
)
def test_tiles_are_taken_where_their_price_is_less_than_that_of_dots(rows, terms, dtype, result):
    assert marks(lowered(product(rows, terms, 70, dtype))) == result


def test_a_machine_without_them_sums_by_dots():
    machine = replace(NEON_MM, has_i8mm=False, has_bfmmla=False)
    graphs = [product(16, 64, 70, dtype) for dtype in (I8, BF16)]
    assert [marks(lowered(g, machine)) for g in graphs] == [set(), set()]


@pytest.mark.parametrize("dtype", [I8, BF16], ids=str)
@pytest.mark.parametrize(("rows", "terms", "lanes"), [(15, 64, 70), (16, 36, 8), (37, 100, 12), (13, 92, 33)])
def test_tiles_that_are_not_full_run_in_the_interpreter(rows, terms, lanes, dtype):
    """The interpreter checks every access and adds in the order of the kernel's text."""
    graph = product(rows, terms, lanes, dtype, constant=False)
    lowering, rng = lowered(graph), np.random.default_rng(1)
    inputs = {n: rng.integers(-128, 128, v.shape).astype(numpy_dtype(v.dtype)) for n, v in graph.inputs}
    got = InterpTarget().run(job(lowering, {}), inputs).outputs["y"]
    wide = np.float32 if dtype is BF16 else np.int32
    assert marks(lowering) == {"bfmmla" if dtype is BF16 else "smmla"}
    assert np.array_equal(got, inputs["x"].astype(wide) @ inputs["w"].astype(wide))


def test_the_report_says_why_tiles_were_meant_and_not_met():
    graph, without = product(40, 64, 70, constant=False), STRATEGIES.without("round up")
    lowering = lower(graph, {}, Sizes({}), machine=NEON_MM, strategies=without)
    (why,) = build_report(lowering, Sizes({})).notes
    assert "as matrix tiles were selected: " in why
