"""The amount of work of a kernel's item."""

from dataclasses import replace

from anyrt.core.dims import Sym, add
from anyrt.core.dimvalues import evaluate, substitute
from anyrt.ir.kernel import For, Loop
from anyrt.ir.kernelread import parse_kernels
from anyrt.loops.work import work

TEXT = """
symbol n 1..100
buffer acc f32 register 1 offset 0
buffer x FLOAT input 3*n offset 0
buffer y FLOAT output 3 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 3 {
    alloc acc = 0.0:f32
    if le(index(n), 20:i64) {
      for vector k2 0.. < n {
        fold acc add x[n*i1 + k2]
      }
    }
    if lt(20:i64, index(n)) {
      for vector k3 0.. < 20 {
        fold acc add x[n*i1 + k3]
      }
    }
    store y[i1] = acc[0]
  }
}
"""


def test_work_follows_open_sizes_in_the_branch_that_is_longest_at_the_usual_ones():
    (kernel,) = parse_kernels(TEXT)
    counts = [work(kernel, lambda x, n=n: evaluate(x, {"n": n})) for n in (50, 4)]
    assert [evaluate(count, {"n": 90}) for count in counts] == [3 * 91, 3 * 21]


def test_a_piece_that_ends_with_an_open_number_counts_as_the_first_one():
    (kernel,) = parse_kernels(TEXT.replace("k2 0.. < n", "k2 0.. < min(8, n + -8*i1)"))
    count = work(kernel, lambda x: evaluate(x, {"n": 50}))
    assert [evaluate(count, {"n": n}) for n in (4, 50)] == [3 * 21, 3 * 21]


def test_known_facts_about_a_tile_stay_known():
    """A number that a kernel does not count itself, such as the columns of a tile, is not the first
    of any."""
    (kernel,) = parse_kernels(TEXT)
    columns = Sym("tile.columns", extent=101)
    loop = For(Sym("k", extent=add(columns.dim, kernel.var.dim)), Loop.VECTOR, kernel.body[0].body[-1:])
    count = work(replace(kernel, body=(loop,)), lambda x: 1)
    assert evaluate(substitute(count, {columns: 40}), {}) == 40
