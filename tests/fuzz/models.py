"""Small models of all kinds, which the fuzzers mutate: `MODELS[0]()`."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F, LONG, FLAG = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DATA = "weights.bin"  # 1024 bytes next to the model


def node(op, inputs, outputs, **more):
    """A node; each list of names is one text with spaces."""
    return helper.make_node(op, inputs.split(), outputs.split(), name=f"{op}_{outputs.split()[0]}", **more)


def value(name, *sizes, kind=F):
    return helper.make_tensor_value_info(name, kind, sizes)


def weight(name, *sizes, kind=np.float32):
    count = int(np.prod(sizes))
    return numpy_helper.from_array((np.arange(count) % 7 - 3).reshape(sizes).astype(kind), name)


def ints(name, *numbers):
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


def model(nodes, inputs, outputs, weights=(), functions=(), values=(), opset=21):
    sets = [helper.make_opsetid("", opset)]
    sets += [helper.make_opsetid(d, 1) for d in {f.domain for f in functions}]
    sets += [helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights), value_info=list(values))
    return helper.make_model(graph, opset_imports=sets, functions=list(functions), ir_version=10)


def convolutions():
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], group=1),
        node("BatchNormalization", "c s b s v", "n", epsilon=1e-3),
        node("Clip", "n low high", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("ConvTranspose", "p t", "u", strides=[2, 2], auto_pad="SAME_UPPER"),
        node("GlobalAveragePool", "u", "g"),
        node("Flatten", "g", "f", axis=1),
        node("Gemm", "f m", "y", alpha=0.5, transB=1),
    ]
    weights = [weight("w", 4, 3, 3, 3), weight("b", 4), weight("s", 4), weight("t", 4, 2, 3, 3)]
    weights += [numpy_helper.from_array(np.ones(4, np.float32), "v"), weight("m", 5, 2)]
    weights += [numpy_helper.from_array(np.float32(n), k) for k, n in (("low", 0), ("high", 6))]
    shapes = [value("c", "n", 4, 8, 8), value("p", "n", 4, 4, 4)]
    return model(nodes, [value("x", "n", 3, 8, 8)], [value("y", "n", 5)], weights, values=shapes)


def attention():
    nodes = [
        node("LayerNormalization", "x g", "l", axis=-1),
        node("MatMul", "l w", "qkv"),
        node("Split", "qkv", "q k v", axis=-1, num_outputs=3),
        node("Reshape", "q heads", "q4"),
        node("Transpose", "q4", "qt", perm=[0, 2, 1, 3]),
        node("Reshape", "k heads", "k4"),
        node("Transpose", "k4", "kt", perm=[0, 2, 3, 1]),
        node("MatMul", "qt kt", "s"),
        node("Softmax", "s", "a", axis=-1),
        node("Einsum", "a a", "e", equation="bhij,bhkj->bhik"),
        node("ReduceMean", "e axes", "y", keepdims=0),
        node("Attention", "q k v", "z", q_num_heads=2, kv_num_heads=2, is_causal=1),
    ]
    weights = [weight("g", 8), weight("w", 8, 24), ints("heads", 0, 0, 2, 4), ints("axes", -1)]
    return model(
        nodes,
        [value("x", "b", "s", 8)],
        [value("y", "b", 2, "s"), value("z", "b", "s", 8)],
        weights,
        opset=23,
    )


def loop():
    inner = [
        node("Identity", "go", "more"),
        node("Add", "a w", "b"),
        node("Slice", "b zero one", "row"),
        node("Reshape", "row flat", "out"),
    ]
    parts = [value("i", kind=LONG), value("go", kind=FLAG), value("a", 4)]
    results = [value("more", kind=FLAG), value("b", 4), value("out", 1)]
    body = helper.make_graph(
        inner, "body", parts, results, [ints("zero", 0), ints("one", 1), ints("flat", -1)]
    )
    step = helper.make_graph(
        [node("Add", "h e", "h2"), node("Tanh", "h2", "t")],
        "step",
        [value("h", 4), value("e", 4)],
        [value("h2", 4), value("t", 4)],
    )
    nodes = [
        node("Loop", "n c x", "y rows", body=body),
        node("Scan", "x many", "last all", body=step, num_scan_inputs=1),
    ]
    weights = [
        weight("w", 4),
        numpy_helper.from_array(np.int64(3), "n"),
        numpy_helper.from_array(np.array(True), "c"),
    ]
    outputs = [value("y", 4), value("rows", 3, 1), value("last", 4), value("all", "k", 4)]
    return model(nodes, [value("x", 4), value("many", "k", 4)], outputs, weights)


def branches():
    def branch(name, *nodes):
        return helper.make_graph(list(nodes), name, [], [value(f"{name}_y", "n", 4)])

    inner = node(
        "If",
        "c",
        "deep_y",
        then_branch=branch("a", node("Relu", "x", "a_y")),
        else_branch=branch("b", node("Neg", "x", "b_y")),
    )
    outer = node(
        "If", "c", "y", then_branch=branch("deep", inner), else_branch=branch("d", node("Exp", "x", "d_y"))
    )
    return model([outer], [value("x", "n", 4), value("c", kind=FLAG)], [value("y", "n", 4)])


def functions():
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    scale = node("Elu", "a", "b")
    reference = scale.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", 1
    first = helper.make_function("own", "First", ["a"], ["b"], [scale], sets, ["slope"])
    calls = [helper.make_node("First", ["a"], ["c"], domain="own", slope=0.5), node("Celu", "c", "b")]
    second = helper.make_function("own", "Second", ["a"], ["b"], calls, sets)
    nodes = [helper.make_node("Second", ["x"], ["s"], domain="own"), node("HardSwish", "s", "y")]
    return model(nodes, [value("x", "n", 4)], [value("y", "n", 4)], functions=[first, second])


def outside():
    big = TensorProto(name="w", data_type=F, dims=[8, 32], data_location=TensorProto.EXTERNAL)
    small = TensorProto(name="k", data_type=LONG, dims=[2], data_location=TensorProto.EXTERNAL)
    for tensor, reported in ((big, ("0", "1024")), (small, ("16", "16"))):
        for key, text in zip(("location", "offset", "length"), (DATA, *reported), strict=True):
            tensor.external_data.add(key=key, value=text)
    nodes = [
        node("MatMul", "x w", "m"),
        node("Cast", "k", "f", to=F),
        node("ReduceSum", "f", "t"),
        node("Mul", "m t", "y"),
    ]
    return model(nodes, [value("x", "n", 8)], [value("y", "n", 32)], [big, small])


def quantised():
    nodes = [
        node("QuantizeLinear", "x scale zero", "q"),
        node("QLinearConv", "q scale zero w scale wzero scale zero", "c", pads=[1, 1, 1, 1]),
        node("DequantizeLinear", "c scale zero", "d"),
        node("DynamicQuantizeLinear", "d", "dq ds dz"),
        node("ConvInteger", "dq w dz", "i"),
        node("Cast", "i", "y", to=F),
        node("DequantizeLinear", "w scales zeros", "z", axis=0),
    ]
    weights = [
        numpy_helper.from_array(np.float32(0.1), "scale"),
        numpy_helper.from_array(np.uint8(9), "zero"),
    ]
    weights += [numpy_helper.from_array(np.int8(0), "wzero"), weight("w", 2, 2, 3, 3, kind=np.int8)]
    weights += [
        numpy_helper.from_array(np.float32([0.1, 0.2]), "scales"),
        numpy_helper.from_array(np.int8([0, 1]), "zeros"),
    ]
    return model(nodes, [value("x", 1, 2, 6, 6)], [value("y", 1, 2, 4, 4), value("z", 2, 2, 3, 3)], weights)


def resized():
    nodes = [
        node("Resize", "x  scales", "r", mode="linear", coordinate_transformation_mode="align_corners"),
        node("Pad", "r pads", "p", mode="reflect"),
        node("Slice", "p starts ends axes steps", "s"),
        node("GridSample", "s grid", "g", padding_mode="border"),
        node("DepthToSpace", "g", "y", blocksize=2),
    ]
    nodes[0].input[:] = ["x", "", "scales"]
    weights = [
        numpy_helper.from_array(np.float32([1, 1, 2, 1.5]), "scales"),
        ints("pads", 0, 0, 1, 1, 0, 0, 1, 1),
    ]
    weights += [ints("starts", 1, -2), ints("ends", 9, -9), ints("axes", 2, 3), ints("steps", 1, -1)]
    weights += [weight("grid", 1, 3, 3, 2)]
    return model(nodes, [value("x", 1, 4, 6, 6)], [value("y", 1, 1, 6, 6)], weights)


def sequences():
    nodes = [
        node("SplitToSequence", "x split", "s", axis=0),
        node("SequenceAt", "s one", "a"),
        node("SequenceInsert", "s a", "s2"),
        node("ConcatFromSequence", "s2", "c", axis=0),
        node("SequenceLength", "s2", "n"),
        node("Expand", "n shape", "e"),
        node("TopK", "c k", "y z", axis=1),
        node("NonZero", "c", "w"),
    ]
    weights = [
        ints("split", 1, 2),
        numpy_helper.from_array(np.int64(1), "one"),
        ints("shape", 3),
        ints("k", 2),
    ]
    outputs = [
        value("y", 5, 2),
        value("z", 5, 2, kind=LONG),
        value("e", 3, kind=LONG),
        value("w", 2, "found", kind=LONG),
    ]
    return model(nodes, [value("x", 3, 4)], outputs, weights)


def recurrent():
    nodes = [
        node("LSTM", "x w r b", "y h c", hidden_size=4, direction="bidirectional"),
        node("GRU", "x gw gr", "gy gh", hidden_size=4, linear_before_reset=1),
        node("Transpose", "y", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t shape", "z"),
    ]
    weights = [weight("w", 2, 16, 3), weight("r", 2, 16, 4), weight("b", 2, 32), weight("gw", 1, 12, 3)]
    weights += [weight("gr", 1, 12, 4), ints("shape", 0, 0, -1)]
    outputs = [value("z", "s", "b", 8), value("gh", 1, "b", 4)]
    return model(nodes, [value("x", "s", "b", 3)], outputs, weights)


def sizes():
    nodes = [
        node("Shape", "x", "all"),
        node("Gather", "all zero", "n"),
        node("Unsqueeze", "n first", "n1"),
        node("Concat", "n1 rest", "to", axis=0),
        node("Reshape", "x to", "r"),
        node("ConstantOfShape", "wanted", "k", value=weight("v", 1)),
        node("Range", "start limit step", "range"),
        node("Tile", "r times", "tiled"),
        node("OneHot", "range depth onoff", "hot"),
        node("GatherND", "tiled picked", "g"),
        node("ScatterElements", "x where what", "sc", axis=1),
    ]
    weights = [
        numpy_helper.from_array(np.int64(0), "zero"),
        ints("first", 0),
        ints("rest", 2, -1),
        ints("times", 1, 2, 1),
    ]
    weights += [
        numpy_helper.from_array(np.int64(k), n)
        for n, k in (("start", 0), ("limit", 5), ("step", 2), ("depth", 6))
    ]
    weights += [weight("onoff", 2), numpy_helper.from_array(np.int64([[0, 1]]), "picked")]
    weights += [numpy_helper.from_array(np.int64([[0, 1]]), "where"), weight("what", 1, 2)]
    outputs = [value("k", "a", "b"), value("g", 1, 2), value("hot", 3, 6), value("sc", "n", 4)]
    return model(nodes, [value("x", "n", 4), value("wanted", 2, kind=LONG)], outputs, weights)


def contributed():
    def own(op, inputs, outputs, **more):
        return helper.make_node(op, inputs.split(), outputs.split(), domain="com.microsoft", **more)

    nodes = [
        own("SkipLayerNormalization", "x x g", "s", epsilon=1e-5),
        own("FastGelu", "s g", "f"),
        own("FusedMatMul", "f f", "m", transB=1, alpha=0.5),
        own("MultiHeadAttention", "x x x", "a", num_heads=2),
        own("MatMulNBits", "x q scales", "n", K=8, N=2, bits=4, block_size=16),
        node("NonMaxSuppression", "boxes scores most iou", "kept"),
        node("CumSum", "m axis", "y"),
    ]
    weights = [weight("g", 8), weight("q", 2, 1, 8, kind=np.uint8), weight("scales", 2), ints("axis", 1)]
    weights += [weight("boxes", 1, 5, 4), weight("scores", 1, 2, 5), ints("most", 2)]
    weights += [numpy_helper.from_array(np.float32([0.5]), "iou")]
    weights[3] = numpy_helper.from_array(np.int64(1), "axis")
    outputs = [
        value("y", 1, "t", "t"),
        value("a", 1, "t", 8),
        value("n", 1, "t", 2),
        value("kept", "k", 3, kind=LONG),
    ]
    return model(nodes, [value("x", 1, "t", 8)], outputs, weights)


MODELS = (
    convolutions,
    attention,
    loop,
    branches,
    functions,
    outside,
    quantised,
    resized,
    sequences,
    recurrent,
    sizes,
    contributed,
)
