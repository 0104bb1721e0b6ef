"""Tensors, metadata and errors for the runtimes of MLServer and KServe."""

import asyncio

import numpy as np
import pytest

from anyrt.core.errors import AnyrtError, ArgumentError
from anyrt.integrations import protocol
from anyrt.onnx.predictor import Predictor


@pytest.fixture(scope="module")
def predictor(wide):
    return Predictor(wide, threads=1)


def served(predictor, inputs):
    return asyncio.run(protocol.served(predictor, inputs))


def predictions(place, request):
    return asyncio.run(protocol.predictions("m", Predictor(place, threads=1), request))


def test_clients_get_types_that_numpy_has(predictor):
    inputs = protocol.described(asyncio.run(protocol.opened(predictor)).inputs, dict)
    assert inputs[0] == {"name": "a", "datatype": "FP32", "shape": [-1, 2, 2]}
    assert inputs[1] == {"name": "b", "datatype": "UINT8", "shape": [-1]}
    results = served(predictor, {"a": np.ones((2, 2, 2), np.float32), "b": np.uint8([1, 2])})
    assert results["twice"].dtype == np.float32
    np.testing.assert_array_equal(results["twice"], np.full((2, 2, 2), 2))


def test_a_wrong_type_is_rejected(predictor):
    with pytest.raises(AnyrtError):
        served(predictor, {"a": np.ones((2, 2, 2), np.float32), "b": np.float64([1, 2])})


@pytest.mark.parametrize(
    ("dtype", "name"), [("?", "BOOL"), ("f2", "FP16"), ("f8", "FP64"), ("i1", "INT8"), ("u8", "UINT64")]
)
def test_types_have_the_names_of_the_protocol(dtype, name):
    assert protocol.datatype(np.dtype(dtype)) == name


def test_the_first_version_takes_rows_of_the_only_input(neg):
    assert predictions(neg, {"instances": [[1, -2, 3]]}) == {"predictions": [[-1, 2, -3]]}


def test_the_first_version_rejects_several_inputs_and_requests_without_rows(neg, wide):
    with pytest.raises(ArgumentError, match=r"AR304. m: got 2 inputs"):
        predictions(wide, {"instances": [[1]]})
    with pytest.raises(ArgumentError, match="without instances"):
        predictions(neg, {})


@pytest.mark.parametrize("cause", [ValueError("three"), ArgumentError("AR304", "x", "two", "one")])
def test_errors_of_requests_become_those_of_the_server(cause):
    with pytest.raises(OSError, match=r"three|AR304") as caught, protocol.rejecting(OSError):
        raise cause
    assert caught.value.__cause__ is cause


def test_the_plan_of_a_folder_is_preferred(tmp_path):
    with pytest.raises(Exception, match=r"has neither model\.plan nor model\.onnx"):
        protocol.model_file(str(tmp_path))
    for name in ("model.onnx", "model.plan"):
        (tmp_path / name).touch()
        assert protocol.model_file(str(tmp_path)) == tmp_path / name
