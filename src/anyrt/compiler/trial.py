"""A lowered graph executed in this thread, kernel by kernel or whole: the base of verification and tests.

    trial = Trial(load(lowered, target, device), {"x.0": 5})
    trial.write(buffer, array, dtype)
    trial.step(3)
    trial.read(buffer, dtype, (5, 7))

Behind every block of memory is a margin that no kernel may touch; `overrun` names the blocks whose margin
changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anyrt.codegen.target import Job, ReportProgress, Store
from anyrt.compiler import native
from anyrt.core.counts import at_most
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import is_packed, numpy_dtype, storage_bytes, stored_bytes, unpack4
from anyrt.core.enums import DataType
from anyrt.core.errors import CompileError
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.counted import sizes_of
from anyrt.ir.graph import Graph, nested
from anyrt.ir.prim import Array
from anyrt.plan import abi
from anyrt.plan.device import Code, Device, Memory
from anyrt.plan.pool import Threads
from anyrt.plan.program import Compiled
from anyrt.prims.const import Blob, Const

GUARD: Final = 64  # bytes behind each block that must stay as they are
FILL: Final = 0xA5

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_PARALLEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """Native code in memory, with its source."""

    lowered: native.Lowered
    compiled: Compiled
    code: Code
    device: Device


def load(
    lowered: native.Lowered,
    target: native.Target,
    device: Device,
    progress: ReportProgress = lambda done, total: None,
    store: Store | None = None,
) -> Loaded:
    """Compile and map a lowered graph; `native.compile_lowered` describes `progress` and `store`."""
    compiled = native.compile_lowered(lowered, target, store, progress)
    return Loaded(lowered, compiled, device.load(compiled), device)


@dataclass(slots=True, eq=False)
class Trial:
    """The memory of one inference at given sizes, in this thread unless there is a `pool`; `blocks` of an
    earlier trial of the same graph are reused."""

    loaded: Loaded
    sizes: Mapping[str, int]
    pool: Threads | None = None
    blocks: dict[str, Memory] = field(default_factory=dict)
    args: NDArray[np.int64] = field(init=False)
    _kept: list[object] = field(init=False)

    def __post_init__(self) -> None:
        program, graph = self.loaded.compiled.program, self.loaded.lowered.graph
        bindings = (*graph.inputs, *graph.outputs)
        self.sizes = at_most(self.sizes, sizes_of(graph))
        self._kept = []
        words = abi.slot_word(len(bindings), len(program.slots)) + program.frames
        self.args = np.zeros(words, np.int64)
        self.args[abi.POOL] = self._pool() if self.pool is None else self.pool.address
        self.args[abi.PROGRAM] = self.loaded.code.address(abi.CODE)
        self._block(abi.ARENA, "arena", evaluate(program.arena_bytes, self.sizes))
        self._block(abi.TABLES, "tables", evaluate(program.table_bytes, self.sizes))
        self.args[abi.SCRATCH_STRIDE] = stride = abi.align(evaluate(program.scratch_bytes, self.sizes))
        self._block(abi.SCRATCH, "scratch", stride * (1 if self.pool is None else self.pool.threads))
        self._constants()
        for n, (name, value) in enumerate(bindings):
            count = int(np.prod([evaluate(d, self.sizes) for d in value.shape], dtype=np.int64))
            kind = "tensor" if n < len(graph.inputs) or name not in dict(graph.inputs) else "output"
            self._block(abi.FIRST_BINDING + n, f"{kind} {name}", storage_bytes(value.dtype, count))
        for n, slot in enumerate(program.slots):
            self.args[abi.slot_word(len(bindings), n)] = evaluate(slot, self.sizes)
        self._call(abi.PREPARE)

    def run(self) -> None:
        """The whole inference."""
        self._call(abi.RUN)

    def step(self, k: int) -> None:
        """Kernel number `k` alone, whatever its conditions on data find."""
        self._call(abi.STEP, k, ignored=True)

    def read(self, buffer: Buffer, dtype: DataType, shape: tuple[int, ...]) -> Array:
        """A copy of the content of a buffer."""
        count = int(np.prod(shape, dtype=np.int64))
        raw = self._bytes(buffer, storage_bytes(dtype, count))
        flat = unpack4(raw, count, dtype) if is_packed(dtype) else raw.copy().view(numpy_dtype(dtype))
        return flat.reshape(shape)

    def write(self, buffer: Buffer, array: Array, dtype: DataType) -> None:
        """Store the elements of `array`, which has the NumPy type of `dtype`, in a buffer."""
        data = stored_bytes(array, dtype)
        self._bytes(buffer, data.size)[:] = data

    def overrun(self) -> tuple[str, ...]:
        """The blocks whose margin was overwritten."""
        return tuple(n for n, block in self.blocks.items() if (block.bytes[-GUARD:] != FILL).any())

    def mend(self) -> None:
        """Restore all margins."""
        for block in self.blocks.values():
            block.bytes[-GUARD:] = FILL

    def _call(self, entry: str, *numbers: int, ignored: bool = False) -> None:
        call = self.loaded.code.function(entry, 1 + len(numbers))
        status = call(self.args.ctypes.data, *numbers)
        while status < 0:  # sizes have their assumed values
            status = self.loaded.code.function(abi.RESUME, 2)(self.args.ctypes.data, -1 - status)
        if status >= abi.FIRST_FAULT:
            fault, program = status - abi.FIRST_FAULT, self.loaded.compiled.program
            if ignored and fault < len(program.assertions):
                return
            raise program.fault_error(fault, [int(x) for x in self.args[-abi.FOUND_WORDS :]])[1]
        if status != abi.Status.OK:
            raise CompileError("AR807", entry, got=f"status {status}", do="report this as a bug")

    def _bytes(self, buffer: Buffer, count: int) -> NDArray[np.uint8]:
        word, offset = self.loaded.lowered.module.places[buffer]
        start = evaluate(offset, self.sizes)
        memory = next(b for b in self.blocks.values() if b.address == self.args[word])
        assert start + count <= memory.nbytes - GUARD, f"{buffer.name} reaches beyond its block"
        return memory.bytes[start : start + count]

    def _block(self, word: int, name: str, nbytes: int) -> None:
        memory = self.blocks.get(name)
        if memory is None or memory.nbytes < nbytes + GUARD:
            memory = self.blocks[name] = self.loaded.device.allocate(nbytes + GUARD)
            memory.bytes[:] = FILL
        self.args[word] = memory.address

    def _constants(self) -> None:
        held = constants(self.loaded.lowered)
        self._block(abi.CONSTS, "constants", held.size)
        self.blocks["constants"].bytes[: held.size] = held

    def _pool(self) -> int:
        """A pool without threads: its `parallel` runs all items here."""

        def parallel(pool: int, function: int, args: int, items: int, grain: int) -> None:
            _KERNEL(function)(args, 0, items, int(self.args[abi.SCRATCH]))

        callback = _PARALLEL(parallel)
        pool = np.zeros(abi.ALIGNMENT // abi.WORD_BYTES, np.int64)
        pool[0] = ctypes.cast(callback, ctypes.c_void_p).value or 0
        self._kept += [callback, pool]
        return pool.ctypes.data


def constants(lowered: native.Lowered) -> NDArray[np.uint8]:
    """The constants at their places in a plan."""
    places, contents = lowered.module.places, {}
    pairs = (pair for s in lowered.schedules for part in s.nested for pair in part.buffers.items())
    for value, buffer in pairs:
        if buffer.space is not Space.CONST or not isinstance(value.op, Const):
            continue
        offset = places[buffer][1]
        assert isinstance(offset, int), f"constant {buffer.name} has no fixed place"
        if value.op.blob.size:  # an empty one shares its place with the next one
            contents[offset] = stored_bytes(value.op.blob.data, value.op.blob.dtype)
    block = np.zeros(max((at + p.size for at, p in contents.items()), default=0), np.uint8)
    for at, content in contents.items():
        block[at : at + content.size] = content
    return block


def job(lowered: native.Lowered, sizes: Mapping[str, int]) -> Job:
    """A lowered graph for a backend that executes its steps itself (backends/steps.py)."""
    sizes = at_most(sizes, sizes_of(lowered.graph))
    rooms = {abi.ARENA: lowered.arena_bytes, abi.TABLES: lowered.schedule.tables.bytes}
    memory = {word: np.zeros(evaluate(n, sizes), np.uint8) for word, n in rooms.items()}
    external = tuple(x.node for s in lowered.schedules for x in s.external_steps)
    memory[abi.CONSTS] = constants(lowered)
    return Job(lowered.graph, lowered.module, lowered.machine, sizes, memory, external)


def constant_offsets(graph: Graph) -> dict[Blob, int]:
    """A place for each constant of a graph, as in a plan."""
    offsets: dict[Blob, int] = {}
    at = 0
    for value in (v for inner in nested(graph) for v in inner.values):
        if isinstance(value.op, Const) and value.op.blob not in offsets:
            offsets[value.op.blob] = at
            at = abi.align(at + storage_bytes(value.op.blob.dtype, value.op.blob.size))
    return offsets
