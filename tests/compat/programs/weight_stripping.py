"""Build a whole and a stripped plan of an ONNX model, refit the stripped one from the model, compare outputs.

usage: weight_stripping.py DIRECTORY
"""

import os
import sys

import common
import numpy as np
import onnx
import tensorrt as trt
from onnx import TensorProto, helper, numpy_helper

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


def write_model(path, seed):
    """Convolutions with batch norms, a global pooling, a dense layer."""
    rng = np.random.default_rng(seed)
    nodes, weights, x, c_in = [], [], "input", 3

    def weight(name, array):
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    for i, c in enumerate((16, 32)):
        kernel = weight(f"conv{i}.w", rng.standard_normal((c, c_in, 3, 3)) * 0.2)
        stats = [
            rng.uniform(0.5, 1.5, c),
            rng.standard_normal(c),
            rng.standard_normal(c),
            rng.uniform(1, 2, c),
        ]
        stats = [weight(f"bn{i}.{n}", s) for n, s in zip(("scale", "B", "mean", "var"), stats, strict=True)]
        nodes += [
            helper.make_node(
                "Conv", [x, kernel], [f"c{i}"], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]
            ),
            helper.make_node("BatchNormalization", [f"c{i}", *stats], [f"b{i}"]),
            helper.make_node("Relu", [f"b{i}"], [f"r{i}"]),
        ]
        x, c_in = f"r{i}", c
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node(
            "Gemm",
            ["f", weight("fc.w", rng.standard_normal((10, 32))), weight("fc.b", rng.standard_normal(10))],
            ["output"],
            transB=1,
        ),
    ]
    info = [
        helper.make_tensor_value_info("input", TensorProto.FLOAT, [2, 3, 32, 32]),
        helper.make_tensor_value_info("output", TensorProto.FLOAT, [2, 10]),
    ]
    graph = helper.make_graph(nodes, "net", info[:1], info[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)


def build_plan(onnx_path, strip):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    config = builder.create_builder_config()
    parser = trt.OnnxParser(network, TRT_LOGGER)
    if strip:
        config.set_flag(trt.BuilderFlag.STRIP_PLAN)
        config.set_flag(trt.BuilderFlag.REFIT)
    with open(onnx_path, "rb") as model:
        if not parser.parse(model.read()):
            for error in range(parser.num_errors):
                print(parser.get_error(error))
            sys.exit(1)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        sys.exit("failed to build the engine")
    return plan


def refit(plan, onnx_path):
    runtime = trt.Runtime(TRT_LOGGER)
    engine = runtime.deserialize_cuda_engine(plan)
    refitter = trt.Refitter(engine, TRT_LOGGER)
    parser_refitter = trt.OnnxParserRefitter(refitter, TRT_LOGGER)
    assert len(refitter.get_missing_weights()) > 0
    if not parser_refitter.refit_from_file(onnx_path):
        for error in range(parser_refitter.num_errors):
            print(parser_refitter.get_error(error))
        sys.exit(1)
    assert refitter.refit_cuda_engine()
    return engine


def infer(engine, image):
    inputs, outputs, bindings, stream = common.allocate_buffers(engine)
    context = engine.create_execution_context()
    inputs[0].host = image.ravel()
    results = [o.copy() for o in common.do_inference(context, engine, bindings, inputs, outputs, stream)]
    common.free_buffers(inputs, outputs, stream)
    return results[0]


def save(path, plan):
    with open(path, "wb") as f:
        f.write(plan)
    return os.path.getsize(path)


def main():
    folder = sys.argv[1]
    models = [os.path.join(folder, f"model{seed}.onnx") for seed in (0, 1)]
    for seed, path in enumerate(models):
        write_model(path, seed)
    whole, stripped = build_plan(models[0], strip=False), build_plan(models[0], strip=True)
    sizes = (
        save(os.path.join(folder, "whole.plan"), whole),
        save(os.path.join(folder, "stripped.plan"), stripped),
    )
    print(f"whole plan {sizes[0]} bytes, stripped {sizes[1]} bytes")
    assert sizes[1] < sizes[0]
    image = np.random.default_rng(2).standard_normal((2, 3, 32, 32)).astype(np.float32)
    plain = infer(trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(whole), image)
    engine = refit(stripped, models[0])
    np.testing.assert_array_equal(infer(engine, image), plain)
    # The plan now contains the weights unless a flag excludes those that can be refitted.
    config = engine.create_serialization_config()
    config.set_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    again = engine.serialize_with_config(config)
    assert len(bytes(again)) < sizes[0]
    other = infer(trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build_plan(models[1], strip=False)), image)
    np.testing.assert_allclose(infer(refit(again, models[1]), image), other, rtol=1e-5, atol=1e-5)
    print("PASSED")


if __name__ == "__main__":
    main()
