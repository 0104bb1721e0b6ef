"""Whole models: what is counted of kernels, and the tables."""

from dataclasses import asdict

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import anyrt
from benchmarks.machine import Machine
from benchmarks.models import report
from benchmarks.models.kernels import KernelTime, kernels
from benchmarks.models.programs import engine_of
from benchmarks.models.session import Measured, Timed, measured

MACHINE = Machine("a processor", 2, "L1", "avx2", "Linux", "Python", "0", {}, {})


def timed(program, minimum):
    return Timed(program, minimum * 2, minimum * 3, minimum, 10, 0.0, 1.0, 50.0)


def found(ours, theirs):
    both = (timed("AnyRT", ours), timed("ONNX Runtime", theirs))
    kernel = KernelTime("conv", 4.0, 2000, 100)
    return Measured("net", 2, 4000, 100, 1000.0, 100.0, both, {"PyTorch": "cannot: no"}, (kernel,), 2.5)


@pytest.fixture
def product(tmp_path):
    weights = numpy_helper.from_array(np.ones((64, 32), np.float32), "w")
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (16, 64)), ("y", (16, 32)))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")
    opset = [helper.make_opsetid("", 17)]
    save(
        helper.make_model(helper.make_graph([node], "g", [x], [y], [weights]), opset_imports=opset),
        tmp_path / "m.onnx",
    )
    return tmp_path / "m.onnx"


def test_kernels_are_timed_and_their_products_and_bytes_counted(product):
    engine, context = engine_of(anyrt, product, 1)
    held = [np.zeros((16, 64), np.float32), np.zeros((16, 32), np.float32)]
    for name, array in zip("xy", held, strict=True):
        context.set_tensor_address(name, array.ctypes.data)
    (kernel,) = kernels(engine, context)
    assert kernel.flops == 2 * 16 * 64 * 32
    assert kernel.bytes == 4 * (16 * 64 + 64 * 32 + 16 * 32)
    assert kernel.microseconds > 0


def test_the_limit_is_the_larger_of_computing_and_moving():
    assert found(8.0, 16.0).least_us(4000, 100) == 4.0
    assert found(8.0, 16.0).least_us(4000, 1000) == 10.0


def test_tables_say_who_is_ahead_and_where_time_goes(tmp_path):
    rows = [found(8.0, 16.0)]
    assert report.lead(rows[0]) == 2.0
    report.write(tmp_path / "models.md", MACHINE, rows)
    text = (tmp_path / "models.md").read_text()
    assert (
        "| net | 0.00000400 | 0.000100 | 1 | 0.00400 | 0.00800 | 50% | ONNX Runtime | 0.0160 | 2.00 |" in text
    )
    assert "| conv | 4.00 | 100% | 0.00200 | 0.100 | 2.00 | 50% |" in text
    assert "1 of 1 models not slower" in text


def test_results_pass_through_json():
    assert measured(asdict(found(8.0, 16.0))) == found(8.0, 16.0)
