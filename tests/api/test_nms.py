"""NMS: thresholds, several images, layers behind it, empty results."""

import numpy as np

import anyrt as trt
from tests.networks import engine, marked

F = trt.float32
# Two squares that overlap by half of each, one far away.
BOXES = np.float32([[[0, 0, 2, 4], [1, 0, 3, 4], [8, 8, 9, 9]]])
SCORES = np.float32([[[0.5, 0.25], [0.75, 0.125], [0.625, 0.875]]])


def number(net, x):
    return net.add_constant((), np.array(x)).get_output(0)


def layer(net, boxes, scores, most=9, iou=None, least=None):
    result = net.add_nms(boxes, scores, number(net, np.int32(most)))
    for k, threshold in ((3, iou), (4, least)):
        if threshold is not None:
            result.set_input(k, number(net, np.float32(threshold)))
    return result


def test_selected_boxes_are_sorted_by_score_across_classes(net):
    result = layer(net, net.add_input("boxes", F, (1, 3, 4)), net.add_input("scores", F, (1, 3, 2)))
    marked(net, y=result.get_output(0), count=result.get_output(1))
    got = engine(net).run(boxes=BOXES, scores=SCORES)
    assert got["y"].tolist() == [[0, 1, 2], [0, 0, 1], [0, 0, 2], [0, 1, 0]]
    assert got["count"].tolist() == 4


def test_thresholds_are_exclusive_for_scores_and_inclusive_for_overlaps(net):
    boxes, scores = net.add_input("boxes", F, (1, 3, 4)), net.add_input("scores", F, (1, 3, 2))
    third = np.float32(4) / np.float32(12)
    marked(net, y=layer(net, boxes, scores, iou=third, least=0.25).get_output(0))
    assert engine(net).run(boxes=BOXES, scores=SCORES)["y"].tolist() == [
        [0, 1, 2], [0, 0, 1], [0, 0, 2], [0, 0, 0],
    ]  # fmt: skip


def test_memory_is_kept_for_what_a_constant_number_of_boxes_allows(net):
    result = layer(net, net.add_input("boxes", F, (1, 3, 4)), net.add_input("scores", F, (1, 3, 2)), most=1)
    marked(net, y=result.get_output(0))
    context = engine(net).create_execution_context()
    room = np.zeros(6, np.int32)
    assert context.get_max_output_size("y") == room.nbytes
    for name, array in (("boxes", BOXES), ("scores", SCORES), ("y", room)):
        context.set_tensor_address(name, array)
    assert context.execute_async_v3(0)
    assert room.tolist() == [0, 1, 2, 0, 0, 1]
    assert context._context.sizing.of("y") == (2, 3)


def test_boxes_are_gathered_behind_it_whatever_their_number(net):
    boxes, scores = net.add_input("boxes", F, (-1, -1, 4)), net.add_input("scores", F, (-1, -1, 2))
    kept = layer(net, boxes, scores, iou=0.4).get_output(0)
    pairs = net.add_gather_v2(
        kept, net.add_constant((2,), np.int32([0, 2])).get_output(0), trt.GatherMode.DEFAULT
    )
    pairs.axis = 1
    marked(net, y=net.add_gather_v2(boxes, pairs.get_output(0), trt.GatherMode.ND).get_output(0))
    sizes = {"boxes": ((1, 1, 4), (2, 3, 4), (4, 9, 4)), "scores": ((1, 1, 2), (2, 3, 2), (4, 9, 2))}
    run = engine(net, **sizes).run
    both = run(boxes=np.concatenate([BOXES, BOXES]), scores=np.concatenate([SCORES * 0, SCORES]))["y"]
    assert both.tolist() == BOXES[0, [2, 1, 2, 0, 0, 1]].tolist()
    assert run(boxes=BOXES, scores=-SCORES)["y"].shape == (0, 4)


def test_scores_that_are_no_numbers_are_not_above_a_threshold(net):
    result = layer(net, net.add_input("boxes", F, (1, 3, 4)), net.add_input("scores", F, (1, 3, 1)))
    marked(net, y=result.get_output(0))
    scores = np.float32([[[np.nan], [np.inf], [-np.inf]]])
    assert engine(net).run(boxes=BOXES, scores=scores)["y"].tolist() == [[0, 0, 1]]
