"""Models by NNSmith (https://github.com/ise-uiuc/nnsmith), judged like generated ones."""

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
    """The failure of an NNSmith model, and the file of the model; "" if there is none.

    The file is needed because one seed yields several models: the solver that NNSmith uses for sizes depends
    on its earlier queries, and on time."""
    try:
        proto = model(seed)
    except RuntimeError as error:  # of PyTorch
        if "can't allocate memory" in str(error):  # NNSmith bounds tensors, not the weights next to them
            return ""
        raise
    reported = differs(proto, seed)
    if not reported:
        return ""
    file = CACHE / f"{seed}.onnx"
    write_atomically(file, [proto.SerializeToString()])
    return f"{reported}; the model is {file}"


def differs(proto: ModelProto, seed: int) -> str:
    """The failure of a model for random inputs from a seed; "" if there is none."""
    dice = random.Random(seed)
    feeds = {x.name: values(dice, *_array(x), "usual") for x in proto.graph.input}
    verdict = judge.judged(Case(seed, "nnsmith", "usual", proto, (feeds,)))
    return "" if verdict.kind == "same" else f"{verdict.kind} {verdict.op}: {verdict.message} ({verdict.ort})"


def _array(x: ValueInfoProto) -> tuple[tuple[int, ...], str]:
    """Shape and type of an input with static dimensions."""
    of = x.type.tensor_type
    return tuple(d.dim_value for d in of.shape.dim), NAMES[helper.tensor_dtype_to_np_dtype(of.elem_type)]


def model(seed: int) -> ModelProto:
    """A model that NNSmith generates from a seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from nnsmith.graph_gen import model_gen
        from nnsmith.materialize import Model

        kind = Model.init("onnx", "cpu")
        # PyTorch's exporter by torch.export rejects all of NNSmith's models, which inspect their elements.
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
    """The NNSmith operators that can be exported; NNSmith tries them once and writes the list to a file."""
    from nnsmith import narrow_spec

    logging.disable(logging.WARNING)  # it reports each one that cannot
    with mock.patch.object(narrow_spec, "NNSMITH_CACHE_DIR", str(CACHE)):
        return narrow_spec.auto_opset(kind)
