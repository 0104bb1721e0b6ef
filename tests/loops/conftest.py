"""Transformations of loops: text in, text out, and an unchanged result."""

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from anyrt.core.dimvalues import evaluate
from anyrt.ir.buffer import Scalar, Space
from anyrt.ir.evaluate import DTYPES
from anyrt.ir.kernel import Kernel
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.rewrite import Fail
from anyrt.ir.run import run
from anyrt.ir.statements import buffers_of
from anyrt.loops.nest import Names
from anyrt.schedule.tables import Tables
from tests.targets import parsed

OWN = (Space.SCRATCH, Space.REGISTER)  # the parts that a kernel text needs
SMALL = 4  # integers below this bound: sums of thousands of their products are exact


@pytest.fixture
def names():
    """Fresh names, above those in texts."""
    return Names(10)


@pytest.fixture
def after():
    """The kernel of a text after a transformation, from the line "kernel" on, or the reason why it does not
    apply."""

    def apply(text, transformation, tables=None, sizes=()):
        (kernel,) = parsed(text)
        result = transformation(kernel)
        if isinstance(result, Fail):
            return result.reason
        assert list(kernel_faults(result)) == []
        for some in sizes or [{}]:
            assert outcome(result, [kernel, result], some, tables) == outcome(
                kernel, [kernel, result], some, tables
            )
        written = print_kernels([result])
        assert parsed(written) == (result,)
        return written[written.index("kernel ") :]

    return apply


def outcome(kernel: Kernel, alike: Iterable[Kernel], sizes: Mapping[str, int], tables: Tables | None):
    """The content of memory after a kernel; `alike`: kernels that determine the initial memory."""
    rooms = memory(alike, sizes, tables)
    used = {b for b in buffers_of(kernel.body) if b.space not in OWN}
    run(kernel, {b: rooms[b] for b in used}, sizes)
    return {b.name: rooms[b].tobytes() for b in rooms if b.space is not Space.TABLE}


def memory(kernels: Iterable[Kernel], sizes: Mapping[str, int], tables: Tables | None):
    """Small integers in all buffers that kernels use; tables get their real content."""
    fills = tables.kernels() if tables else []
    used = {b for k in (*kernels, *fills) for b in buffers_of(k.body) if b.space not in OWN}
    rooms, blocks = {}, {}
    for number, buffer in enumerate(sorted(used, key=lambda b: b.name)):
        count = evaluate(buffer.entries, sizes)
        own = small(buffer.stored, count, number)
        if buffer.space is Space.TABLE:  # a table has several names
            own = blocks.setdefault(buffer.offset, own)
        rooms[buffer] = own
    for kernel in fills:
        run(kernel, {b: rooms[b] for b in buffers_of(kernel.body)}, sizes)
    return rooms


def small(kind: Scalar, count: int, seed: int) -> np.ndarray:
    """Small integers, of both signs if the type is signed."""
    numbers = np.random.default_rng(seed).integers(0, 2 * SMALL, count)
    signed = kind.is_float or kind in (Scalar.I8, Scalar.I16, Scalar.I32, Scalar.I64)
    return (numbers - SMALL if signed else numbers % 2).astype(DTYPES[kind])
