"""Loops over the parts of a byte, written out."""

import numpy as np

from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.run import run
from anyrt.ir.statements import buffers_of
from anyrt.loops.unroll import unroll

TEXT = """
buffer acc f32 register 1 offset 0
buffer c INT4 input 64 offset 0
buffer x FLOAT input 64 offset 0
buffer y FLOAT output 1 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  alloc acc = 0.0:f32
  for serial h1 0.. < 2 {
    for serial r2 0.. < 32 {
      e0 = and(lshr(i32(c[r2]), mul(i32(index(h1)), 4:i32)), 15:i32)
      fold acc add mul(x[32*h1 + r2], f32(e0))
    }
  }
  store y[0] = acc[0]
}
"""


def test_turns_are_written_one_after_another(after):
    wanted = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  alloc acc = 0.0:f32
  for serial r2 0.. < 32 {
    e0 = i32(c[r2])
    fold acc add mul(x[r2], f32(and(lshr(e0, mul(i32(0:i64), 4:i32)), 15:i32)))
    fold acc add mul(x[32 + r2], f32(and(lshr(e0, mul(i32(1:i64), 4:i32)), 15:i32)))
  }
  store y[0] = acc[0]
}
"""
    assert after(TEXT, unroll) == wanted


def test_sums_stay_what_they_are():
    (plain,) = parse_kernels(TEXT)
    rng = np.random.default_rng(0)
    bytes, x = rng.integers(0, 256, 32).astype(np.uint8), rng.integers(-9, 9, 64).astype(np.float32)
    for kernel in (plain, unroll(plain)):
        rooms, y = {b.name: b for b in buffers_of(kernel.body)}, np.zeros(1, np.float32)
        run(kernel, {rooms["c"]: bytes, rooms["x"]: x, rooms["y"]: y}, {})
        assert y[0] == x[:32] @ (bytes & 15) + x[32:] @ (bytes >> 4)


def test_loops_that_nothing_is_computed_by_stay(after):
    plain = TEXT.replace("mul(i32(index(h1)), 4:i32)", "4:i32")
    assert after(plain, unroll) == "no loop is over parts of bytes"


def test_loops_of_many_turns_stay(after):
    long = TEXT.replace("h1 0.. < 2", "h1 0.. < 5").replace("x[32*h1 + r2]", "x[r2]")
    assert after(long, unroll) == "no loop is over parts of bytes"
