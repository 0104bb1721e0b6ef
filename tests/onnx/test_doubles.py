"""Every operator of ONNX that accepts float64 computes in float64, in all its versions, like its
reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator

from anyrt.onnx.backend import prepare

R = np.random.default_rng(3)


def some(*shape: int) -> np.ndarray:
    return R.uniform(0.1, 0.9, shape)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


X = some(2, 4, 6, 6)
FLAT = some(3, 8)
RECURRENT = {"hidden_size": 3}
# Inputs and attributes of operators that need more than one or two tensors of any shape. Integers are
# constants.
ARGUMENTS: dict[str, tuple[list[np.ndarray], dict[str, object]]] = {
    "Acosh": ([FLAT + 1], {}),
    "AffineGrid": ([some(2, 2, 3), whole(2, 3, 4, 5)], {}),
    "Attention": ([some(1, 2, 3, 4), some(1, 2, 5, 4), some(1, 2, 5, 4)], {}),
    "AveragePool": ([X], {"kernel_shape": [2, 3], "pads": [1, 1, 1, 1]}),
    "BatchNormalization": ([X, *(some(4) for _ in range(4))], {}),
    "BitCast": ([FLAT], {"to": TensorProto.INT64}),
    "Cast": ([FLAT], {"to": TensorProto.DOUBLE}),
    "CastLike": ([FLAT, FLAT], {}),
    "CenterCropPad": ([FLAT, whole(4, 6)], {}),
    "Clip": ([FLAT, np.array(1 / 3), np.array(0.5)], {}),
    "Col2Im": ([some(1, 8, 9), whole(4, 4), whole(2, 2)], {}),
    "Compress": ([FLAT, np.array([True, False, True])], {"axis": 0}),
    "Concat": ([FLAT, FLAT], {"axis": 0}),
    "Conv": ([X, some(8, 4, 3, 3), some(8)], {"pads": [1, 1, 1, 1]}),
    "ConvTranspose": ([X, some(4, 3, 3, 3), some(3)], {"strides": [2, 2]}),
    "CumProd": ([FLAT, np.array(1)], {}),
    "CumSum": ([FLAT, np.array(1)], {}),
    "DFT": ([some(1, 6, 1)], {}),
    "DeformConv": ([some(1, 2, 5, 5), some(3, 2, 3, 3), some(1, 18, 3, 3)], {}),
    "DepthToSpace": ([X], {"blocksize": 2}),
    "Det": ([some(2, 3, 3)], {}),
    "Einsum": ([FLAT, some(8, 5)], {"equation": "ij,jk->ik"}),
    "Expand": ([some(1, 8), whole(3, 8)], {}),
    "GRU": ([some(4, 2, 5), some(1, 9, 5), some(1, 9, 3)], RECURRENT),
    "Gather": ([FLAT, whole(2, 0)], {}),
    "GatherElements": ([FLAT, np.array([[1, 0, 2] + [0] * 5])], {}),
    "GatherND": ([FLAT, np.array([[1, 0], [2, 3]])], {}),
    "Gemm": ([FLAT, some(8, 5), some(5)], {"alpha": 0.25, "beta": 0.5}),
    "GridSample": ([some(1, 2, 5, 5), some(1, 3, 3, 2)], {}),
    "GroupNormalization": ([X, some(4), some(4)], {"num_groups": 2, "stash_type": TensorProto.DOUBLE}),
    "InstanceNormalization": ([X, some(4), some(4)], {}),
    "LRN": ([X], {"size": 3, "alpha": 0.25, "beta": 0.5}),
    "LSTM": ([some(4, 2, 5), some(1, 12, 5), some(1, 12, 3)], RECURRENT),
    "LayerNormalization": ([FLAT, some(8), some(8)], {}),
    "LpPool": ([X], {"kernel_shape": [2, 3]}),
    "MatMul": ([FLAT, some(8, 5)], {}),
    "MaxPool": ([X], {"kernel_shape": [2, 3], "strides": [2, 1]}),
    "MaxRoiPool": ([X, np.array([[1.0, 0, 0, 5, 5]])], {"pooled_shape": [2, 2]}),
    "MaxUnpool": (
        [some(1, 1, 2, 2), whole(5, 7, 13, 15).reshape(1, 1, 2, 2)],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "NegativeLogLikelihoodLoss": ([FLAT, whole(1, 0, 7), some(8)], {}),
    "OneHot": ([whole(1, 2), np.array(4), np.array([1 / 3, 1e150])], {}),
    "Pad": ([FLAT, whole(1, 0, 1, 2), np.array(1 / 3)], {}),
    "RMSNormalization": ([FLAT, some(8)], {}),
    "RNN": ([some(4, 2, 5), some(1, 3, 5), some(1, 3, 3)], RECURRENT),
    "Range": ([np.array(1 / 3), np.array(4.0), np.array(1 / 3)], {}),
    "Reshape": ([FLAT, whole(4, 6)], {}),
    "Resize": ([X, np.zeros(0), np.float32([1, 1, 2, 1.5])], {"mode": "linear"}),
    "ReverseSequence": ([FLAT, whole(1, 2, 3, 1, 2, 3, 1, 2)], {}),
    "RoiAlign": ([X, np.array([[0.5, 0.25, 4, 3]]), whole(1)], {"output_height": 2, "output_width": 2}),
    "STFT": ([some(1, 16, 1), np.array(4), some(8)], {}),
    "ScatterElements": ([FLAT, np.array([[1, 0, 2]]), some(1, 3)], {}),
    "ScatterND": ([FLAT, np.array([[1], [2]]), some(2, 8)], {}),
    "Slice": ([FLAT, whole(1), whole(3)], {}),
    "SoftmaxCrossEntropyLoss": ([FLAT, whole(1, 0, 7)], {}),
    "SpaceToDepth": ([X], {"blocksize": 2}),
    "Split": ([FLAT], {"num_outputs": 1}),
    "Squeeze": ([some(1, 3), whole(0)], {}),
    "TensorScatter": ([some(1, 2, 4, 3), some(1, 2, 2, 3)], {}),
    "Tile": ([FLAT, whole(2, 1)], {}),
    "TopK": ([FLAT, whole(3)], {}),
    "Trilu": ([some(3, 3)], {}),
    "Unsqueeze": ([FLAT, whole(0)], {}),
    "Where": ([np.array([[True, False] * 4]), FLAT, FLAT + 1], {}),
}
# The same for versions with other inputs or attributes.
OLDER: dict[tuple[str, int], tuple[list[np.ndarray], dict[str, object]]] = {
    ("BatchNormalization", 1): (
        [X, *(some(4) for _ in range(4))],
        {"consumed_inputs": [0] * 5, "is_test": 1},
    ),
    ("BatchNormalization", 6): ([X, *(some(4) for _ in range(4))], {"is_test": 1}),
    ("Cast", 1): ([FLAT], {"to": "DOUBLE"}),
    ("Clip", 1): ([FLAT], {"min": 0.25, "max": 0.5}),
    ("Clip", 6): ([FLAT], {"min": 0.25, "max": 0.5}),
    ("Gemm", 1): ([FLAT, some(8, 5), some(3, 5)], {"alpha": 0.25, "beta": 0.5}),
    ("Gemm", 6): ([FLAT, some(8, 5), some(3, 5)], {"alpha": 0.25, "beta": 0.5}),
    ("Pad", 1): ([FLAT], {"paddings": [1, 0, 1, 2], "value": 0.25}),
    ("Pad", 2): ([FLAT], {"pads": [1, 0, 1, 2], "value": 0.25}),
    ("Reshape", 1): ([FLAT], {"shape": [4, 6]}),
    ("Resize", 10): ([X, np.float32([1, 1, 2, 1.5])], {"mode": "linear"}),
    ("Slice", 1): ([FLAT], {"starts": [1], "ends": [3], "axes": [0]}),
    **{("Split", v): ([FLAT], {"split": [3]}) for v in (1, 2, 11)},
    ("Split", 13): ([FLAT, whole(3)], {}),
    **{("Squeeze", v): ([some(1, 3)], {"axes": [0]}) for v in (1, 11)},
    ("TopK", 1): ([FLAT], {"k": 3}),
    **{("Unsqueeze", v): ([FLAT], {"axes": [0]}) for v in (1, 11)},
}
erf = np.vectorize(math.erf, otypes=[np.float64])


def log_softmax(x: np.ndarray) -> np.ndarray:
    centred = x - x.max(axis=-1, keepdims=True)
    return centred - np.log(np.exp(centred).sum(axis=-1, keepdims=True))


def affine_grid(theta: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    rows, columns = ((2 * np.arange(n) + 1) / n - 1 for n in sizes[2:])
    places = np.stack([*np.meshgrid(columns, rows), np.ones(sizes[2:])], -1)
    return np.einsum("hwk,nik->nhwi", places, theta)


def between(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """(C,) interpolated in an image (C, H, W) at a position inside it, with zeros past its end."""
    i, j = int(y), int(x)
    a, b = y - i, x - j
    corner = np.pad(image, [(0, 0), (0, 2), (0, 2)])[:, i : i + 2, j : j + 2]
    return np.einsum("i,j,cij->c", [1 - a, a], [1 - b, b], corner)


def grid_sample(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    at = ((grid + 1) * 5 - 1) / 2
    points = [between(x[0], at[0, i, j, 1], at[0, i, j, 0]) for i, j in np.ndindex(3, 3)]
    return np.stack(points, -1).reshape(1, 2, 3, 3)


def deform_conv(x: np.ndarray, kernel: np.ndarray, offset: np.ndarray) -> np.ndarray:
    y = np.zeros((1, 3, 3, 3))
    for i, j, u, v in np.ndindex(3, 3, 3, 3):
        dy, dx = offset[0, 2 * (3 * u + v) :, i, j][:2]
        y[0, :, i, j] += kernel[:, :, u, v] @ between(x[0], i + u + dy, j + v + dx)
    return y


def lrn(x: np.ndarray) -> np.ndarray:
    squares = np.pad(x * x, [(0, 0), (1, 1), (0, 0), (0, 0)])
    return x / np.sqrt(1 + 0.25 / 3 * (squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]))


def mean_variance(x):
    across = {"axis": (0, 2, 3), "keepdims": True}
    return (x - x.mean(**across)) / (np.sqrt((x * x).mean(**across) - x.mean(**across) ** 2) + 1e-9)


# Operators for which ONNX's reference is missing, rounds to float32, overflows, or (LRN) uses other channels.
REFERENCES = {
    "AffineGrid": affine_grid,
    "DeformConv": deform_conv,
    "Erf": erf,
    "Gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "GlobalLpPool": lambda x: np.sqrt((x * x).sum(axis=(2, 3), keepdims=True)),
    "GridSample": grid_sample,
    "LRN": lrn,
    "LogSoftmax": log_softmax,
    "MeanVarianceNormalization": mean_variance,
    "SoftmaxCrossEntropyLoss": lambda x, at: -log_softmax(x)[np.arange(at.size), at].mean(),
    "MaxRoiPool": lambda x, _: x[1:].reshape(1, 4, 2, 3, 2, 3).max(axis=(3, 5)),
}


def batch_normalization(x, scale, bias, mean, variance):
    scale, bias, mean, variance = (v.reshape(1, 4, 1, 1) for v in (scale, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + bias


def rnn(x: np.ndarray, w: np.ndarray, r: np.ndarray) -> np.ndarray:
    state, states = np.zeros((2, 3)), []
    for row in x:
        state = np.tanh(row @ w[0].T + state @ r[0].T)
        states.append(state)
    return np.stack(states)[:, None]


def average_pool(x: np.ndarray) -> np.ndarray:
    padded = np.pad(np.stack([x, np.ones_like(x)]), [(0, 0)] * 3 + [(1, 1)] * 2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), axis=(3, 4)).sum((-2, -1))
    return windows[0] / windows[1]


def resized(x: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Resized along the last axes, each starting at its first element."""
    for axis, scale in ((2, float(scales[2])), (3, float(scales[3]))):
        n = x.shape[axis]
        at = np.minimum(np.arange(int(n * scale)) / scale, n - 1)
        i = np.floor(at).astype(int)
        t = (at - i).reshape([-1 if k == axis else 1 for k in range(4)])
        x = x.take(i, axis) * (1 - t) + x.take(np.minimum(i + 1, n - 1), axis) * t
    return x


# Versions that the reference lacks or computes differently.
OLDER_REFERENCES = {
    ("AveragePool", 1): average_pool,
    **dict.fromkeys([("BatchNormalization", v) for v in (1, 6, 7, 9)], batch_normalization),
    ("Clip", 1): lambda x: np.clip(x, 0.25, 0.5),
    **dict.fromkeys([("Gemm", v) for v in (1, 6)], lambda a, b, c: 0.25 * (a @ b) + 0.5 * c),
    ("Cast", 1): lambda x: x,
    ("Reshape", 1): lambda x: x.reshape(4, 6),
    ("Pad", 1): lambda x: np.pad(x, [(1, 1), (0, 2)], constant_values=0.25),
    ("Split", 1): lambda x: x,
    ("RNN", 1): rnn,
    ("Resize", 10): resized,
}
IMAGES = ("Global", "MeanVarianceNormalization")  # of operators with these inputs
DRAWN = "it draws random numbers"
HELD = "it holds tensors, or graphs that compute by themselves"
# Operators that are not run here, and why.
LEFT = {
    **dict.fromkeys(("Bernoulli", "Dropout", "Multinomial", "RandomNormalLike", "RandomUniformLike"), DRAWN),
    **dict.fromkeys(("Loop", "Scan", "SequenceMap", "Optional", "OptionalGetElement"), HELD),
    **dict.fromkeys(("OptionalHasElement", "SequenceConstruct", "SequenceInsert", "SplitToSequence"), HELD),
    **dict.fromkeys(("Scatter", "Upsample"), "it was replaced"),
    "EyeLike": "it takes a shape alone",
    "MelWeightMatrix": "its result is float32, unless asked for",
}


def schemas() -> dict[str, defs.OpSchema]:
    """The latest version of each operator that accepts float64."""
    results: dict[str, defs.OpSchema] = {}
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        if schema.domain == "" and not schema.deprecated:
            results[schema.name] = schema
    return {name: schema for name, schema in sorted(results.items()) if takes_double(schema)}


def takes_double(schema: defs.OpSchema) -> bool:
    kinds = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return any("tensor(double)" in kinds.get(i.type_str, [i.type_str]) for i in schema.inputs)


SCHEMAS = schemas()
NAMES = [name for name in SCHEMAS if name not in LEFT]


def inputs_of(name: str, version: int = 0) -> tuple[list[np.ndarray], dict[str, object]]:
    if (name, version) in OLDER:
        return OLDER[name, version]
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    x = X if name.startswith(IMAGES) else FLAT
    return [x, *([x[::-1].copy()] if SCHEMAS[name].min_input == 2 else [])], {}


def both(
    name: str, inputs: list[np.ndarray], attributes: dict[str, object], version: int | None = None
) -> tuple[list, list]:
    """The outputs of AnyRT and of ONNX's reference, for the latest version by default."""
    names = [f"x{k}" if x.size else "" for k, x in enumerate(inputs)]
    fed = {n: x for n, x in zip(names, inputs, strict=True) if n and x.dtype == np.float64}
    kept = {n: x for n, x in zip(names, inputs, strict=True) if n and n not in fed}
    count = 2 if name == "TopK" else 1
    node = helper.make_node(name, names, [f"y{k}" for k in range(count)], **attributes)
    declared = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in fed.items()
    ]
    weights = [
        helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape, x.reshape(-1))
        for n, x in kept.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(n) for n in node.output]
    graph = helper.make_graph([node], "g", declared, outputs, weights)
    opset = max(SCHEMAS[name].since_version, 13) if version is None else version
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    own = OLDER_REFERENCES.get((name, version or 0), REFERENCES.get(name))
    with np.errstate(all="ignore"):
        if own is not None:
            return list(prepare(model).run(fed)), [own(*inputs)]
        return list(prepare(model).run(fed)), ReferenceEvaluator(model).run(None, fed)


def terms(name: str, inputs: list[np.ndarray]) -> int:
    """The largest number of terms in a sum."""
    return max(x.size for x in inputs)


@pytest.mark.parametrize("name", NAMES)
def test_operators_on_float64_compute_in_float64(name):
    inputs, attributes = inputs_of(name)
    for got, expected in zip(*both(name, inputs, attributes), strict=True):
        assert got.dtype == expected.dtype
        tolerance = 2.0**-51 * (8 + np.sqrt(terms(name, inputs)))
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


EXTREME = np.array([1 / 3, 1e300, 1e-300, -1 / 3, -1e300, -1e-300, 2.0, 0.0])
ONE = [n for n in NAMES if n not in ARGUMENTS and SCHEMAS[n].min_input == 1 and not n.startswith(IMAGES)]


@pytest.mark.parametrize("name", ONE)
def test_numbers_that_float32_has_not_stay_what_they_are(name):
    for x in (EXTREME.reshape(1, 8), EXTREME[:1].reshape(1, 1)):
        for got, expected in zip(*both(name, [x], {}), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-14, atol=0)


BEFORE = sorted(
    {
        (schema.name, schema.since_version)
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.name in NAMES and not schema.deprecated and takes_double(schema)
    }
    - {(name, SCHEMAS[name].since_version) for name in NAMES}
)
# Other positions between elements: those of the next version, with this attribute.
BETWEEN = {("RoiAlign", 10): {"coordinate_transformation_mode": "output_half_pixel"}}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "version"), BEFORE)
def test_earlier_versions_on_float64_compute_in_float64(name, version):
    inputs, attributes = inputs_of(name, version)
    actual, expected = both(name, inputs, attributes, version)
    if (name, version) in BETWEEN:
        _, expected = both(name, inputs, attributes | BETWEEN[name, version])
    for got, want in zip(actual, expected, strict=True):
        assert got.dtype == want.dtype
        tolerance = 2.0**-51 * (8 + np.sqrt(terms(name, inputs)))
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


MORE = sorted({*NAMES} - {*ONE})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scale", [1 / 3, 1e150, 1e-150])
@pytest.mark.parametrize("name", MORE)
def test_numbers_beyond_float32_are_taken_as_they_are(name, scale):
    """The first float64 operand contains numbers beyond float32, and the ends of all ranges: squares are
    float64, too."""
    inputs, attributes = inputs_of(name)
    floats = [k for k, x in enumerate(inputs) if x.dtype == np.float64 and x.size]
    larger = floats if name == "Range" else floats[:1]
    inputs = [x * scale if k in larger else x for k, x in enumerate(inputs)]
    for got, expected in zip(*both(name, inputs, attributes), strict=True):
        assert got.dtype == expected.dtype
        finite = np.abs(np.float64(expected)[np.isfinite(expected)])
        tolerance = 2.0**-51 * (8 + np.sqrt(terms(name, inputs)))
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * finite.max(initial=0))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_both_forms_of_gelu_are_computed_in_float64(approximate):
    (got,), _ = both("Gelu", [FLAT], {"approximate": approximate})
    inner = np.sqrt(2 / np.pi) * (FLAT + 0.044715 * FLAT**3)
    expected = 0.5 * FLAT * (1 + (np.tanh(inner) if approximate == "tanh" else erf(FLAT / math.sqrt(2))))
    np.testing.assert_allclose(got, expected, rtol=1e-14)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize(("op", "domain", "weights", "function"), [
    ("Gelu", "com.microsoft", [], lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))),
    ("BiasGelu", "com.microsoft", [FLAT[0]],
     lambda x, b: 0.5 * (x + b) * (1 + erf((x + b) / math.sqrt(2)))),
    ("QuickGelu", "com.microsoft", [], lambda x: x / (1 + np.exp(-np.float32(1.702) * x))),
    ("FusedMatMul", "com.microsoft", [some(8, 5)], lambda x, y: x @ y),
    ("FusedGemm", "com.microsoft", [some(8, 5), some(5)], lambda x, y, c: x @ y + c),
    ("SimplifiedLayerNormalization", "", [some(8)],
     lambda x, s: x / np.sqrt((x * x).mean(1, keepdims=True) + np.float32(1e-5)) * s),
    ("SkipLayerNormalization", "com.microsoft", [some(3, 8), some(8)],
     lambda x, y, s: (c := x + y - (x + y).mean(1, keepdims=True))
     / np.sqrt((c * c).mean(1, keepdims=True) + np.float32(1e-12)) * s),
    ("SkipSimplifiedLayerNormalization", "com.microsoft", [some(3, 8), some(8)],
     lambda x, y, s: (x + y) / np.sqrt(((x + y) ** 2).mean(1, keepdims=True) + np.float32(1e-12)) * s),
    ("Imputer", "ai.onnx.ml", [], lambda x: x),
    ("Binarizer", "ai.onnx.ml", [], lambda x: np.float64(x > 0)),
])  # fmt: skip
def test_operators_of_other_domains_compute_in_float64(op, domain, weights, function, opened):
    x = FLAT
    fed = {f"x{k}": a for k, a in enumerate([x, *weights])}
    attributes = {"imputed_value_floats": [1.0]} if op == "Imputer" else {}
    node = helper.make_node(op, [*fed], ["y"], domain=domain, **attributes)
    declared = [
        helper.make_tensor_value_info(
            n, TensorProto.DOUBLE, [f"{n}{k}" for k in range(a.ndim)] if opened else a.shape
        )
        for n, a in fed.items()
    ]
    graph = helper.make_graph([node], "g", declared, [helper.make_empty_tensor_value_info("y")])
    sets = [helper.make_opsetid(*s) for s in (("", 21), ("com.microsoft", 1), ("ai.onnx.ml", 3))]
    (got,) = prepare(helper.make_model(graph, opset_imports=sets)).run(fed)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, function(*fed.values()), rtol=1e-13)


def test_open_head_sizes_are_scaled_in_float64():
    q, k, v = (some(1, 2, n, 3) for n in (4, 5, 5))
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    declared = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, [1, 2, n + "s", "d"]) for n in "qkv"]
    graph = helper.make_graph([node], "g", declared, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    (got,) = prepare(model).run({"q": q, "k": k, "v": v})
    powers = np.exp(q @ k.swapaxes(2, 3) / math.sqrt(3))
    np.testing.assert_allclose(got, powers / powers.sum(3, keepdims=True) @ v, rtol=1e-14)


def test_every_operator_that_is_left_out_takes_float64():
    assert {*LEFT, *ARGUMENTS} <= set(SCHEMAS)
    assert {*OLDER, *OLDER_REFERENCES, *BETWEEN} <= set(BEFORE)
