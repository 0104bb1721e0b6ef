"""Models by NNSmith (https://github.com/ise-uiuc/nnsmith), judged as ours are."""

from __future__ import annotations

import functools
import logging
import random
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

CACHE = Path(__file__).resolve().parents[2] / "fuzz" / "nnsmith"
MOST_NODES = 8


def wrong(seed: int) -> str:
    """What is wrong with a model of NNSmith's; "" where nothing is."""
    from tools.fuzz import judge
    from tools.fuzz.grow import NAMES, Case, values

    try:
        made = model(seed)
    except RuntimeError as error:  # of PyTorch
        if "can't allocate memory" in str(error):  # NNSmith bounds tensors, not the weights beside them
            return ""
        raise
    dice = random.Random(seed)
    feeds = {
        n: values(dice, x.shape, NAMES[np.dtype(x.dtype.numpy())], "usual")
        for n, x in made.input_like.items()
    }
    verdict = judge.judged(Case(seed, "nnsmith", "usual", made.native_model, (feeds,)))
    return "" if verdict.kind == "same" else f"{verdict.kind} {verdict.op}: {verdict.told} ({verdict.ort})"


def model(seed: int) -> Any:
    """NNSmith's model of a seed. Any: NNSmith has no types."""
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
            made = kind.from_gir(graph)
            made.refine_weights()
    return made


@functools.cache
def _operators(kind: Any) -> Any:
    """Those of NNSmith's operators that can be exported, which it tries once and writes to a file."""
    from nnsmith import narrow_spec

    logging.disable(logging.WARNING)  # it tells each one that cannot
    with mock.patch.object(narrow_spec, "NNSMITH_CACHE_DIR", str(CACHE)):
        return narrow_spec.auto_opset(kind)
