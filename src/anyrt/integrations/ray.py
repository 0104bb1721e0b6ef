"""Ray Data over a predictor: a pool of actors computes the rows of a dataset in batches.

predictor = Predictor("model.onnx", threads=1)
dataset.map_batches(Rows, fn_constructor_args=(predictor,), concurrency=2, batch_size=64)
"""

from __future__ import annotations

from collections.abc import Mapping

from anyrt.integrations.columns import Array, Columns
from anyrt.onnx.predictor import Predictor


class Rows:
    """The class for `map_batches`, which adds the model's outputs as columns.

    The first dimension of the model is dynamic. Each actor opens the model once, at its start."""

    def __init__(self, predictor: Predictor) -> None:
        self._columns = Columns(predictor)
        predictor.metadata()

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """The columns of a batch and of the outputs, as arrays."""
        return {**batch, **self._columns(batch)}
