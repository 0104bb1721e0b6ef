"""Models by NNSmith (https://github.com/ise-uiuc/nnsmith), judged as ours are."""

from __future__ import annotations

import random

import numpy as np


def wrong(seed: int) -> str:
    """What is wrong with a model of NNSmith's; "" where nothing is."""
    from nnsmith.graph_gen import SymbolicGen, model_gen
    from nnsmith.materialize import Model
    from nnsmith.narrow_spec import auto_opset

    from tools.fuzz import judge
    from tools.fuzz.grow import NAMES, Case, values

    kind = Model.init("onnx", "cpu")
    opset = auto_opset(kind)
    graph = model_gen(opset, method=SymbolicGen.__name__, seed=seed, max_nodes=8).make_concrete()
    made = kind.from_gir(graph)
    made.refine_weights()
    dice = random.Random(seed)
    feeds = {
        n: values(dice, x.shape, NAMES[np.dtype(x.dtype.numpy())], "usual")
        for n, x in made.input_like.items()
    }
    verdict = judge.judged(Case(seed, "nnsmith", "usual", made.native_model, (feeds,)))
    return "" if verdict.kind == "same" else f"{verdict.kind} {verdict.op}: {verdict.told} ({verdict.ort})"
