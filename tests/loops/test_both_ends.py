"""The first and the last block for which a condition holds."""

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.kernel import Kernel, Store, load
from anyrt.ir.kerneltext import print_kernels
from anyrt.loops.both_ends import from_both_ends

MASK = Buffer("mask", DataType.INT32, Space.INPUT, 5)
ANY, FIRST, BEHIND = (Buffer(n, DataType.INT32, Space.SCRATCH, 1) for n in ("any", "first", "behind"))
SEARCH = """\
  store first[0] = 0:i32
  for serial block 0.. < 5 {
    e0 = i32(index(block))
    if eq(first[0], e0) {
      store any[0] = mask[block]
      e1 = ne(any[0], 0:i32)
      store first[0] = select(e1, e0, add(e0, 1:i32))
    }
  }
  store behind[0] = i32(5:i64)
  for serial block.back 0.. < 5 {
    e2 = i32(index(5 + -1*block.back))
    if eq(behind[0], e2) {
      store any[0] = mask[4 + -1*block.back]
      e3 = ne(any[0], 0:i32)
      store behind[0] = select(e3, e2, add(e2, -1:i32))
    }
  }
"""


def test_each_end_looks_as_far_as_the_first_block_that_holds():
    block = Sym("block", extent=5)
    body = from_both_ends(block, (Store(ANY, 0, load(MASK, block.dim)),), ANY, FIRST, BEHIND)
    text = print_kernels([Kernel("search", Sym("p", extent=1), body)])
    assert text[text.index("  store first") :] == SEARCH + "}\n"
