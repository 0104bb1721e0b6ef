"""Execution contexts with their arrays, and measured inferences."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from anyrt.api.edge.interfaces import IOutputAllocator, IProfiler
from anyrt.api.model.dims import Dims
from anyrt.api.run.context import IExecutionContext
from anyrt.api.run.engine import ICudaEngine
from anyrt.cli.exec.arrays import drawn, loaded
from anyrt.cli.exec.flags import Given
from anyrt.cli.exec.shapes import Shapes, shapes
from anyrt.cli.exec.times import Run
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import TensorIOMode
from anyrt.core.errors import BindingError
from anyrt.ops._record import Array


class Grown(IOutputAllocator):
    """Memory for an output with a data-dependent shape."""

    def __init__(self) -> None:
        IOutputAllocator.__init__(self)
        self.memory = np.empty(0, np.uint8)
        self.shape: tuple[int, ...] = ()

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        """An address of `size` bytes."""
        if self.memory.nbytes < size + alignment:
            self.memory = np.empty(size + alignment, np.uint8)
        start = self.memory.ctypes.data
        return start + -start % max(alignment, 1)

    def notify_shape(self, tensor_name: str, shape: Dims) -> None:
        """Store the shape."""
        self.shape = tuple(shape)


class Totals(IProfiler):
    """The times of layers, summed over runs."""

    def __init__(self) -> None:
        IProfiler.__init__(self)
        self.times: dict[str, list[float]] = {}

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Add one time."""
        self.times.setdefault(layer_name, []).append(ms)


class Stream:
    """A context with memory for all tensors."""

    def __init__(self, engine: ICudaEngine, options: Given, seed: int = 0) -> None:
        self.engine, self.context = engine, engine.create_execution_context()
        if options.has("useProfile"):
            self.context.set_optimization_profile_async(options.count("useProfile", 0), 0)
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        reads = [n for n in names if engine.get_tensor_mode(n) is TensorIOMode.INPUT]
        self.arrays: dict[str, Array] = {}
        self.grown: dict[str, Grown] = {}
        self.guessed: list[str] = []  # inputs whose dynamic dimensions have no value
        self._inputs(options, reads, seed)
        for name in names:
            if name not in self.arrays:
                self._output(name)

    def _inputs(self, options: Given, names: Sequence[str], seed: int) -> None:
        requested = shapes(options.pairs("shapes"), "--shapes") or shapes(
            options.pairs("optShapes"), "--optShapes"
        )
        files = dict(options.pairs("loadInputs"))
        for name in {*requested, *files} - {*names}:
            got = "a shape or a file for an unknown input"
            raise BindingError("AR706", name, got, f"one of {', '.join(names)}")
        for name in names:
            array = self._array(name, requested, files.get(name), seed)
            self.context.set_input_shape(name, array.shape)
            self.context.set_tensor_address(name, array)
            self.arrays[name] = array

    def _array(self, name: str, requested: Shapes, file: str | None, seed: int) -> Array:
        engine, dtype = self.engine, self.engine.get_tensor_dtype(name)
        open_ = tuple(engine.get_tensor_shape(name))
        if engine.is_shape_inference_io(name) and file is None:
            values = requested.get(name, (1,) * (open_[0] if open_ else 1))
            return np.array(values, numpy_dtype(dtype)).reshape(open_)
        shape = requested.get(name) if name in requested else tuple(1 if d < 0 else d for d in open_)
        if name not in requested and file is None and -1 in open_:
            self.guessed.append(f"{name}:{'x'.join(map(str, shape or ()))}")
        assert shape is not None, "one of both"
        return drawn(dtype, shape, seed) if file is None else loaded(Path(file), dtype, shape, name)

    def _output(self, name: str) -> None:
        shape = tuple(self.context.get_tensor_shape(name))
        if any(d < 0 for d in shape):
            self.grown[name] = Grown()
            self.context.set_output_allocator(name, self.grown[name])
            return
        self.arrays[name] = np.empty(shape, numpy_dtype(self.engine.get_tensor_dtype(name)))
        self.context.set_tensor_address(name, self.arrays[name])

    def outputs(self) -> dict[str, Array]:
        """The outputs of the last inference."""
        out = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            if name in self.grown:
                dtype, grown = numpy_dtype(self.engine.get_tensor_dtype(name)), self.grown[name]
                start = -grown.memory.ctypes.data % 256
                size = int(np.prod(grown.shape)) * dtype.itemsize
                out[name] = grown.memory[start : start + size].view(dtype).reshape(grown.shape)
            elif self.engine.get_tensor_mode(name) is TensorIOMode.OUTPUT:
                out[name] = self.arrays[name]
        return out

    def run(self) -> float:
        """Execute one inference; returns the time at which its call returned."""
        self.context.execute_async_v3(0)
        return time.perf_counter()


def measured(streams: Sequence[Stream], options: Given) -> tuple[list[Run], int, float]:
    """Inferences of all contexts, each in a thread; the number of warm-up inferences, and their
    milliseconds."""
    warm, begin = 0, time.perf_counter()
    patience = options.number("warmUp", 200) / 1000
    for stream in streams:
        until = time.perf_counter() + patience / len(streams)
        while warm == 0 or time.perf_counter() < until:
            stream.run()
            warm += 1
    warm_ms = (time.perf_counter() - begin) * 1000
    runs: list[list[Run]] = [[] for _ in streams]
    start = time.perf_counter()
    pairs = zip(streams, runs, strict=True)
    work = [threading.Thread(target=_runs, args=(stream, options, start, out)) for stream, out in pairs]
    if len(work) == 1:
        _runs(streams[0], options, start, runs[0])
    else:
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    return sorted((r for part in runs for r in part), key=lambda r: r.begin), warm, warm_ms


def _runs(stream: Stream, options: Given, start: float, out: list[Run]) -> None:
    least, duration = options.count("iterations", 10), options.number("duration", 3)
    pause = (options.number("sleepTime", 0) + options.number("idleTime", 0)) / 1000
    while len(out) < least or time.perf_counter() - start < duration:
        begin = time.perf_counter()
        end = stream.run()
        out.append(Run((begin - start) * 1e3, (end - start) * 1e3, (end - start) * 1e3))
        if pause:
            time.sleep(pause)


def profiled(context: IExecutionContext, runs: int) -> Totals:
    """The times of layers over this many runs."""
    totals = Totals()
    context.profiler = totals
    for _ in range(runs):
        context.execute_async_v3(0)
    context.profiler = None
    return totals
