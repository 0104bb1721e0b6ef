"""The generator of models and its judge, and rules run backwards: a few seeds of what `make fuzz` tries."""

import numpy as np
import pytest

import anyrt
from tests.sampling import tries
from tools.fuzz import causes, forms, judge, rules, weighed  # noqa: F401  # weighed adds forms
from tools.fuzz.grow import grow

SEEDS = (2, 4, 6, 8, 10, 11, 14, 16, 2511)


def test_a_seed_means_one_model():
    one, other = grow(17), grow(17)
    assert one.model.SerializeToString() == other.model.SerializeToString()
    assert all(np.array_equal(one.feeds[0][n], x, equal_nan=True) for n, x in other.feeds[0].items())


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_models_agree_with_the_reference(seed):
    assert judge.judged(grow(seed)).kind == "same"


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
