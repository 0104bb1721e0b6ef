"""NNSmith's models, where it is installed: they come from a seed, and are judged."""

import pytest

import anyrt
from tools.fuzz import foreign

pytestmark = pytest.mark.programs
pytest.importorskip("nnsmith", reason="NNSmith is not installed: make programs runs this")
SEEDS = (5, 17, 41)


def test_a_seed_means_one_model_of_several_nodes():
    one, other = foreign.model(17).native_model, foreign.model(17).native_model
    assert one.SerializeToString() == other.SerializeToString()
    assert len(one.graph.node) > 3


@pytest.mark.parametrize("seed", SEEDS)
def test_models_are_judged_the_same(seed):
    assert foreign.wrong(seed) == ""


def test_a_result_that_is_off_is_told(monkeypatch):
    class Off:
        def __init__(self, model):
            self.session = usual(model)

        def run(self, feeds):
            return {
                n: ~y if y.dtype == bool else y + y.dtype.type(1) for n, y in self.session.run(feeds).items()
            }

    usual = anyrt.load
    monkeypatch.setattr(anyrt, "load", Off)
    assert foreign.wrong(1).startswith("node ")
