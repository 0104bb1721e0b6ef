"""Worked examples: calls, inputs and expected values, through the expansion of layers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyrt.core import enums
from anyrt.core.dtype import cast, numpy_dtype, parse
from anyrt.ir.graph import Graph
from anyrt.ir.interpret import interpret
from anyrt.ops import OPS
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import Kind, Layer
from anyrt.prims.build import param
from anyrt.prims.const import Blob

EXAMPLES = json.loads((Path(__file__).parent / "examples.json").read_text())
METHODS = {m.name: (op, m) for op in OPS.values() for m in op.methods}


class Network:
    """Just enough of a network to execute an example's calls."""

    def __init__(self, example):
        self.inputs, self.layers, self.types = {}, {}, {}
        for call in example["calls"]:
            self.follow(call)

    def follow(self, call):
        args = call.get("args", {})
        match call.get("call", "set").split(".")[-1]:
            case "add_input":
                self.inputs[call["id"]] = param(args["name"], tuple(args["shape"]), parse(args["dtype"]))
            case "set":
                owner, name = call["set"].split(".")
                op, layer = self.layers[owner]
                attrs = replace(layer.attrs, **{name: self.convert(op, name, call["value"])})
                self.layers[owner] = op, replace(layer, attrs=attrs)
            case "set_input":
                op, layer = self.layers[call["call"].split(".")[0]]
                before = [*layer.inputs, *[None] * 9][: args["index"]]
                self.layers[call["call"].split(".")[0]] = (
                    op,
                    replace(layer, inputs=(*before, self.value(args["tensor"]))),
                )
            case "set_output_type":
                self.types[call["call"].split(".")[0]] = parse(args["dtype"])
            case name if name in METHODS:
                self.layers[call["id"]] = self.layer(call["id"], *METHODS[name], args)

    def layer(self, name, op, method, args):
        renamed = {dict(method.renamed).get(k, k): v for k, v in args.items()}
        kinds = {s.name: s for s in op.specs()}
        attrs = {k: self.convert(op, k, v) for k, v in renamed.items() if k in kinds and v is not None}
        values = (renamed[i.name] for i in op.inputs if i.name in renamed and i.name not in attrs)
        listed = [v for g in values for v in (g if isinstance(g, list) else [g])]
        return op, Layer(name, op.attrs(**attrs, **dict(method.fixed)), tuple(map(self.value, listed)))

    def convert(self, op, name, value):
        spec = next(s for s in op.specs() if s.name == name)
        if spec.kind is Kind.WEIGHTS:
            dtype = parse(value["dtype"])
            return Blob(np.array(value["values"], numpy_dtype(dtype)).reshape(-1), dtype)
        if spec.kind is Kind.ENUM:
            return getattr(enums, value.split(".")[0])[value.split(".")[1]] if "." in value else parse(value)
        return tuple(value) if isinstance(value, list) else value

    def value(self, reference):
        name, _, index = reference.removeprefix("$").partition(".")
        if not index:
            return self.inputs[name]
        op, layer = self.layers[name]
        return expand_layer(op, layer, out_type=self.types.get(name))[int(index)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["id"])
def test_example_gives_the_published_numbers(example):
    network = Network(example)
    inputs = tuple((v.op.name, v) for v in network.inputs.values())
    outputs = tuple((name, network.value(name)) for name in example["expected"])
    feeds = {n: cast(np.array(example["inputs"][n]), v.dtype).reshape(v.shape) for n, v in inputs}
    for name, got in interpret(Graph(inputs, outputs), feeds, {}).items():
        want = np.array(example["expected"][name]).reshape(got.shape)
        np.testing.assert_allclose(got, want, atol=example["tolerance"])
