"""Checked calls of plug-ins: outputs and workspace are between guards, and inputs are copies.

A write outside the outputs and the workspace, or to an input, raises an error with the name of the tensor;
the results are not used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

import numpy as np

from anyrt.core.dims import product
from anyrt.core.dtype import storage_bytes
from anyrt.core.enums import DataType
from anyrt.core.errors import PluginError
from anyrt.core.formats import in_memory
from anyrt.plan.program import PluginCall

GUARD: Final = 256  # bytes before and behind, a multiple of any alignment that plug-ins need
MARK: Final = 0xA5


class Guarded:
    """The memory of one call: `addresses` of inputs and outputs, `workspace` with its address."""

    def __init__(
        self,
        call: PluginCall,
        sizes: Sequence[tuple[int, ...]],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> None:
        self._call, self._real = call, outputs
        tensors = zip(call.tensors, sizes, strict=True)
        nbytes = [_bytes(t.dtype, in_memory(t.format, t.dtype, s)) for t, s in tensors]
        self._before = [ctypes.string_at(a, n) for a, n in zip(inputs, nbytes, strict=False)]
        ins = [_block(n, x) for n, x in zip(nbytes, self._before, strict=False)]
        outs = [_block(n) for n in nbytes[call.inputs :]]
        for k, operand in enumerate(call.over):
            if operand >= 0:
                outs[k][GUARD : GUARD + nbytes[operand]] = ins[operand][GUARD : GUARD + nbytes[operand]]
                ins[operand] = outs[k]
        work = _block(call.workspace)
        self._blocks = [*ins, *outs, work]
        self._sizes = [*nbytes, call.workspace]
        self.addresses = [_address(x) for x in ins], [_address(x) for x in outs]
        self.workspace = _address(work) if call.workspace else 0

    def check(self, where: str, plugin: str) -> None:
        """PluginError AR825 for invalid writes; otherwise outputs are copied to their memory."""
        call = self._call
        names = [f"input {k}" for k in range(call.inputs)]
        names += [f"output {k}" for k in range(len(call.tensors) - call.inputs)]
        for name, block, n in zip([*names, "its workspace"], self._blocks, self._sizes, strict=True):
            wrong = np.flatnonzero(np.concatenate((block[:GUARD], block[GUARD + n :])) != MARK)
            if wrong.size:
                side, at = (
                    ("before", GUARD - wrong[-1]) if wrong[-1] < GUARD else ("behind", wrong[-1] - GUARD + 1)
                )
                got = f"a write {at} bytes {side} {name}, of {n} bytes, from {plugin}.enqueue"
                raise PluginError("AR825", where, got, "writes inside the outputs and the workspace")
        owned = {operand for operand in call.over if operand >= 0}
        for k, (block, before) in enumerate(zip(self._blocks, self._before, strict=False)):
            if k not in owned and block[GUARD : GUARD + len(before)].tobytes() != before:
                got = f"other bytes in {names[k]} after {plugin}.enqueue"
                raise PluginError("AR825", where, got, "unchanged inputs")
        self._deliver()

    def _deliver(self) -> None:
        count = self._call.inputs
        blocks = zip(self._real, self._blocks[count:], self._sizes[count:], strict=False)
        for real, block, n in blocks:
            ctypes.memmove(real, _address(block), n)


def _bytes(dtype: DataType, shape: Sequence[object]) -> int:
    count = product(d for d in shape if isinstance(d, int))
    assert isinstance(count, int), "an inference has static shapes"
    return storage_bytes(dtype, count)


def _block(n: int, content: bytes | None = None) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """`n` bytes between guards."""
    block = np.full(n + 2 * GUARD, MARK, np.uint8)
    block[GUARD : GUARD + n] = 0 if content is None else np.frombuffer(content, np.uint8)
    return block


def _address(block: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> int:
    return int(block.ctypes.data) + GUARD
