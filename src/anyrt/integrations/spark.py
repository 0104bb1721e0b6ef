"""Spark over a predictor: a function of columns for `select` and SQL, called with batches of rows.

predict = batch_udf(Predictor("model.onnx", threads=1))
table.select("id", predict("x").alias("y"))
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Final

import numpy as np
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import types

from anyrt.integrations.columns import Array, Columns, rows, table_dtype
from anyrt.onnx.predictor import Predictor
from anyrt.onnx.session import Port

# Spark has no unsigned types: the next larger signed type replaces them, and int64 replaces uint64.
TYPES: Final = {
    "bool": types.BooleanType(),
    "int8": types.ByteType(),
    "uint8": types.ShortType(),
    "int16": types.ShortType(),
    "uint16": types.IntegerType(),
    "int32": types.IntegerType(),
    "uint32": types.LongType(),
    "int64": types.LongType(),
    "uint64": types.LongType(),
    "float32": types.FloatType(),
    "float64": types.DoubleType(),
}


def batch_udf(predictor: Predictor, batch_size: int = 64) -> Any:  # Any: Spark's function of columns
    """A function with a column for each input of the model, in the order of the inputs.

    A row of an input with one axis is a number, of other inputs a flat list of numbers. With one output the
    result is a column, with several outputs a structure with a field for each. Each Python worker opens the
    model once; the driver opens it, too, to read its types. `batch_size`: maximum number of rows of an
    inference."""
    columns = Columns(predictor)
    outputs = columns.outputs
    fields = [types.StructField(p.name, _type(p)) for p in outputs]
    shapes = [[abs(n) for n in p.shape[1:]] or None for p in columns.inputs]
    return predict_batch_udf(
        lambda: _calls(columns),
        return_type=fields[0].dataType if len(fields) == 1 else types.StructType(fields),
        batch_size=batch_size,
        input_tensor_shapes=shapes,
    )


def _calls(columns: Columns) -> Callable[..., Array | dict[str, Array]]:
    """The function that a worker calls with the columns of a batch."""
    names = [p.name for p in columns.inputs]

    def call(*arrays: Array) -> Array | dict[str, Array]:
        results = columns(dict(zip(names, arrays, strict=True)))
        converted = {p.name: _signed(rows(p, results[p.name])) for p in columns.outputs}
        return converted if len(converted) > 1 else converted.popitem()[1]

    # Spark counts parameters to distinguish one input with several columns from several inputs.
    parameters = [Parameter(f"x{k}", Parameter.POSITIONAL_ONLY) for k in range(len(names))]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def _type(port: Port) -> types.DataType:
    number = TYPES[table_dtype(port).name]
    return number if len(port.shape) == 1 else types.ArrayType(number)


def _signed(column: Array) -> Array:
    if column.dtype.kind != "u":
        return column
    return column.astype(np.dtype(f"i{min(8, 2 * column.dtype.itemsize)}"))
