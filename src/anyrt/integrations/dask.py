"""Dask over a predictor: a DataFrame with the model's outputs as columns, computed partition by partition.

with_outputs(frame, Predictor("model.onnx", threads=1)).to_parquet("results")
"""

from __future__ import annotations

from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd

from anyrt.integrations.columns import Columns, rows, table_dtype
from anyrt.onnx.predictor import Predictor


def with_outputs(frame: dd.DataFrame, predictor: Predictor) -> dd.DataFrame:
    """The frame with a column for each output: numbers for an output with one axis, otherwise flat arrays.

    A worker of `dask.distributed` receives the predictor once, and opens the model for its first partition.
    This process opens the model, too, to read its types."""
    columns = Columns(predictor)
    types = {p.name: table_dtype(p) if len(p.shape) == 1 else np.dtype(object) for p in columns.outputs}
    meta = frame._meta.assign(**{name: pd.Series(dtype=t) for name, t in types.items()})
    return frame.map_partitions(_computed, dask.delayed(columns, pure=True), meta=meta)


def _computed(part: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """A partition with its outputs; an empty partition needs no inference."""
    outputs = columns.outputs
    if not len(part):
        return part.assign(**{p.name: pd.Series(dtype=object) for p in outputs})
    results = columns({p.name: part[p.name] for p in columns.inputs if p.name in part})
    new: dict[str, Any] = {}  # Any: arrays of numbers, or lists of arrays
    for port in outputs:
        column = rows(port, results[port.name])
        new[port.name] = column if column.ndim == 1 else list(column)
    return part.assign(**new)
