"""Columns of a table as the inputs of a model, and its outputs as columns, for Ray, Spark, Dask and Daft;
tensors in types that clients of MLServer and KServe know.

Columns(Predictor("model.onnx", threads=1))({"x": np.zeros((64, 3), np.float32)})["y"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import numpy_dtype
from anyrt.core.errors import ArgumentError
from anyrt.onnx.predictor import Predictor
from anyrt.onnx.session import Port

Array = NDArray[Any]  # Any: of whatever types columns have
SINGLE: Final = 4  # bytes: tables have no smaller floating-point type
BUILT_IN: Final = 1  # what `isbuiltin` of a type says that NumPy itself has


@dataclass(frozen=True, slots=True)
class Columns:
    """Calls a predictor with columns, one row of a table for each item of the batch.

    The first axis of the model's inputs is open. Columns are converted to the types of the inputs, since
    tables have fewer types; a column of lists becomes one array. Other columns are ignored. It can be
    pickled; the first call in a process opens the model."""

    predictor: Predictor

    def __call__(self, columns: Mapping[str, object]) -> dict[str, Array]:
        """The outputs by name, each with as many rows as the columns.

        Raises ArgumentError AR304 for an input without a column, and what `Predictor.run` raises."""
        return self.predictor.run({p.name: _input(p, columns) for p in self.inputs})

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs of the model, which is opened for this."""
        return self.predictor.metadata().inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs of the model, which is opened for this."""
        return self.predictor.metadata().outputs


def _input(port: Port, columns: Mapping[str, object]) -> Array:
    if port.name not in columns:
        raise ArgumentError(
            "AR304", "columns", f"no column {port.name!r}", "a column for each input", "rename a column to it"
        )
    column = np.asarray(columns[port.name])
    if column.dtype.hasobject and column.size:  # rows that are lists or arrays
        column = np.stack(list(column))
    sizes = port.shape[1:]
    rows = len(column)
    # Tables keep lists: a row of a tensor with several axes is one list of all its numbers.
    whole = column.reshape(rows, *sizes) if column.ndim != len(port.shape) and -1 not in sizes else column
    return whole.astype(numpy_dtype(port.dtype))


def table_dtype(port: Port) -> np.dtype[Any]:  # Any: see Array
    """The type of a column for this output: float32 for half types, which tables lack."""
    dtype = np.dtype(numpy_dtype(port.dtype))
    is_small_float = dtype.kind not in "biu" and dtype.itemsize < SINGLE
    return np.dtype(np.float32) if is_small_float else dtype


def rows(port: Port, array: Array) -> Array:
    """An output as a column: a number, or a flat array, for each row."""
    column = array.astype(table_dtype(port))
    return column if column.ndim == 1 else column.reshape(len(column), prod(column.shape[1:]))


def protocol_type(port: Port) -> str:
    """The name of the Open Inference Protocol for the type that a client sends or gets: FP32 for bfloat16."""
    dtype = client_dtype(port)
    if dtype.kind == "b":
        return "BOOL"
    return f"{ {'f': 'FP', 'i': 'INT', 'u': 'UINT'}[dtype.kind] }{8 * dtype.itemsize}"


def client_dtype(port: Port) -> np.dtype[Any]:  # Any: see Array
    """The type for clients that know NumPy's own types alone: float32 for bfloat16 and FP8."""
    dtype = np.dtype(numpy_dtype(port.dtype))
    return dtype if dtype.isbuiltin == BUILT_IN else np.dtype(np.float32)


def served(predictor: Predictor, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs for inputs of a client, both in types that it knows. Raises what `Predictor.run` raises."""
    metadata = predictor.metadata()
    types = {p.name: np.dtype(numpy_dtype(p.dtype)) for p in metadata.inputs}
    feeds = {
        n: a if types.get(n, a.dtype).isbuiltin == BUILT_IN else a.astype(types[n]) for n, a in inputs.items()
    }
    results = predictor.run(feeds)
    return {p.name: results[p.name].astype(client_dtype(p), copy=False) for p in metadata.outputs}
