"""The generator of models and its judge, and rules run backwards: a few seeds of what `make fuzz` tries."""

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

import anyrt
from tests.sampling import tries
from tools.fuzz import causes, forms, judge, oracles, rules, weighed  # noqa: F401  # weighed adds forms
from tools.fuzz.grow import grow

# Of half types, whose leading operator is several layers: Gemm, norms, LayerNormalization, Shrink and others.
SEVERAL = (30171, 30256, 30473, 30633, 30719, 30859, 31013, 31087, 31160, 31239, 31465, 31539)
SEEDS = (2, 4, 6, 8, 10, 11, 14, 16, 2511)


@pytest.mark.parametrize("axes", [None, [1, 0]])
def test_negative_borders_take_elements_away_in_the_reference_too(axes):
    x, pads = np.arange(12.0).reshape(3, 4), np.array([-1, 1, 1, -1] if axes else [1, -1, -1, 1])
    feeds = {"x": x, "p": pads} | ({"a": np.array(axes)} if axes else {})
    node = helper.make_node("Pad", ["x", "p", "", "a"] if axes else ["x", "p"], ["y"])
    (found,) = oracles.evaluate(node, feeds, 18)
    assert found.tolist() == [[0, 0, 0, 0], [1, 2, 3, 0], [5, 6, 7, 0]]


def test_a_seed_means_one_model():
    one, other = grow(17), grow(17)
    assert one.model.SerializeToString() == other.model.SerializeToString()
    assert all(np.array_equal(one.feeds[0][n], x, equal_nan=True) for n, x in other.feeds[0].items())


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_models_agree_with_the_reference(seed):
    assert judge.judged(grow(seed)).kind == "same"


@pytest.mark.parametrize("seed", SEVERAL)
def test_operators_of_several_layers_are_rounded_once(seed):
    case = grow(seed)
    first, opset = case.model.graph.node[0], case.model.opset_import[0].version
    whole = judge.marked(case.model, oracles.chain(case.model, case.feeds[0]))
    found = anyrt.load(whole.SerializeToString()).run(case.feeds[0])[first.output[0]]
    held = {x.name: numpy_helper.to_array(x) for x in case.model.graph.initializer} | dict(case.feeds[0])
    typed = oracles.evaluate(first, oracles.reads(first, held), opset)
    wanted = oracles.exact(first, oracles.reads(first, held), opset, typed)[0].astype(np.float64)
    info = ml_dtypes.finfo(found.dtype)
    step = 2.0 ** np.floor(np.log2(np.maximum(np.abs(wanted), float(info.tiny)))) * float(info.eps)
    assert (np.abs(found.astype(np.float64) - wanted) / step).max() <= 0.51


def test_a_result_that_is_off_is_seen(monkeypatch):
    class Off:
        def __init__(self, model):
            self.session = usual(model)

        def run(self, feeds):
            return {n: y + y.dtype.type(1) for n, y in self.session.run(feeds).items()}

    usual = anyrt.load
    monkeypatch.setattr(anyrt, "load", Off)
    found = judge.judged(grow(10))
    assert (found.kind, found.seed) == ("node", 10)


def test_a_cause_is_told_of_differences_that_have_one():
    row = {"kind": "refused", "op": "MaxPool", "told": "[AR126] t0", "mood": "usual", "ort": "", "sizes": 0}
    row["nodes"] = [row["op"]]
    assert "no output" in causes.cause(row)
    assert causes.cause({**row, "told": "[AR301] t0"}) == ""


def test_graphs_of_what_rules_find_and_make_are_equal():
    assert [rules.wrong(seed) for seed in range(tries(6))] == [""] * tries(6)
