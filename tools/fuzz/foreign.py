"""Models by NNSmith (https://github.com/ise-uiuc/nnsmith), judged as ours are."""

from __future__ import annotations

import functools
import logging
import random
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

from onnx import ModelProto, ValueInfoProto, helper

from anyrt.plan.disk import write_atomically
from tools.fuzz import judge
from tools.fuzz.grow import NAMES, Case, values

CACHE = Path(__file__).resolve().parents[2] / "fuzz" / "nnsmith"
MOST_NODES = 8


def wrong(seed: int) -> str:
    """What is wrong with a model of NNSmith's, and the file that keeps the model; "" where nothing is.

    The file is needed: one seed gives several models, as the solver that NNSmith asks for sizes answers
    by what it was asked before, and by time."""
    try:
        proto = model(seed)
    except RuntimeError as error:  # of PyTorch
        if "can't allocate memory" in str(error):  # NNSmith bounds tensors, not the weights beside them
            return ""
        raise
    reported = differs(proto, seed)
    if not reported:
        return ""
    file = CACHE / f"{seed}.onnx"
    write_atomically(file, [proto.SerializeToString()])
    return f"{reported}; the model is {file}"


def differs(proto: ModelProto, seed: int) -> str:
    """What is wrong with a model, with values for its inputs by a seed; "" where nothing is."""
    dice = random.Random(seed)
    feeds = {x.name: values(dice, *_array(x), "usual") for x in proto.graph.input}
    verdict = judge.judged(Case(seed, "nnsmith", "usual", proto, (feeds,)))
    return "" if verdict.kind == "same" else f"{verdict.kind} {verdict.op}: {verdict.message} ({verdict.ort})"


def _array(x: ValueInfoProto) -> tuple[tuple[int, ...], str]:
    """Shape and type of an input, which has sizes that are numbers."""
    of = x.type.tensor_type
    return tuple(d.dim_value for d in of.shape.dim), NAMES[helper.tensor_dtype_to_np_dtype(of.elem_type)]


def model(seed: int) -> ModelProto:
    """A model of NNSmith's that begins with a seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from nnsmith.graph_gen import model_gen
        from nnsmith.materialize import Model

        kind = Model.init("onnx", "cpu")
        # PyTorch's exporter by torch.export refuses all of NNSmith's models, which look at their elements.
        traced = functools.partial(torch.onnx.export, dynamo=False)
        with mock.patch.object(torch.onnx, "export", traced):
            opset = _operators(kind)
            graph = model_gen(opset, "symbolic-cinit", MOST_NODES, seed).make_concrete()
            torch.manual_seed(seed)
            built = kind.from_gir(graph)
            built.refine_weights()
    native: ModelProto = built.native_model
    return native


@functools.cache
def _operators(kind: Any) -> Any:
    """Those of NNSmith's operators that can be exported, which it tries once and writes to a file."""
    from nnsmith import narrow_spec

    logging.disable(logging.WARNING)  # it tells each one that cannot
    with mock.patch.object(narrow_spec, "NNSMITH_CACHE_DIR", str(CACHE)):
        return narrow_spec.auto_opset(kind)
