"""Models of one node, run by AnyRT and by ONNX's reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from anyrt.onnx.backend import prepare

# exports.py imports PyTorch; without PyTorch, `test_exports.py` reports that it is missing.
collect_ignore = ["exports.py"]


def of_node(
    node: NodeProto,
    inputs: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    opset: int,
    dynamic: Sequence[str] = (),
) -> ModelProto:
    """A model of one node; `dynamic`: inputs with dynamic dimensions."""

    def value_info(name: str, x: np.ndarray) -> object:
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        sizes = [f"{name}{k}" for k in range(x.ndim)] if name in dynamic else list(x.shape)
        return helper.make_tensor_value_info(name, kind, sizes)

    outputs = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
    weights = [numpy_helper.from_array(x, n) for n, x in constants.items()]
    graph: GraphProto = helper.make_graph(
        [node], "g", [value_info(n, x) for n, x in inputs.items()], outputs, weights
    )
    versions = {"": opset, "ai.onnx.ml": 4}
    sets = [helper.make_opsetid(d, versions.get(d, 1)) for d in dict.fromkeys(["", node.domain])]
    return helper.make_model(graph, opset_imports=sets)


@pytest.fixture
def run():
    """The outputs of a node: run("Conv", {"x": x}, {"w": w}, group=2)."""

    def run_(op, inputs, constants=None, *, opset=21, order=None, outputs=1, dynamic=(), domain="", **attrs):
        constants = constants or {}
        names = [f"y{k}" for k in range(outputs)] if isinstance(outputs, int) else list(outputs)
        node = helper.make_node(op, order or [*inputs, *constants], names, domain=domain, **attrs)
        model = of_node(node, inputs, constants, opset, dynamic)
        result = prepare(model).run(dict(inputs))
        return result[0] if len(result) == 1 else result

    return run_


@pytest.fixture
def agrees(run):
    """Run a node and compare with ONNX's reference."""

    def agrees_(op, inputs, constants=None, *, tol=1e-4, **more):
        got = run(op, inputs, constants, **more)
        opset, order = more.pop("opset", 21), more.pop("order", None)
        outputs, _, domain = more.pop("outputs", 1), more.pop("dynamic", ()), more.pop("domain", "")
        names = [f"y{k}" for k in range(outputs)] if isinstance(outputs, int) else list(outputs)
        node = helper.make_node(op, order or [*inputs, *(constants or {})], names, domain=domain, **more)
        model = of_node(node, inputs, constants or {}, opset)
        expected = ReferenceEvaluator(model).run(None, dict(inputs))
        for a, b in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(np.float64(a), np.float64(b), rtol=tol, atol=tol)
        return got

    return agrees_
