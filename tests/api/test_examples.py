"""The worked examples as a user writes them: calls with keyword arguments, an engine, numbers."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt
from anyrt.core.dtype import pack4, parse
from anyrt.core.errors import DTypeError

EXAMPLES = json.loads((Path(__file__).parents[1] / "ops/examples.json").read_text())


def weights(inputs, result):
    """Weights of a type that NumPy supports, or of two int4 in each byte, at an address that `result` keeps
    alive."""
    if inputs["dtype"] != "int4":
        return np.array(inputs["values"], trt.nptype(parse(inputs["dtype"])))
    values = result["held"] = pack4(np.array(inputs["values"]).astype(ml_dtypes.int4))
    return trt.Weights(trt.int4, values.ctypes.data, inputs["count"])


def argument(value, result):
    """The argument of a call for one value of an example."""
    match value:
        case str() if value.startswith("$"):
            name, _, index = value[1:].partition(".")
            return result[name].get_output(int(index)) if index else result[name]
        case str() if "." in value:
            enum, member = value.split(".")
            return getattr(trt, enum)[member]
        case dict():
            return weights(value, result)
        case [str(), *_]:
            return [argument(v, result) for v in value]
    try:
        return parse(value) if isinstance(value, str) else value
    except DTypeError:
        return value  # an equation, a message


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["id"])
def test_example_gives_the_published_numbers_as_a_program(net, example):
    actual = {"network": net}
    for call in example["calls"]:
        owner, name = call.get("set", call.get("call")).split(".")
        if "set" in call:
            setattr(actual[owner], name, argument(call["value"], actual))
        else:
            args = {k: argument(v, actual) for k, v in call["args"].items()}
            actual[call.get("id")] = getattr(actual[owner], name)(**args)
    for name in example["expected"]:
        argument(name, actual).name = name
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    inputs = [net.get_input(i) for i in range(net.num_inputs)]
    feeds = {
        x.name: np.array(example["inputs"][x.name], trt.nptype(x.dtype)).reshape(x.shape) for x in inputs
    }
    for name, got in engine.run(**feeds).items():
        want = np.array(example["expected"][name]).reshape(got.shape)
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=example["tolerance"])


@pytest.mark.parametrize(("condition", "expected"), [(True, 5.0), (False, 0.0)])
def test_the_example_of_a_conditional_gives_one_of_two_inputs(net, condition, expected):
    chooser = net.add_if_conditional()
    assert chooser.set_condition(condition=net.add_input("condition", trt.bool, ()))
    one, other = (
        chooser.add_input(input=net.add_input(name, trt.float32, (1, 1))) for name in ("true", "false")
    )
    output = chooser.add_output(
        true_subgraph_output=one.get_output(0), false_subgraph_output=other.get_output(0)
    )
    net.mark_output(output.get_output(0))
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    inputs = {"condition": np.array(condition), "true": np.float32([[5]]), "false": np.float32([[0]])}
    assert [*engine.run(**inputs).values()] == [expected]


def test_an_assertion_of_different_shapes_fails_the_build(net, log):
    sizes = [
        net.add_shape(net.add_input(f"input{i}", trt.float32, (3, 4 - i, 4))).get_output(0) for i in (0, 1)
    ]
    net.mark_output(net.add_identity(net.get_input(0)).get_output(0))
    same = net.add_elementwise(*sizes, trt.ElementWiseOperation.EQUAL)
    net.add_assertion(condition=same.get_output(0), message="the shapes differ")
    assert net.builder.build_serialized_network(net, net.builder.create_builder_config()) is None
    assert "[AR410]" in log.lines[-1]
    assert "the shapes differ" in log.lines[-1]
