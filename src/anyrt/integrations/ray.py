"""Ray Data over a predictor: rows of a dataset in batches, by a pool of actors.

predictor = Predictor("model.onnx", threads=1)
dataset.map_batches(Rows, fn_constructor_args=(predictor,), concurrency=2, batch_size=64)
"""

from __future__ import annotations

from collections.abc import Mapping

from anyrt.integrations.columns import Array, Columns
from anyrt.onnx.predictor import Predictor


class Rows:
    """What `map_batches` calls with columns as arrays: adds the model's outputs as columns.

    The model has an open first axis. Each actor opens the model once, when it begins."""

    def __init__(self, predictor: Predictor) -> None:
        self._columns = Columns(predictor)
        predictor.metadata()

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """The columns, and those of outputs."""
        return {**batch, **self._columns(batch)}
