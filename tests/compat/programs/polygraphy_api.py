"""Polygraphy as a library: calibrated engines, runners, comparisons, refits, plans in files.

usage: polygraphy_api.py DIRECTORY
"""

import os
import sys

import numpy as np
import onnx
import onnx_graphs
import tensorrt as trt
from polygraphy.backend.common import BytesFromPath
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    Algorithm,
    Calibrator,
    CreateConfig,
    EngineFromBytes,
    EngineFromNetwork,
    ModifyNetworkOutputs,
    NetworkFromOnnxPath,
    Profile,
    SaveEngine,
    TacticRecorder,
    TacticReplayData,
    TacticReplayer,
    TrtRunner,
    engine_from_network,
    network_from_onnx_path,
)
from polygraphy.comparator import Comparator, CompareFunc, DataLoader


def weight(*shape):
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 0.2).astype(np.float32)


def save_model(path):
    nodes = [
        ("Conv", ["x", "w"], ["c"], {"pads": [1] * 4}),
        ("Relu", ["c"], ["r"], {}),
        ("GlobalAveragePool", ["r"], ["p"], {}),
        ("Flatten", ["p"], ["f"], {}),
        ("Gemm", ["f", "v"], ["y"], {}),
    ]
    weights = {"w": weight(8, 3, 3, 3), "v": weight(8, 5)}
    onnx.save(onnx_graphs.model(nodes, {"x": ["n", 3, 16, 16]}, ["y"], weights), path)


def calibration_data():
    rng = np.random.default_rng(0)
    for _ in range(4):
        yield {"x": rng.standard_normal((2, 3, 16, 16)).astype(np.float32)}


def compare(engine, path, tolerance):
    """Compare with ONNX Runtime on Polygraphy's data."""
    runners = [TrtRunner(engine), OnnxrtRunner(SessionFromOnnx(path))]
    loader = DataLoader(iterations=3, input_metadata=None)
    results = Comparator.run(runners, data_loader=loader, warm_up=1)
    result = Comparator.compare_accuracy(results, compare_func=CompareFunc.simple(atol=tolerance, rtol=0))
    assert bool(result), "outputs differ"
    assert Comparator.validate(results, check_inf=True, check_nan=True)


def main():
    path, plan = (os.path.join(sys.argv[1], n) for n in ("model.onnx", "model.plan"))
    save_model(path)
    profiles = [Profile().add("x", min=(1, 3, 16, 16), opt=(2, 3, 16, 16), max=(4, 3, 16, 16))]
    config = CreateConfig(profiles=profiles, fp16=False, load_timing_cache=None)
    compare(SaveEngine(EngineFromNetwork(NetworkFromOnnxPath(path), config), path=plan), path, 1e-5)
    compare(EngineFromBytes(BytesFromPath(plan)), path, 1e-5)

    cache = os.path.join(sys.argv[1], "calib.cache")
    for _ in range(2):  # from data, then from the cache
        calibrator = Calibrator(
            data_loader=calibration_data(), cache=cache, BaseClass=trt.IInt8MinMaxCalibrator
        )
        coded = CreateConfig(int8=True, calibrator=calibrator, profiles=profiles)
        compare(EngineFromNetwork(NetworkFromOnnxPath(path), config=coded), path, 0.05)
        assert os.path.getsize(cache) > 0

    marked = ModifyNetworkOutputs(NetworkFromOnnxPath(path), outputs=["r", "y"])
    engine = engine_from_network(marked, config=CreateConfig(refittable=True, profiles=profiles))
    x = np.ones((1, 3, 16, 16), np.float32)
    with TrtRunner(engine) as runner:
        assert list(runner.get_input_metadata()) == ["x"]
        outputs = runner.infer(feed_dict={"x": x}, copy_outputs_to_host=True)
        assert list(outputs) == ["r", "y"]
        np.testing.assert_allclose(
            outputs["r"].mean((2, 3)) @ weight(8, 5), outputs["y"], rtol=1e-4, atol=1e-5
        )
        assert runner.last_inference_time() > 0

    record = TacticReplayData()
    builder, network, parser = network_from_onnx_path(path)
    with_record = CreateConfig(profiles=profiles, algorithm_selector=TacticRecorder(record))
    engine_from_network((builder, network, parser), config=with_record)
    assert all(isinstance(a, Algorithm) for a in record.values())
    assert len(record) > 0
    replayed = CreateConfig(profiles=profiles, algorithm_selector=TacticReplayer(record))
    compare(EngineFromNetwork(NetworkFromOnnxPath(path), config=replayed), path, 1e-5)
    print("PASSED")


if __name__ == "__main__":
    main()
