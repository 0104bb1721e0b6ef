"""Non-temporal stores: buffers too large for the caches are stored past them, which saves reading every line
before it is overwritten.

    for vec i < n:             buffer y is marked:
      store y[i], …     →      its whole lines are stored past the caches

For dynamic sizes, the mark is a size: lines bypass the caches if it is not 0 at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anyrt.core.dims import Dim
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import stores, with_buffers


def nontemporal(kernel: Kernel, large: Mapping[Buffer, Dim]) -> Kernel | Fail:
    """The kernel with marks on every buffer in `large` that it stores to; `large`: the condition for each."""
    stored = {s.buffer for s in stores(kernel.body)}
    swap = {b: replace(b, nontemporal=size) for b, size in large.items() if b in stored and size != 0}
    return with_buffers(kernel, swap) if swap else Fail("its results fit the caches")
