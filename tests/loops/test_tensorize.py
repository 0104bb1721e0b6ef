"""Loops replaced by the instructions that compute them."""

import re
from dataclasses import replace

import pytest

from anyrt.backends.cpu.emit import emit
from anyrt.backends.cpu.matrix import intrinsic, overlapped
from anyrt.core.dims import Sym
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.kerneltext import print_kernels
from anyrt.loops.tensorize import overlap, tensorize
from tests.targets import parsed

I, J = Sym("i4", extent=16), Sym("j2", extent=32)  # noqa: E741  # the loops are called so
TEXT = """
buffer acc i32 register 16 offset 0
buffer tile i32 scratch 512 offset 0
buffer w INT8 const 2048 offset 0
buffer x INT8 input 4096 offset 0
buffer y INT32 output 2048 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 2048 {
  for serial t1 0.. < 4 {
    for vector j2 0.. < 32 {
      alloc acc = 0:i32
      for serial w3 0.. < 16 {
        for unroll i4 0.. < 16 {
          fold acc[i4] add dot4(word(x[64*i4 + 1024*t1 + 4*w3]), word(w[4*j2 + 128*w3]))
        }
      }
      for unroll e5 0.. < 16 {
        store tile[32*e5 + j2] = acc[e5]
      }
    }
    for serial e6 0.. < 16 {
      for vector j7 0.. < 32 {
        store y[32*e6 + j7 + 512*t1] = neg(tile[32*e6 + j7])
      }
    }
  }
}
"""
# The loop over words, and the same one that also prefetches 64 bytes of a panel with each word.
AHEAD = (
    "        }\n      }\n      for unroll e5",
    "        }\n        fetch w[2048 + 1024*t1 + 64*w3]\n      }\n      for unroll e5",
)


def test_a_loop_that_is_equal_to_what_an_instruction_computes_is_marked(after):
    (kernel,) = parsed(TEXT)
    printed = print_kernels([kernel])
    expected = printed[printed.index("kernel ") :].replace("j2 0.. < 32 {", "j2 0.. < 32 by amx_int8 {")
    assert after(TEXT, lambda k: tensorize(k, J, I, intrinsic)) == expected


@pytest.mark.parametrize(
    ("there", "other", "why"),
    [
        ("4*w3]), word(w", "5*w3]), word(w", "its rows and words are not evenly spaced"),
        ("w3 0.. < 16", "w3 0.. < 15", "15 words fill no tiles"),
        ("j2 0.. < 32", "j2 0.. < 30", "16 rows of 30 lanes fill no tiles"),
        ("dot4(", "mul(", "it sums other terms than dots of loads"),
        ("alloc acc = 0", "alloc acc = 1", "it does not sum dots of several rows and store the sums"),
        (AHEAD[0], AHEAD[1].replace("64*w3", "64*mod(w3, 3)"), "its rows and words are not evenly spaced"),
    ],
)
def test_the_reason_why_a_loop_does_not_match_the_instruction(after, there, other, why):
    text = TEXT.replace(there, other).replace("input 4096", "input 5000")
    assert after(text, lambda k: tensorize(k, J, I, intrinsic)) == why


def test_the_epilogue_of_a_tile_overlaps_with_the_next_tile(after):
    built = after(TEXT, lambda k: overlap(tensorize(k, J, I, intrinsic), overlapped))
    assert "for serial t1 0.. < 4 by amx_overlapped {" in built


def test_no_loop_overlaps_that_no_instruction_computes(after):
    assert after(TEXT, lambda k: overlap(k, overlapped)) == "no loop has iterations that overlap"


def test_instructions_are_written_where_loops_are_marked_and_nowhere_else():
    (kernel,) = parsed(TEXT)
    marked, amx = tensorize(kernel, J, I, intrinsic), Machine(has_tiles=True)
    assert "tdpbssd" in emit(marked, amx).text
    assert "tdpbssd" not in emit(kernel, amx).text
    assert "tdpbssd" not in emit(marked, Machine()).text


def test_the_words_of_a_tile_prefetch_each_cache_line_of_a_range_once():
    (kernel,) = parsed(TEXT.replace(*AHEAD))
    built = tensorize(kernel, J, I, intrinsic)
    text = emit(built, replace(REFERENCE, has_tiles=True)).module
    lines = re.findall(r"getelementptr i8, ptr (%\w+), i64 (\d+)\n.*@llvm\.prefetch", text)
    (start,) = {place for place, _ in lines}
    assert [int(at) for _, at in lines] == list(range(0, 1024, 64))
    # 64 bytes further with each of 16 words of a tile, 2048 bytes behind the first panel.
    (by,) = re.findall(rf"{start} = getelementptr i8, ptr %\w+, i64 (%\w+)", text)
    assert re.search(rf"{by} = mul i64 %\w+, 64\n", text)
