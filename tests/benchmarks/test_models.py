"""The benchmark of whole models: counts of kernels, and tables."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import anyrt
from anyrt.backends import loader
from anyrt.compiler.driver import lower_plan
from anyrt.plan.file import read_plan
from benchmarks.machine import Machine
from benchmarks.models import report
from benchmarks.models.kernels import KernelTime, executed, kernels, work_of
from benchmarks.models.programs import engine_of
from benchmarks.models.session import Measured, Timed
from benchmarks.record import parse

MACHINE = Machine("a processor", 2, "L1", "avx2", "Linux", "Python", "0", {}, {})


def timed(program, minimum):
    return Timed(program, minimum * 2, minimum * 3, minimum, 10, 0.0, 1.0, 50.0)


def measured(ours, theirs):
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
    assert measured(8.0, 16.0).least_us(4000, 100) == 4.0
    assert measured(8.0, 16.0).least_us(4000, 1000) == 10.0


def convolved(images):
    """The plan of a convolution of this many images."""
    builder = anyrt.Builder(anyrt.Logger(anyrt.Logger.ERROR))
    network = builder.create_network()
    x = network.add_input("x", anyrt.float32, (images, 4, 32, 32))
    layer = network.add_convolution_nd(x, 4, (3, 3), np.ones((4, 4, 3, 3), np.float32))
    layer.padding_nd = (1, 1)
    network.mark_output(layer.get_output(0))
    return bytes(builder.build_serialized_network(network, builder.create_builder_config()))


def test_a_batch_that_a_loop_computes_counts_all_of_its_images(tmp_path, monkeypatch):
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"last_bytes": 65536, "cores": 1, "costs": {"wake": 1}}))
    monkeypatch.setenv("ANYRT_MACHINE", str(path))
    plan = convolved(8)
    assert [x.name for x in lower_plan(read_plan(plan), loader.target()).schedules[0].region_steps] == [
        "batch"
    ]
    assert (
        executed(plan) == 8 * sum(flops for flops, _ in work_of(plan).values()) == 8 * 2 * 32 * 32 * 4 * 4 * 9
    )


def test_tables_say_who_is_ahead_and_where_time_goes(tmp_path):
    rows = [measured(8.0, 16.0)]
    assert report.lead(rows[0]) == 2.0
    report.PAGE.write(tmp_path / "models.md", report.tables(rows), MACHINE)
    text = (tmp_path / "models.md").read_text()
    assert (
        "| net | 0.00000400 | 0.000100 | 1 | 0.00400 | 0.00800 | 50% | ONNX Runtime | 0.0160 | 2.00 |" in text
    )
    assert "| conv | 4.00 | 100% | 0.00200 | 0.100 | 2.00 | 50% |" in text
    assert "1 of 1 models not slower" in text


def test_results_pass_through_json():
    assert parse(Measured, asdict(measured(8.0, 16.0))) == measured(8.0, 16.0)
