"""Squares around a mean, summed in one pass."""

import numpy as np
import pytest

from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.run import run
from anyrt.ir.statements import buffers_of
from anyrt.loops.fuse_folds import fuse_folds

LARGEST = float(np.finfo(np.float32).max)

BUFFERS = """
buffer acc f32 register 1 offset 0
buffer sq f32 register 1 offset 0
buffer x FLOAT input 64 offset 0
buffer y FLOAT output 1 offset 0
"""
ROWS = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  alloc acc = 0.0:f32
  for serial r1 0.. < 64 {
    fold acc add x[r1]
  }
  alloc sq = 0.0:f32
  for serial r2 0.. < 64 {
    e0 = sub(x[r2], div(acc[0], 64.0:f32))
    fold sq add mul(e0, e0)
  }
  store y[0] = sq[0]
}
"""


def test_squares_around_a_mean_are_summed_in_the_pass_that_sums(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 64 {
  alloc acc = 0.0:f32
  alloc squares19 = 0.0:f32
  alloc head14 = 0.0:f32
  for serial i22 0.. < 16 {
    fold head14 add x[i22]
  }
  store sums13[0] = head14[0]
  alloc begin15 = div(head14[0], 16.0:f32)
  for serial i23 0.. < 16 {
    e0 = sub(x[i23], begin15[0])
    fold squares19 add mul(e0, e0)
  }
  for serial b11 0.. < 3 {
    alloc centre18 = div(sums13[b11], 16.0:f32)
    alloc part16 = 0.0:f32
    alloc apart17 = 0.0:f32
    for serial i21 0.. < 16 {
      e1 = sub(x[16 + 16*b11 + i21], centre18[0])
      fold part16 add e1
      fold apart17 add mul(e1, e1)
    }
    e2 = fma(part16[0], neg(div(part16[0], 16.0:f32)), apart17[0])
    fold squares19 add select(lt(e2, 0.0:f32), 0.0:f32, e2)
    store sums13[1 + b11] = fma(centre18[0], 16.0:f32, part16[0])
  }
  for serial b12 0.. < 4 {
    fold acc add sums13[b12]
  }
  for serial b12 0.. < 4 {
    e3 = div(acc[0], 64.0:f32)
    e4 = sub(div(sums13[b12], 16.0:f32), e3)
    fold squares19 add mul(mul(e4, e4), 16.0:f32)
  }
  store sums13[0] = squares19[0]
  if not(le(abs(squares19[0]), 3.4028234663852886e+38:f32)) {
    alloc anew20 = 0.0:f32
    for serial r2 0.. < 64 {
      e5 = div(acc[0], 64.0:f32)
      e6 = sub(x[r2], e5)
      fold anew20 add mul(e6, e6)
    }
    store sums13[0] = anew20[0]
  }
  alloc sq = sums13[0]
  store y[0] = sq[0]
}
"""
    assert after(BUFFERS + ROWS, lambda k: fuse_folds(k, names, lambda v: 1 << 20, 16)) == expected


def test_short_rows_are_read_twice(after, names):
    reason = after(BUFFERS + ROWS, lambda k: fuse_folds(k, names, lambda v: v.extent, 32))
    assert reason == "no long row is folded around its mean"


def test_squares_around_anything_else_are_summed_behind(after, names):
    text = BUFFERS + ROWS.replace("64.0:f32", "63.0:f32")
    reason = after(text, lambda k: fuse_folds(k, names, lambda v: 1 << 20, 16))
    assert reason == "no long row is folded around its mean"


def squares(kernel, x):
    """The output of a kernel for 64 elements."""
    rooms = {b.name: b for b in buffers_of(kernel.body)}
    y = np.zeros(1, np.float32)
    with np.errstate(all="ignore"):
        run(kernel, {rooms["x"]: x.astype(np.float32), rooms["y"]: y}, {})
    return y[0]


@pytest.mark.parametrize("seed", range(200))
def test_one_pass_stays_in_range_where_a_chunk_of_the_largest_difference_does(seed, names):
    """Rows of every magnitude, at every distance from 0, with steps between their chunks."""
    (plain,), rng = parse_kernels(BUFFERS + ROWS), np.random.default_rng(seed)
    fused = fuse_folds(plain, names, lambda v: 1 << 20, 16)
    noise = rng.standard_normal(64) * 2.0 ** rng.uniform(-60, 0)
    steps = np.repeat(rng.choice([-1.0, 0.0, 1.0], 4), 16)
    x = ((noise + steps) * 2.0 ** rng.uniform(-60, 127) + rng.choice([0, 1, 2.0**30])).astype(np.float32)
    exact, got = x.astype(np.float64), squares(fused, x)
    expected = ((exact - exact.mean()) ** 2).sum()
    if 16 * np.ptp(exact) ** 2 < LARGEST and 64 * np.abs(exact).max() < LARGEST:
        lost = 64 * (np.abs(exact).max() * 2.0**-21) ** 2  # of the mean, which float32 rounds
        assert abs(got - expected) <= 1e-5 * expected + lost + 1e-37
    else:
        assert squares(plain, x) == pytest.approx(got, 1e-5) or expected > LARGEST / 4


@pytest.mark.parametrize("share", [0.2, 0.3, 0.5, 0.9])
def test_rows_near_the_end_of_float32_are_read_again(share, names):
    """Half of the elements at each end of the range: differences from the first chunk's mean are twice those
    from the row's mean, and the sum of their squares is four times as large."""
    (plain,), x = parse_kernels(BUFFERS + ROWS), np.repeat([-1.0, 1.0], 32) * np.sqrt(share * LARGEST / 64)
    fused = fuse_folds(plain, names, lambda v: 1 << 20, 16)
    assert squares(fused, x) == pytest.approx(squares(plain, x), 1e-5)
    assert squares(plain, x) == pytest.approx(share * LARGEST, 1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 15, 16, 40, 63])
def test_one_pass_is_nan_where_two_are(at, bad, names):
    (plain,), x = parse_kernels(BUFFERS + ROWS), np.arange(64.0)
    x[at] = bad
    for kernel in (plain, fuse_folds(plain, names, lambda v: 1 << 20, 16)):
        assert np.isnan(squares(kernel, x))
