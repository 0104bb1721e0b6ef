"""The generator of models and its judge, and inverted rules: a few of the seeds that `make fuzz` tries."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import anyrt
from tests.sampling import tries
from tools.fuzz import causes, forms, judge, oracles, rules, weighed  # noqa: F401  # weighed adds forms
from tools.fuzz.grow import grow

# Of half types, whose leading operator is several layers: Gemm, norms, LayerNormalization, Shrink and others.
SEVERAL = (30171, 30256, 30473, 30633, 30719, 30859, 31013, 31087, 31160, 31239, 31465, 31539)
SEEDS = (2, 4, 6, 8, 10, 11, 14, 16, 2511, 100274, 101066, 101541)


@pytest.mark.parametrize("axes", [None, [1, 0]])
def test_negative_borders_take_elements_away_in_the_reference_too(axes):
    x, pads = np.arange(12.0).reshape(3, 4), np.array([-1, 1, 1, -1] if axes else [1, -1, -1, 1])
    feeds = {"x": x, "p": pads} | ({"a": np.array(axes)} if axes else {})
    node = helper.make_node("Pad", ["x", "p", "", "a"] if axes else ["x", "p"], ["y"])
    (result,) = oracles.evaluate(node, feeds, 18)
    assert result.tolist() == [[0, 0, 0, 0], [1, 2, 3, 0], [5, 6, 7, 0]]


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
    actual = anyrt.load(whole.SerializeToString()).run(case.feeds[0])[first.output[0]]
    held = {x.name: numpy_helper.to_array(x) for x in case.model.graph.initializer} | dict(case.feeds[0])
    typed = oracles.evaluate(first, oracles.reads(first, held), opset)
    expected = oracles.exact(first, oracles.reads(first, held), opset, typed)[0].astype(np.float64)
    info = ml_dtypes.finfo(actual.dtype)
    step = 2.0 ** np.floor(np.log2(np.maximum(np.abs(expected), float(info.tiny)))) * float(info.eps)
    assert (np.abs(actual.astype(np.float64) - expected) / step).max() <= 0.51


def test_a_result_that_is_off_is_seen(monkeypatch):
    class Off:
        def __init__(self, model):
            self.session = usual(model)

        def run(self, feeds):
            return {n: y + y.dtype.type(1) for n, y in self.session.run(feeds).items()}

    usual = anyrt.load
    monkeypatch.setattr(anyrt, "load", Off)
    result = judge.judged(grow(10))
    assert (result.kind, result.seed) == ("node", 10)


@pytest.mark.parametrize("by", [1, 1 + 2.0**-30])
def test_sums_that_cancel_are_compared_by_their_terms_in_whole_models_too(by, monkeypatch):
    class Off:  # few outputs are off, and not those of the inference that computes them all
        def __init__(self, model):
            self.session, self.few = usual(model), len(onnx.load_from_string(model).graph.output) < 5

        def run(self, feeds):
            result = self.session.run(feeds)
            return result | {"t1": result["t1"] * by} if self.few else result

    usual = anyrt.load
    monkeypatch.setattr(anyrt, "load", Off)
    assert judge.judged(grow(101143)).kind == ("same" if by == 1 else "fused")


def test_determinants_are_exact_in_the_reference():
    x = np.array([[[2.0**1000, 0, 3], [1, 2.0**20, 0], [4, 5, 2.0**-1000]], np.eye(3) * 2.0**400])
    (result,) = oracles.exact(helper.make_node("Det", ["x"], ["y"]), {"x": x}, 22, [np.zeros(2)])
    assert result.tolist() == [2.0**20 + 15 - 3 * 4 * 2.0**20, np.inf]


def test_one_hot_has_its_values_in_the_reference():
    node, pair = helper.make_node("OneHot", ["at", "depth", "pair"], ["y"], axis=0), np.array([1e30, np.inf])
    feeds = {"at": np.array([1, -3, 7]), "depth": np.array(3), "pair": pair}
    (result,) = oracles.exact(node, feeds, 13, [np.zeros((3, 3))])
    assert result.tolist() == [[1e30, np.inf, 1e30], [np.inf, 1e30, 1e30], [1e30] * 3]


def test_windows_with_dilations_and_no_borders_are_counted_in_the_reference():
    attributes = {"auto_pad": "VALID", "kernel_shape": [2, 2], "dilations": [2, 3], "strides": [1, 2]}
    node = helper.make_node("AveragePool", ["x"], ["y"], **attributes)
    (result,) = oracles.evaluate(node, {"x": np.arange(54.0).reshape(1, 1, 6, 9)}, 22)
    assert result.tolist() == [[[[9 * i + 2 * j + 10.5 for j in range(3)] for i in range(4)]]]


@pytest.mark.parametrize(("share", "beyond"), [(0.4, True), (0.2, False)])
@pytest.mark.parametrize("form", ["AveragePool", "GlobalAveragePool", "ReduceMean", "Mean"])
def test_means_whose_sums_overflow_the_type_are_distinguished(form, share, beyond):
    x = np.full((1, 1, 4), share * np.finfo(np.float32).max, np.float32)
    names = ["x", "x", "x", "x"] if form == "Mean" else ["x"]
    attributes = {"AveragePool": {"kernel_shape": [5], "pads": [2, 2]}, "ReduceMean": {"axes": [2]}}.get(
        form, {}
    )
    node, feeds = helper.make_node(form, names, ["y"], **attributes), {"x": x}
    typed = oracles.evaluate(node, feeds, 17)
    assert judge._beyond(node, feeds, 17, typed, 0, np.ones(typed[0].shape, bool)) is beyond


def test_only_negative_numbers_may_be_0_in_an_unsigned_type():
    row = {"kind": "node", "op": "Cast", "mood": "usual", "ort": "", "sizes": 0, "nodes": ["Cast"]}
    message = (
        "t1: 1 of 4 differ, at [0, 1] np.uint32(0) for np.uint32(4294967290) of -6.0; reads float64[2, 2]"
    )
    assert causes.cause({**row, "message": message}) == "what does not fit an integer type is open"
    assert causes.cause({**row, "message": message.replace("-6.0", "4294967290.0")}) == ""
    assert causes.cause({**row, "message": message.replace("uint32(0)", "uint32(1)")}) == ""


def test_a_grid_sample_is_rejected_for_its_batch_alone():
    row = {"kind": "refused", "op": "GridSample", "mood": "large", "ort": "", "nodes": ["GridSample"]}
    row |= {"seed": 101192, "message": "ShapeError: [AR103] t1: got 6 (volume mismatch)"}
    assert causes.cause({**row, "sizes": 1}) != ""
    assert causes.cause({**row, "sizes": 0}) == ""


def test_differences_with_a_known_cause_report_it():
    row = {"kind": "refused", "op": "MaxPool", "message": "[AR126]", "mood": "usual", "ort": "", "sizes": 0}
    row["nodes"] = [row["op"]]
    assert "no output" in causes.cause(row)
    assert causes.cause({**row, "message": "[AR301] t0"}) == ""


def test_graphs_of_what_rules_find_and_make_are_equal():
    assert [rules.wrong(seed) for seed in range(tries(6))] == [""] * tries(6)
