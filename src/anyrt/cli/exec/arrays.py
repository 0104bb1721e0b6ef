"""Values of inputs, and outputs as files."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from anyrt.core.dtype import is_float, numpy_dtype
from anyrt.core.enums import DataType
from anyrt.core.errors import BindingError
from anyrt.ops._record import Array
from anyrt.plan.disk import open_regular, write_atomically


def loaded(path: Path, dtype: DataType, shape: tuple[int, ...], name: str) -> Array:
    """The values of an input, from a .npy file or a file of raw bytes."""
    dtype_ = numpy_dtype(dtype)
    with open_regular(path, str(path)) as file:  # NumPy cannot read a FIFO, and would block for one
        if path.suffix == ".npy":
            stored: Array = np.load(file, allow_pickle=False)
            array = stored.view(dtype_) if stored.dtype.kind == "V" else stored
        else:
            array = np.fromfile(file, dtype_)
    if array.size != int(np.prod(shape)):
        got = f"{array.size} elements in {path}"
        do = "write a file of this size, or set --shapes"
        raise BindingError("AR705", name, got, f"{int(np.prod(shape))} elements of shape {shape}", do)
    return np.ascontiguousarray(array.reshape(shape).astype(dtype_, copy=False))


def drawn(dtype: DataType, shape: tuple[int, ...], seed: int) -> Array:
    """Random values: floats in -1 to 1, and the integers 0 and 1, which are valid indices of most tables."""
    generator = np.random.default_rng(seed)
    if is_float(dtype):
        return generator.uniform(-1, 1, shape).astype(np.float32).astype(numpy_dtype(dtype))
    return generator.integers(0, 2, shape).astype(numpy_dtype(dtype))


def write_outputs(outputs: Mapping[str, Array], path: Path) -> None:
    """The outputs as trtexec's JSON."""
    rows = [
        {
            "name": name,
            "dimensions": "x".join(map(str, x.shape)),
            "values": x.astype(np.float64 if x.dtype.kind not in "biu" else x.dtype).reshape(-1).tolist(),
        }
        for name, x in outputs.items()
    ]
    write_atomically(path, [json.dumps(rows, indent=1).encode()])


def npy(array: Array) -> memoryview:
    """An array as the content of a .npy file."""
    held = io.BytesIO()
    np.save(held, array, allow_pickle=False)
    return held.getbuffer()
