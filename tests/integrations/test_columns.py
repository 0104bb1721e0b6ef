"""Table columns as inputs of models."""

import pickle

import numpy as np
import pytest

from anyrt.core.errors import ArgumentError
from anyrt.integrations import columns as c
from anyrt.onnx.predictor import Predictor


@pytest.fixture(scope="module")
def predictor(wide):
    return Predictor(wide, threads=1)


def lists(rows):
    column = np.empty(rows, object)
    column[:] = [[1.0, 2.0, 3.0, float(k)] for k in range(rows)]
    return column


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_lists_become_tensors_and_other_columns_are_ignored(predictor, rows):
    values = lists(rows) if rows else np.zeros((0, 4), np.float32)
    results = c.Columns(predictor)({"a": values, "b": np.arange(rows), "name": ["x"] * rows})
    twice, same = (c.rows(p, results[p.name]) for p in c.Columns(predictor).outputs)
    assert (twice.dtype, same.dtype) == (np.float32, np.uint8)
    np.testing.assert_array_equal(twice, [[2, 4, 6, 2 * k] for k in range(rows)] or np.zeros((0, 4)))
    np.testing.assert_array_equal(same, range(rows))


def test_it_can_be_pickled(predictor):
    again = pickle.loads(pickle.dumps(c.Columns(predictor)))
    np.testing.assert_array_equal(again({"a": lists(2), "b": [7, 8]})["same"], [7, 8])


def test_a_missing_column_is_named(predictor):
    with pytest.raises(ArgumentError, match=r"AR304.*no column 'b'"):
        c.Columns(predictor)({"a": lists(2)})
