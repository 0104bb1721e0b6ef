"""EfficientNMS for TensorFlow's combined suppression, against a loop over boxes in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, create, holds, run
from tests.plugins.test_standard_detections import boxes, kept, scores

EXPLICIT, IMPLICIT = "EfficientNMS_Explicit_TF_TRT", "EfficientNMS_Implicit_TF_TRT"
FIELDS = {"score_threshold": 0.3, "iou_threshold": 0.4, "max_total_size": 12}


def limited(x, s, room, each, size=None, clip=False):
    """Outputs where no more than `each` of a class are kept, with `size` places."""
    images, many, classes = s.shape
    wide = np.broadcast_to(x.reshape(images, many, -1, 4), (images, many, classes, 4))
    size = room if size is None else size
    out = [
        np.zeros((images, 1)),
        np.zeros((images, size, 4)),
        np.zeros((images, size)),
        np.zeros((images, size)),
    ]
    for i in range(images):
        taken, of = [], np.zeros(classes, int)
        for row in kept(wide[i], s[i], many * classes, 0.3, 0.4):
            of[row[2]] += 1
            taken += [row] if of[row[2]] <= each else []
        for k, (score, box, c) in enumerate(taken[:room]):
            out[1][i, k], out[2][i, k], out[3][i, k] = box.clip(0, 1) if clip else box, score, c
        out[0][i] = min(len(taken), room)
    return out


@pytest.mark.parametrize("own", [(), (3,)])
@pytest.mark.parametrize("each", [1, 3])
def test_the_number_of_boxes_of_a_class_is_limited(rng, each, own):
    plugin = create(EXPLICIT, **FIELDS, max_output_size_per_class=each)
    engine = Engine(plugin, [boxes(rng, 2, 40, *own), scores(rng, 2, 40, 3)], dynamic=True)
    for images, many in ((2, 40), (4, 80), (1, 1)):
        x, s = boxes(rng, images, many, *own), scores(rng, images, many, 3)
        got = engine(x, s)
        assert [y.dtype for y in got] == [np.int32, np.float32, np.float32, np.int32]
        holds(got, limited(x, s, 12, each))


@pytest.mark.rare
def test_the_number_of_boxes_of_a_class_is_unlimited_by_default(rng):
    x, s = boxes(rng, 1, 40), scores(rng, 1, 40, 2)
    holds(run(EXPLICIT, x, s, **FIELDS), limited(x, s, 12, 99))
    assert run(EXPLICIT, x, s, **FIELDS, max_output_size_per_class=0)[0].tolist() == [[0]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dynamic", [False, True])
def test_padding_per_class_leaves_room_for_what_classes_may_fill(rng, dynamic):
    x, s = boxes(rng, 2, 30), scores(rng, 2, 30, 3)
    plugin = create(EXPLICIT, **FIELDS, max_output_size_per_class=2, pad_per_class=1)
    engine = Engine(plugin, [x, s], dynamic)
    holds(engine(x, s), limited(x, s, 12, 2, size=6))
    if dynamic:
        s = scores(rng, 2, 30, 6)
        holds(engine(x, s), limited(x, s, 12, 2, size=12))


def test_boxes_are_clipped_and_counts_have_one_axis_where_batches_are_implicit(rng):
    x, s = boxes(rng, 2, 30) / 8 - np.float32(0.2), scores(rng, 2, 30, 3)
    count, *rest = run(IMPLICIT, x, s, **FIELDS, max_output_size_per_class=4, clip_boxes=1)
    want = limited(x, s, 12, 4, clip=True)
    holds([count, *rest], [want[0][:, 0], *want[1:]])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(0, 30, 3), (2, 0, 3), (2, 30, 0)])
def test_empty_inputs_select_nothing(rng, shape):
    got = run(EXPLICIT, boxes(rng, *shape[:2]), scores(rng, *shape), **FIELDS, max_output_size_per_class=2)
    assert got[1].shape == (shape[0], 12, 4)
    assert not any(y.any() for y in got)


def test_outputs_have_half_precision_like_inputs(rng):
    x, s = boxes(rng, 1, 8).astype(np.float16), scores(rng, 1, 8, 2).astype(np.float16)
    got = run(EXPLICIT, x, s, **FIELDS, max_output_size_per_class=2)
    assert [y.dtype for y in got] == [np.int32, np.float16, np.float16, np.int32]
    holds(got, limited(x.astype(np.float32), s.astype(np.float32), 12, 2), 1e-3)


def test_invalid_fields_and_inputs_are_rejected(rng):
    for fields in ({"max_total_size": 0}, {"pad_per_class": 2}, {"iou_threshold": 1}):
        with trt.strict(), pytest.raises(trt.errors.ArgumentError, match="AR304"):
            create(EXPLICIT, **fields)
    x = boxes(rng, 1, 8)
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*3 values"):
        run(EXPLICIT, x[..., :3], scores(rng, 1, 8, 2))
    with trt.strict(), pytest.raises(trt.errors.GraphError, match="AR406"):
        run(EXPLICIT, x)
