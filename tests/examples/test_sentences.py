"""The sentence encoder in a small size: its vectors equal NumPy's, one sentence at a time and in batches."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import anyrt

SENTENCES = Path(__file__).resolve().parents[2] / "demo" / "sentences.py"
WIDTH, WORDS, HIDDEN = 24, 50, 40


@pytest.fixture(scope="module")
def demo():
    return SimpleNamespace(**runpy.run_path(str(SENTENCES)))


def weights(layers):
    rng, out = np.random.default_rng(0), {}

    def add(name, *shape):
        out[f"{name}.weight"] = rng.standard_normal(shape, np.float32) * np.float32(shape[-1] ** -0.5)
        out[f"{name}.bias"] = rng.standard_normal(shape[0], np.float32)

    for kind, rows in (("word", WORDS), ("position", 256), ("token_type", 2)):
        add(f"embeddings.{kind}_embeddings", rows, WIDTH)
    norms = ["embeddings.LayerNorm"]
    for n in range(layers):
        name = f"encoder.layer.{n}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            add(f"{name}.attention.{part}", WIDTH, WIDTH)
        add(f"{name}.intermediate.dense", HIDDEN, WIDTH)
        add(f"{name}.output.dense", WIDTH, HIDDEN)
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
    for name in norms:
        out[f"{name}.weight"], out[f"{name}.bias"] = rng.standard_normal((2, WIDTH), np.float32)
    return out


def test_vectors_are_those_of_numpy_whatever_stands_beside_a_sentence(demo):
    size, own = demo.Size(layers=2, heads=3), weights(2)
    engine = demo.build(own, size)
    tokens = np.random.default_rng(1).integers(0, WORDS, (3, 11), np.int32)
    mask = np.arange(11) < np.array([[11], [4], [1]])
    together = engine.run(tokens=tokens, mask=mask)["vectors"]
    np.testing.assert_allclose(together, demo.in_numpy(own, size, tokens, mask), atol=2e-6)
    alone = engine.run(tokens=tokens[1:2, :4], mask=mask[1:2, :4])["vectors"]
    np.testing.assert_allclose(alone, together[1:2], atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_the_file_of_the_network_gives_the_same(demo, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SENTENCES.parent))
    module = SimpleNamespace(**runpy.run_path(str(SENTENCES.parent / "onnx_file.py")))
    size, own = demo.Size(layers=2, heads=3), weights(2)
    onnx.save(module.written(own, size), tmp_path / "small.onnx")
    session = anyrt.load(tmp_path / "small.onnx")
    for count in (11, 5):
        tokens = np.random.default_rng(1).integers(0, WORDS, (3, count), np.int32)
        mask = np.arange(count) < np.array([[count], [4], [1]])
        got = session.run({"tokens": tokens, "mask": mask})["vectors"]
        np.testing.assert_allclose(got, demo.in_numpy(own, size, tokens, mask), atol=2e-6)
