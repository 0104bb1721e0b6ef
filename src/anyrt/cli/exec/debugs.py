"""Debug tensors as files: `--saveDebugTensors=x:x.raw`, and `--saveAllDebugTensors=numpy,summary`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from anyrt.api.edge.interfaces import IDebugListener
from anyrt.api.model.dims import Dims
from anyrt.api.run.context import IExecutionContext
from anyrt.cli.exec.arrays import npy
from anyrt.cli.exec.flags import Given
from anyrt.core.dtype import is_packed, numpy_dtype, storage_bytes, unpack4
from anyrt.core.enums import DataType, TensorLocation
from anyrt.core.errors import ArgumentError
from anyrt.ops._record import Array
from anyrt.plan.disk import write_atomically


def save_debug_tensors(options: Given, context: IExecutionContext) -> None:
    """Write debug tensors to files during each inference of a context; an inference overwrites the files."""
    files = dict(options.pairs("saveDebugTensors"))
    for name in files:
        context.set_tensor_debug_state(name, True)
    formats = [f for f in options.text("saveAllDebugTensors").split(",") if f]
    for form in formats:
        if form not in FORMATS:
            raise ArgumentError("AR304", "--saveAllDebugTensors", repr(form), f"one of {', '.join(FORMATS)}")
    if formats:
        context.set_all_tensors_debug_state(True)
        context.unfused_tensors_debug_state = True
    if files or formats:
        context.set_debug_listener(Files(files, formats))


class Files(IDebugListener):
    """A listener that writes each tensor to files."""

    def __init__(self, files: Mapping[str, str], formats: list[str]) -> None:
        IDebugListener.__init__(self)
        self.files, self.formats = files, formats

    def process_debug_tensor(
        self, addr: int, location: TensorLocation, type: DataType, shape: Dims, name: str, stream: int
    ) -> bool:
        """Write one tensor to each of its files."""
        count = int(np.prod(tuple(shape), dtype=np.int64))
        data = ctypes.string_at(addr, storage_bytes(type, count))
        if name in self.files:
            write_atomically(Path(self.files[name]), [data])
        for form in self.formats:
            ending, content = FORMATS[form]
            path = Path(f"{name.replace('/', '_')}.{ending}")
            write_atomically(path, [content(name, _array(data, type, tuple(shape)), data)])
        return True


def _array(data: bytes, dtype: DataType, shape: tuple[int, ...]) -> Array:
    raw = np.frombuffer(data, np.uint8)
    if is_packed(dtype):
        return unpack4(raw, int(np.prod(shape, dtype=np.int64)), dtype).reshape(shape)
    return raw.view(numpy_dtype(dtype)).reshape(shape)


def _summary(name: str, x: Array) -> str:
    wide = x.astype(np.float64)
    statistics = f"min {wide.min():g}, max {wide.max():g}, mean {wide.mean():g}" if x.size else "no elements"
    return f"{name}: {'x'.join(map(str, x.shape)) or 'scalar'} {x.dtype}, {statistics}\n"


def _text(x: Array) -> str:
    return " ".join(f"{v:g}" for v in x.reshape(-1).astype(np.float64)) + "\n"


FORMATS: Mapping[str, tuple[str, Callable[[str, Array, bytes], bytes | memoryview]]] = {
    "summary": ("summary.txt", lambda name, x, data: _summary(name, x).encode()),
    "numpy": ("npy", lambda name, x, data: npy(x)),
    "string": ("txt", lambda name, x, data: _text(x).encode()),
    "raw": ("raw", lambda name, x, data: data),
}
