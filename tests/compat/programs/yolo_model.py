"""A small YOLO-like detector as an ONNX model: convolutions with SiLU, splits and concatenations, pyramid
pooling, an upsampling neck, and heads that predict box sides as distributions.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BINS, STRIDES = 8, (8, 16)


class GraphWriter:
    """Nodes and initializers of a graph; weights are random with the standard deviation of
    untrained models."""

    def __init__(self, seed=0):
        self.nodes, self.initializers = [], []
        self.rng = np.random.default_rng(seed)

    def name(self, hint):
        return f"/{hint}_{len(self.nodes)}"

    def const(self, array, hint="const"):
        name = f"{hint}.{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, op, inputs, outputs=1, **attributes):
        names = [self.name(f"{op}_output_{i}") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=self.name(op), **attributes))
        return names[0] if outputs == 1 else names

    def conv2d(self, x, c_in, c_out, k, s=1, bias=None, gain=1.0):
        std = gain * (2.0 / (c_in * k * k)) ** 0.5
        weight = self.rng.normal(0, std, (c_out, c_in, k, k)).astype(np.float32)
        inputs = [x, self.const(weight, "conv.weight")]
        if bias is not None:
            inputs.append(self.const(np.full(c_out, bias, np.float32), "conv.bias"))
        pads = [k // 2] * 4
        return self.node("Conv", inputs, kernel_shape=[k, k], strides=[s, s], pads=pads)

    def conv(self, x, c_in, c_out, k=1, s=1):
        """Convolution, batch norm, SiLU."""
        y = self.conv2d(x, c_in, c_out, k, s)
        rng = self.rng
        mean, shift = (rng.normal(0, 0.1, c_out).astype(np.float32) for _ in range(2))
        gamma, var = (rng.uniform(0.8, 1.2, c_out).astype(np.float32) for _ in range(2))
        stats = [self.const(v, f"bn.{n}") for n, v in zip("wbmv", (gamma, shift, mean, var), strict=True)]
        y = self.node("BatchNormalization", [y, *stats], epsilon=1e-3)
        return self.node("Mul", [y, self.node("Sigmoid", [y])])

    def c2f(self, x, c_in, c_out):
        """Two halves; one passes through convolutions with a shortcut, then all parts are concatenated."""
        y = self.conv(x, c_in, c_out)
        split = self.const(np.array([c_out // 2] * 2, np.int64), "split")
        a, b = self.node("Split", [y, split], outputs=2, axis=1)
        m = self.conv(self.conv(b, c_out // 2, c_out // 2, 3), c_out // 2, c_out // 2, 3)
        joined = self.node("Concat", [a, b, self.node("Add", [b, m])], axis=1)
        return self.conv(joined, c_out // 2 * 3, c_out)

    def sppf(self, x, c):
        parts = [self.conv(x, c, c // 2)]
        for _ in range(3):
            parts.append(self.node("MaxPool", [parts[-1]], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]))
        return self.conv(self.node("Concat", parts, axis=1), c * 2, c)

    def upsample(self, x):
        scales = self.const(np.array([1, 1, 2, 2], np.float32), "scales")
        return self.node(
            "Resize",
            [x, "", scales],
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        )

    def reshape(self, x, shape):
        return self.node("Reshape", [x, self.const(np.array(shape, np.int64), "shape")])


def detect(g, features, channels, classes, size):
    """Boxes (N, anchors, 4) as corners in pixels and scores (N, anchors, classes)."""
    sides, scores, centers, steps = [], [], [], []
    for x, c, stride in zip(features, channels, STRIDES, strict=True):
        cells = (size // stride) ** 2
        box = g.conv2d(g.conv(x, c, 16, 3), 16, 4 * BINS, 1, bias=1.0, gain=4)
        cls = g.conv2d(g.conv(x, c, 16, 3), 16, classes, 1, bias=-2.0, gain=8)
        sides.append(g.reshape(box, [0, 4 * BINS, cells]))
        scores.append(g.reshape(cls, [0, classes, cells]))
        rows, columns = np.mgrid[: size // stride, : size // stride] + 0.5
        centers.append(np.stack([columns.ravel(), rows.ravel()]))
        steps.append(np.full(cells, stride))
    centers, steps = np.concatenate(centers, 1)[None], np.concatenate(steps)[None, None]
    box = g.node("Concat", sides, axis=2)
    box = g.node("Transpose", [g.reshape(box, [0, 4, BINS, -1])], perm=[0, 2, 1, 3])
    box = g.node("Softmax", [box], axis=1)
    weight = g.const(np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1), "dfl.conv.weight")
    box = g.reshape(g.node("Conv", [box, weight], kernel_shape=[1, 1]), [0, 4, -1])
    halves = g.const(np.array([2, 2], np.int64), "split")
    low, high = g.node("Split", [box, halves], outputs=2, axis=1)
    anchors = g.const(centers.astype(np.float32), "anchors")
    corners = [g.node("Sub", [anchors, low]), g.node("Add", [anchors, high])]
    box = g.node("Mul", [g.node("Concat", corners, axis=1), g.const(steps.astype(np.float32), "strides")])
    cls = g.node("Sigmoid", [g.node("Concat", scores, axis=2)])
    return g.node("Transpose", [box], perm=[0, 2, 1]), g.node("Transpose", [cls], perm=[0, 2, 1])


def body(g, images):
    x = g.conv(images, 3, 8, 3, 2)
    x = g.c2f(g.conv(x, 8, 16, 3, 2), 16, 16)
    p3 = g.c2f(g.conv(x, 16, 32, 3, 2), 32, 32)
    p4 = g.sppf(g.conv(p3, 32, 48, 3, 2), 48)
    n3 = g.c2f(g.node("Concat", [g.upsample(p4), p3], axis=1), 80, 32)
    n4 = g.c2f(g.node("Concat", [g.conv(n3, 32, 32, 3, 2), p4], axis=1), 80, 48)
    return (n3, n4), (32, 48)


def make(classes=4, size=64, batch="batch", nms=None):
    """The model; its last node is EfficientNMS_TRT with the attributes in `nms`, if given."""
    g = GraphWriter()
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, size, size])
    boxes, scores = detect(g, *body(g, "images"), classes, size)
    outputs = {"boxes": (boxes, [batch, None, 4]), "scores": (scores, [batch, None, classes])}
    for name, (value, _) in outputs.items():
        g.nodes.append(helper.make_node("Identity", [value], [name], name=f"to_{name}"))
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, (_, dims) in outputs.items()]
    if nms is not None:
        infos = append_nms(g, batch, nms)
    graph = helper.make_graph(g.nodes, "main_graph", [images], infos, g.initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("TRT", 1)]
    model = helper.make_model(graph, opset_imports=opsets[: 1 if nms is None else 2])
    model.ir_version = 9
    return model


def append_nms(g, batch, nms):
    k = nms["max_output_boxes"]
    kept = {
        "num_dets": (TensorProto.INT32, [batch, 1]),
        "det_boxes": (TensorProto.FLOAT, [batch, k, 4]),
        "det_scores": (TensorProto.FLOAT, [batch, k]),
        "det_classes": (TensorProto.INT32, [batch, k]),
    }
    node = helper.make_node(
        "EfficientNMS_TRT",
        ["boxes", "scores"],
        list(kept),
        name="nms",
        domain="TRT",
        plugin_version="1",
        background_class=-1,
        score_activation=0,
        class_agnostic=0,
        box_coding=0,
        **nms,
    )
    g.nodes.append(node)
    return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in kept.items()]


def save(path, **options):
    onnx.save(make(**options), path)
