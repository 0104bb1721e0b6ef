"""NNSmith's models: three stored ones are judged every day, and new ones where NNSmith is installed."""

from pathlib import Path

import onnx
import pytest

import anyrt
from tools.fuzz import foreign

MODELS = sorted((Path(__file__).parent / "nnsmith").glob("*.onnx"))


@pytest.fixture
def off(monkeypatch):
    """AnyRT with results that are wrong by one."""

    class Off:
        def __init__(self, model):
            self.session = usual(model)

        def run(self, feeds):
            return {
                n: ~y if y.dtype == bool else y + y.dtype.type(1) for n, y in self.session.run(feeds).items()
            }

    usual = anyrt.load
    monkeypatch.setattr(anyrt, "load", Off)


@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_models_are_judged_the_same(file):
    assert foreign.differs(onnx.load(file), int(file.stem)) == ""


def test_a_wrong_model_is_kept(off, monkeypatch, tmp_path):
    proto = onnx.load(MODELS[0])
    monkeypatch.setattr(foreign, "model", lambda seed: proto)
    monkeypatch.setattr(foreign, "CACHE", tmp_path)
    reported = foreign.wrong(1)
    assert reported.startswith("node ")
    assert reported.endswith("1.onnx")
    assert onnx.load(tmp_path / "1.onnx") == proto


@pytest.mark.programs
def test_models_are_made_of_seeds():
    pytest.importorskip("nnsmith", reason="NNSmith is not installed: make programs runs this")
    proto = foreign.model(17)
    onnx.checker.check_model(proto)
    assert len(proto.graph.node) > 1
