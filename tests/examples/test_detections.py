"""Detections of the example, compared with plain NumPy."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "detections.py"


@pytest.fixture(scope="module")
def example():
    return SimpleNamespace(**runpy.run_path(str(PROGRAM)))


def overlap(a, b):
    ends = [
        (np.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2)),
        np.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2),
    ]
    common = np.maximum(ends[1] - ends[0], 0).prod()
    return common / (a[2:].prod() + b[2:].prod() - common)


def detections(detector, heads, logits):
    """Image by image, the best score first: (image, class, anchor), box, score."""
    anchors, heads = detector.anchors.astype(float), heads * np.array([0.1, 0.1, 0.2, 0.2])
    centers = anchors[:, :2] + heads[..., :2] * anchors[:, 2:]
    boxes = np.concatenate([centers, np.exp(heads[..., 2:]) * anchors[:, 2:]], -1)
    powers = np.exp(logits.astype(float))
    scores = (powers / powers.sum(-1, keepdims=True))[..., 1:]
    results = []
    for image in range(len(boxes)):
        kept = []
        above = map(tuple, np.argwhere(scores[image] > detector.least).tolist())
        for n, of in sorted(above, key=lambda at: -scores[image][at]):
            same = [m for m, c in kept if c == of]
            near = (overlap(boxes[image, n], boxes[image, m]) for m in same)
            if len(same) < detector.most and all(x <= detector.overlap for x in near):
                kept.append((n, of))
        results += [((image, of, n), boxes[image, n], scores[image, n, of]) for n, of in kept]
    return results


@pytest.fixture(scope="module")
def detector(example):
    return example.Detector(grids=(8, 4), classes=5)


@pytest.fixture(scope="module")
def engine(example, detector):
    return example.build(detector, 3)


@pytest.mark.parametrize("batch", [1, 3])
def test_detections_agree_with_numpy(example, detector, engine, batch):
    heads, logits = example.random_heads(detector, batch, seed=4)
    seen, expected = engine.run(heads=heads, logits=logits), detections(detector, heads, logits)
    assert len(expected) > 3
    assert seen["rows"].tolist() == [list(row) for row, _, _ in expected]
    np.testing.assert_allclose(seen["boxes"], [box for _, box, _ in expected], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(seen["scores"], [score for _, _, score in expected], rtol=1e-5)


def test_nothing_is_seen_where_all_is_alike(example, detector, engine):
    heads, logits = example.random_heads(detector, 2)
    seen = engine.run(heads=heads, logits=0 * logits)
    assert {name: y.shape for name, y in seen.items()} == {"rows": (0, 3), "boxes": (0, 4), "scores": (0,)}
