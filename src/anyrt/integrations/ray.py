"""Ray Data over a predictor: rows of a dataset in batches, by a pool of actors.

predictor = Predictor("model.onnx", threads=1)
dataset.map_batches(Rows, fn_constructor_args=(predictor,), concurrency=2, batch_size=64)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import numpy_dtype
from anyrt.onnx.predictor import Predictor

Arrays = dict[str, NDArray[Any]]  # Any: of whatever types columns have


class Rows:
    """What `map_batches` calls with columns as arrays: adds the model's outputs as columns.

    The model has an open first axis. Columns get the types of its inputs, as tables know few; of rows that
    are lists one array is made. Each actor opens the model once, when it begins."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._types = {p.name: numpy_dtype(p.dtype) for p in predictor.metadata().inputs}

    def __call__(self, batch: Arrays) -> Arrays:
        """The columns, and those of outputs."""
        feeds = {n: _array(batch[n]).astype(t) for n, t in self._types.items()}
        return batch | self._predictor.run(feeds)


def _array(column: NDArray[Any]) -> NDArray[Any]:  # Any: see Arrays
    return np.stack(list(column)) if column.dtype.hasobject and column.size else column
