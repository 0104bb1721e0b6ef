"""Small ONNX models in files, for several programs of the survey."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)


def weights(name, *shape):
    return numpy_helper.from_array((RNG.standard_normal(shape) * 0.1).astype(np.float32), name)


def numbers(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def save(path, nodes, inputs, outputs, initializers):
    built = [helper.make_node(op, ins.split(), [out], **attributes) for op, ins, out, attributes in nodes]
    infos = [[helper.make_tensor_value_info(*info) for info in side] for side in (inputs, outputs)]
    graph = helper.make_graph(built, "graph", *infos, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def classifier(path, batch):
    nodes = [
        ("Conv", "input w1 b1", "c1", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("Relu", "c1", "r1", {}),
        ("GlobalAveragePool", "r1", "p", {}),
        ("Flatten", "p", "f", {}),
        ("Gemm", "f w2 b2", "output", {"transB": 1}),
    ]
    inputs, outputs = (
        ("input", TensorProto.FLOAT, [batch, 3, 32, 32]),
        ("output", TensorProto.FLOAT, [batch, 10]),
    )
    held = [weights("w1", 8, 3, 3, 3), weights("b1", 8), weights("w2", 10, 8), weights("b2", 10)]
    save(path, nodes, [inputs], [outputs], held)


def detector(path):
    nodes = [
        ("Conv", "images w1 b1", "c1", {"pads": [1, 1, 1, 1], "strides": [4, 4]}),
        ("Sigmoid", "c1", "s", {}),
        ("Mul", "c1 s", "m", {}),
        ("Conv", "m w2", "c2", {}),
        ("Reshape", "c2 shape", "output0", {}),
    ]
    inputs, outputs = (
        ("images", TensorProto.FLOAT, [1, 3, 64, 64]),
        ("output0", TensorProto.FLOAT, [1, 84, 256]),
    )
    held = [
        weights("w1", 16, 3, 3, 3),
        weights("b1", 16),
        weights("w2", 84, 16, 1, 1),
        numbers("shape", 0, 84, -1),
    ]
    save(path, nodes, [inputs], [outputs], held)


def encoder(path):
    nodes = [
        ("Gather", "words input_ids", "e", {}),
        ("Gather", "kinds token_type_ids", "t", {}),
        ("Add", "e t", "x", {}),
        ("Cast", "attention_mask", "m", {"to": TensorProto.FLOAT}),
        ("Unsqueeze", "m axis", "u", {}),
        ("Mul", "x u", "xm", {}),
        ("MatMul", "xm q", "y", {}),
        ("LayerNormalization", "y g b", "last_hidden_state", {"axis": -1}),
    ]
    names = ("input_ids", "token_type_ids", "attention_mask")
    inputs = [(name, TensorProto.INT64, ["batch", "length"]) for name in names]
    outputs = [("last_hidden_state", TensorProto.FLOAT, ["batch", "length", 16])]
    held = [weights("words", 100, 16), weights("kinds", 2, 16), weights("q", 16, 16), weights("g", 16)]
    save(path, nodes, inputs, outputs, [*held, weights("b", 16), numbers("axis", 2)])


def save_all(folder):
    for name, batch in (("model", 1), ("model_dyn", "batch"), ("model_b4", 4)):
        classifier(f"{folder}/{name}.onnx", batch)
    detector(f"{folder}/yolov8n.onnx")
    encoder(f"{folder}/bert.onnx")
