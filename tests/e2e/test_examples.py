"""Published examples, and programs in their form, from the network to the numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt

HERE = Path(__file__).parent
EXAMPLES = json.loads((HERE.parent / "ops" / "examples.json").read_text())
PROGRAMS = sorted((HERE / "programs").glob("*.py"))


def meaning(value, made):
    """An argument of a call: "$layer.0" is an output, "ScaleMode.UNIFORM" a member, "float32" a type."""
    match value:
        case {"dtype": dtype, "values": values}:
            return np.array(values, trt.nptype(getattr(trt, dtype))).reshape(-1)
        case str() if value.startswith("$"):
            name, _, index = value[1:].partition(".")
            return made[name].get_output(int(index)) if index else made[name]
        case str() if "." in value:
            owner, _, member = value.partition(".")
            return getattr(getattr(trt, owner), member)
        case list() if value and isinstance(value[0], str):
            return [meaning(x, made) for x in value]
        case list():
            return tuple(value)
    return value


def follow(network, calls):
    """Make the calls; everything that has an id, by it."""
    made = {"network": network}
    for call in calls:
        if "set" in call:
            owner, name = call["set"].split(".")
            setattr(made[owner], name, meaning(call["value"], made))
            continue
        owner, name = call["call"].split(".")
        given = {k: meaning(v, made) for k, v in call.get("args", {}).items()}
        given |= {k: getattr(trt, v) for k, v in given.items() if k.endswith(("dtype", "_type"))}
        made[call.get("id", "")] = getattr(made[owner], name)(**given)
    return made


def run(network, builder, log, inputs):
    """The outputs for arrays that are cast to the types of the inputs."""
    with trt.strict():
        plan = builder.build_serialized_network(network, builder.create_builder_config())
        engine = trt.Runtime(log).deserialize_cuda_engine(bytes(plan))
    dtypes = {name: trt.nptype(engine.get_tensor_dtype(name)) for name in inputs}
    return engine.run(**{name: np.asarray(x).astype(dtypes[name]) for name, x in inputs.items()})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["id"])
def test_example_gives_the_published_numbers(example, net, builder, log):
    made = follow(net, example["calls"])
    inputs = {n: np.reshape(x, made_input(net, n).shape) for n, x in example["inputs"].items()}
    outputs = run(net, builder, log, inputs)
    for reference, want in example["expected"].items():
        got = outputs[meaning("$" + reference.removeprefix("$"), made).name]
        np.testing.assert_allclose(got, np.reshape(want, got.shape), atol=example["tolerance"])


def made_input(network, name):
    return next(t for t in map(network.get_input, range(network.num_inputs)) if t.name == name)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_program_in_the_form_of_the_reference_pages(program, net, builder, log):
    names = {"network": net, "inputs": {}, "outputs": {}, "expected": {}, "trt": trt, "np": np}
    exec(compile(program.read_text(), program.name, "exec"), names)
    got = run(net, builder, log, names["inputs"])
    for name, want in names["expected"].items():
        assert got[name].shape == tuple(names["outputs"][name])
        np.testing.assert_allclose(got[name].reshape(want.shape), want, rtol=1e-5, atol=1e-5)
