"""Daft over a predictor: a DataFrame with the model's outputs as columns.

with_outputs(daft.read_parquet("rows.parquet"), Predictor("model.onnx", threads=1)).write_parquet("results")
"""

from __future__ import annotations

import daft
import numpy as np
from daft import DataType

from anyrt.integrations.columns import Columns, rows, table_dtype
from anyrt.onnx.predictor import Predictor
from anyrt.onnx.session import Port


def with_outputs(frame: daft.DataFrame, predictor: Predictor, batch_size: int = 64) -> daft.DataFrame:
    """The frame with a column for each output: numbers for an output with one axis, otherwise lists of
    numbers.

    `batch_size`: maximum number of rows of an inference. Each process opens the model once; this process
    opens it, too, to read its types."""
    columns = Columns(predictor)
    inputs, outputs = columns.inputs, columns.outputs

    def compute(*series: daft.Series) -> list[dict[str, object]]:
        arrays = {p.name: np.array(s.to_pylist()) for p, s in zip(inputs, series, strict=True)}
        results = columns(arrays)
        columns_of = {p.name: list(rows(p, results[p.name])) for p in outputs}
        return [dict(zip(columns_of, row, strict=True)) for row in zip(*columns_of.values(), strict=True)]

    fields = DataType.struct({p.name: _type(p) for p in outputs})
    call = daft.func.batch(return_dtype=fields, unnest=True, batch_size=batch_size)(compute)
    return frame.select("*", call(*(daft.col(p.name) for p in inputs)))


def _type(port: Port) -> DataType:
    number = DataType.from_numpy_dtype(table_dtype(port))
    return number if len(port.shape) == 1 else DataType.list(number)
