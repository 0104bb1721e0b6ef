"""Stores to large outputs are marked as non-temporal."""

from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kerneltext import print_kernels
from anyrt.loops.nontemporal import nontemporal

TEXT = """\
buffer x FLOAT input 256 offset 0
buffer y FLOAT output 256 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i1 0.. < 256 {
    store y[i1] = x[i1]
  }
}
"""


def large(*names, mark=1):
    """The step for a network whose large tensors have these names."""

    def step(kernel):
        store = kernel.body[0].body[0]
        return nontemporal(kernel, {b: mark for b in (store.buffer, store.value.buffer) if b.name in names})

    return step


def test_a_large_output_is_marked_and_what_is_only_read_is_not():
    (kernel,) = parse_kernels(TEXT)
    expected = TEXT.replace("y FLOAT output 256 offset 0", "y FLOAT output 256 offset 0 nontemporal 1")
    assert print_kernels([large("x", "y")(kernel)]) == expected


def test_a_kernel_without_a_large_output_stays_as_it_is(after):
    assert after(TEXT, large("x")) == "its results fit the caches"
    assert after(TEXT, large("y", mark=0)) == "its results fit the caches"
