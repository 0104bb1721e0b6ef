"""Converts columns of tables to the inputs of a model, and its outputs to columns, for Ray, Spark, Dask and
Daft.

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

Array = NDArray[Any]  # Any: columns may have any type
SINGLE: Final = 4  # bytes: tables have no smaller floating-point type


@dataclass(frozen=True, slots=True)
class Columns:
    """Calls a predictor with columns; each row of a table is one item of the batch.

    The first dimension of the model's inputs is dynamic. Columns are converted to the types of the inputs,
    since tables have fewer types; a column of lists becomes one array. Other columns are ignored. The object
    can be pickled; the first call in a process opens the model."""

    predictor: Predictor

    def __call__(self, columns: Mapping[str, object]) -> dict[str, Array]:
        """The outputs by name, with one row for each row of the columns.

        Raises ArgumentError AR304 for an input without a column, and the errors of `Predictor.run`."""
        return self.predictor.run({p.name: _input(p, columns) for p in self.inputs})

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of the model; opens the model."""
        return self.predictor.metadata().inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the model; opens the model."""
        return self.predictor.metadata().outputs


def _input(port: Port, columns: Mapping[str, object]) -> Array:
    if port.name not in columns:
        raise ArgumentError(
            "AR304",
            "columns",
            f"no column {port.name!r}",
            "a column for each input",
            "rename a column to the input",
        )
    column = np.asarray(columns[port.name])
    if column.dtype.hasobject and column.size:  # the rows are lists or arrays
        column = np.stack(list(column))
    sizes = port.shape[1:]
    rows = len(column)
    # Tables store lists: a row of a tensor with several axes is one flat list of its numbers.
    whole = column.reshape(rows, *sizes) if column.ndim != len(port.shape) and -1 not in sizes else column
    return whole.astype(numpy_dtype(port.dtype))


def table_dtype(port: Port) -> np.dtype[Any]:  # Any: see Array
    """The type of a column for this output: float32 for half types, which tables lack."""
    dtype = np.dtype(numpy_dtype(port.dtype))
    is_small_float = dtype.kind not in "biu" and dtype.itemsize < SINGLE
    return np.dtype(np.float32) if is_small_float else dtype


def rows(port: Port, array: Array) -> Array:
    """An output as a column: each row is a number or a flat array."""
    column = array.astype(table_dtype(port))
    return column if column.ndim == 1 else column.reshape(len(column), prod(column.shape[1:]))
