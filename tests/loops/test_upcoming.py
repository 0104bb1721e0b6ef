"""Prefetches of the next operands."""

import re

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.ir.kerneltext import print_kernels
from anyrt.loops.product import product_of
from anyrt.loops.upcoming import prefetch_results, prefetch_terms
from anyrt.passes.pack_constants import pack_constants
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.loops.products import PRODUCT, M

K = Sym("k3", extent=30)

SUMS = """
buffer acc f32 register 5 offset 0
buffer w FLOAT const 300 offset 0
buffer x FLOAT input 150 offset 0
buffer y FLOAT output 50 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for vector n2 0.. < 10 {
    alloc acc = 0.0:f32
    for serial k3 0.. < 30 {
      for unroll m1 0.. < 5 {
        fold acc[m1] add mul(x[k3 + 30*m1], w[10*k3 + n2])
      }
    }
    for unroll e4 0.. < 5 {
      store y[10*e4 + n2] = acc[e4]
    }
  }
}
"""


def test_lanes_of_a_later_term_are_prefetched(after):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for vector n2 0.. < 10 {
    alloc acc = 0.0:f32
    for serial k3 0.. < 30 {
      for unroll m1 0.. < 5 {
        fold acc[m1] add mul(x[k3 + 30*m1], w[10*k3 + n2])
      }
      fetch w[160 + 10*k3 + n2] nearest
    }
    for unroll e4 0.. < 5 {
      store y[10*e4 + n2] = acc[e4]
    }
  }
}
"""
    text = SUMS
    built = after(text, lambda k: prefetch_terms(k, M, [], K, 16))
    assert built == expected


def test_nearby_data_is_not_prefetched(after):
    text = SUMS
    why = after(text, lambda k: prefetch_terms(k, M, [], K, 0))
    assert why == "all it reads is near by"


def test_lines_of_results_are_prefetched_before_they_are_summed(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial l11 0.. < 10 {
    for vector z12 0.. < 16 {
      fetch y[l11 + z12] nearest
    }
  }
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        fold acc add mul(x[k3 + 3*m1], w[10*k3 + n2])
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
    built = after(
        PRODUCT, lambda k: prefetch_results(k, names, M, product_of(k).stores, lambda sums: {M: 0}, 1, 16)
    )
    assert built == expected


@pytest.mark.parametrize(
    ("dtype", "terms"), [(DataType.FLOAT, 256), (DataType.BF16, 512), (DataType.INT8, 1024)]
)
def test_the_next_panel_is_prefetched_line_by_line_whatever_its_words_hold(dtype, terms):
    x, w = b.param("x", (49, terms), dtype), b.const(np.ones((terms, 128)), dtype)
    y = b.contract("mk,kn->mn", x, w, DataType.INT32 if dtype is DataType.INT8 else dtype)
    graph = pack_constants(Graph((("x", x),), (("y", y),)))
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE)
    asked = re.findall(r"fetch const\d+\[(.*)\]", print_kernels(lowered.module.kernels))
    # Four tiles share a panel: with each word, or term of float32, a quarter of its 128 bytes is prefetched.
    assert asked
    assert all(f" {8 * terms // 256}*" in x for x in asked)
