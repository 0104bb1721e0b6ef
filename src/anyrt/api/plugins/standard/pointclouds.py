"""Point clouds as pillars, VoxelGeneratorPlugin, and decoded boxes, DecodeBbox3DPlugin.

The order of pillars is the order of cells; in TensorRT's plug-in it depends on the timing of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

import numpy as np

from anyrt.api.compose.ordered import best, cumulative, scatter, top
from anyrt.api.compose.sizes import Size, length, volume, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, INT32, INT64, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.core.enums import ReduceOperation, TopKOperation, UnaryOperation
from anyrt.core.errors import ArgumentError, ShapeError

BOX = 7  # values of a box: x, y, z, the three sizes, and the angle


# ---- boxes ----------------------------------------------------------------------------------------


def boxes(part: Part) -> list[Tensor]:
    """Rows of a box, its class and score: those above the threshold, then zeros; and the number of boxes.
    Inputs: scores, boxes and directions, each (images, rows, columns, anchors · values)."""
    heights, anchors = part.reals("anchor_bottom_height"), part.reals("anchors")
    classes = len(heights)
    if len(anchors) != 8 * classes:
        got = f"{len(anchors)} values of anchors"
        raise ArgumentError(
            "AR304", part.where, got, f"{8 * classes}: 4 values of two anchors for each class"
        )
    scores, moves, ways = (_entries(part, k, 2 * classes, n) for k, n in enumerate((classes, BOX, 2)))
    of = best(part, scores, TopKOperation.MAX, 4)
    odds = part.reduce(ReduceOperation.MAX, scores, [4])
    score = 1.0 / (part.unary(UnaryOperation.EXP, -odds) + 1.0)
    box = _moved(part, moves, np.reshape(anchors, (-1, 4)), np.repeat(heights, 2), ways)
    rows = part.concat([*box, of.cast(FLOAT), score], 4)
    images, many = length(rows, 0), volume(rows, (1, 2, 3))
    there = ~(score < part.real("score_thresh"))
    rows, there = rows.reshape([images, many, BOX + 2]), there.reshape([images, many])
    detections, count = _first(part, rows, there, many)
    return [detections.cast(part.inputs[0].dtype), count]


def _entries(part: Part, k: int, anchors: int, numbers: int) -> Tensor:
    """Input `k` as (images, rows, columns, anchors, values)."""
    x = part.of_rank(k, 4).cast(FLOAT)
    if x.sizes[3] not in (anchors * numbers, -1):
        got, wanted = f"{x.sizes[3]} values of each cell in input {k}", f"{anchors} times {numbers}"
        raise ShapeError("AR123", part.where, got, wanted)
    # All inputs have the same number of cells; the shape of one input is the shortest expression.
    return x.reshape([*(length(part.inputs[0], axis) for axis in range(3)), anchors, numbers])


def _moved(part: Part, moves: Tensor, anchors: np.ndarray, heights: np.ndarray, ways: Tensor) -> list[Tensor]:
    """The seven values of each box."""
    area = part.reals("point_cloud_range")
    m = [window(moves, 4, k, 1) for k in range(BOX)]
    size = [_each(part, anchors[:, k]) for k in range(3)]
    middle = [
        _line(part, length(moves, axis), area[k], area[k + 3]).unsqueeze(*(a for a in range(5) if a != axis))
        for k, axis in ((0, 2), (1, 1))
    ]
    diagonal = _each(part, np.hypot(anchors[:, 0], anchors[:, 1]))
    middle.append(_each(part, anchors[:, 2] / 2 + heights))
    scale = (diagonal, diagonal, size[2])
    places = [m[k] * scale[k] + middle[k] for k in range(3)]
    sides = [part.unary(UnaryOperation.EXP, m[k + 3]) * size[k] for k in range(3)]
    return [*places, *sides, _turn(part, m[6] + _each(part, anchors[:, 3]), ways)]


def _each(part: Part, numbers: np.ndarray) -> Tensor:
    """One value for each anchor."""
    return part.constant(np.reshape(numbers, (1, 1, 1, -1, 1)), FLOAT)


def _line(part: Part, size: Size, low: float, high: float) -> Tensor:
    """`size` positions from `low` to `high`."""
    steps = part.constant([size], INT64) if isinstance(size, int) else size
    return part.counted(size).cast(FLOAT) * ((high - low) / (steps - 1).maximum(1).cast(FLOAT)) + low


def _turn(part: Part, angle: Tensor, ways: Tensor) -> Tensor:
    """The angle of a box, in the half circle of its direction."""
    period, offset = 2 * pi / part.whole("num_dir_bins"), part.real("dir_offset")
    other = (~(window(ways, 4, 0, 1) > window(ways, 4, 1, 1))).cast(FLOAT)
    value = angle - offset
    turns = part.unary(UnaryOperation.FLOOR, value / period + part.real("dir_limit_offset"))
    return value - turns * period + offset + other * period


def _first(part: Part, rows: Tensor, there: Tensor, room: Size) -> tuple[Tensor, Tensor]:
    """The used rows of each image, then zeros, (images, room, …), and the number of used rows."""
    place = _before(part, there.cast(INT32), room)
    first = _stored(part, rows, [part.where_(there, place, place * 0 + _as(part, room))], [room])
    return first, part.reduce(ReduceOperation.SUM, there.cast(INT32), [1], keep=False)


def _before(part: Part, counts: Tensor, room: Size) -> Tensor:
    """Exclusive sums along axis 1, INT32."""
    return cumulative(part, counts, 1, exclusive=True)


def _as(part: Part, size: Size) -> Tensor:
    x = part.constant([size], INT64) if isinstance(size, int) else size
    return x.cast(INT32)


def _stored(part: Part, rows: Tensor, places: Sequence[Tensor], sizes: Sequence[Size]) -> Tensor:
    """Rows (images, many, …), scattered to `places` of a tensor of these sizes, zeros elsewhere. A row whose
    first place is the size of the first axis is dropped."""
    images, rest = length(rows, 0), [length(rows, k) for k in range(2, rows.rank)]
    room = [images, sizes[0] + 1, *sizes[1:], *rest]
    empty = part.full(room, part.constant(np.zeros(()), rows.dtype))
    image = part.expand(part.counted(images).unsqueeze(1), [images, length(rows, 1)])
    at = part.concat([v.cast(INT64).unsqueeze(2) for v in (image, *places)], 2)
    return window(scatter(part, empty, at, rows), 1, 0, sizes[0])


# ---- pillars --------------------------------------------------------------------------------------


def pillars(part: Part) -> list[Tensor]:
    """The points of each pillar with their offsets from its mean and center, (images, pillars, points,
    values), the cell of each pillar, (0, 0, y, x), and the number of pillars of each image."""
    points, counts = part.of_rank(0, 3), part.of_rank(1, 1)
    if points.sizes[2] not in (4, 5):
        raise ShapeError("AR123", part.where, f"points of {points.sizes[2]} values", "4 or 5")
    area, step = part.reals("point_cloud_range"), part.reals("voxel_size")
    across, rows = (int(np.rint((area[k + 3] - area[k]) / step[k])) for k in (0, 1))
    cells, most, room = rows * across, part.whole("max_num_points_per_voxel"), part.whole("max_voxels")
    cell = _cells(part, points.cast(FLOAT), counts, (rows, across))
    one = cell * 0 + 1
    many = _stored_sums(part, one, cell, cells)
    used = (many > 0).cast(INT32)
    pillar = _before(part, used, cells)
    pillar = part.where_(many > 0, pillar, pillar * 0 + room).minimum(room)
    of = part.where_(cell < cells, _picked(part, pillar, cell.minimum(cells - 1)), cell * 0 + room)
    rank = _rank(part, cell, many, cells)
    of = part.where_(rank < most, of, of * 0 + room)
    stored_points = _stored(part, points.cast(FLOAT), [of, rank.minimum(most - 1)], [room, most])
    number = _stored(part, many.minimum(most), [pillar], [room])
    grid = part.counted(cells).cast(INT32).unsqueeze(0) + many * 0
    at = _stored(part, grid, [pillar], [room])
    pillar_count = part.reduce(ReduceOperation.SUM, used, [1], keep=False).minimum(room)
    zero = at * 0
    coords = part.concat([v.unsqueeze(2) for v in (zero, zero, at // across, at - at // across * across)], 2)
    return [_features(part, stored_points, number, coords).cast(points.dtype), coords, pillar_count]


def _cells(part: Part, points: Tensor, counts: Tensor, grid: tuple[int, int]) -> Tensor:
    """The cell of each point, (images, points); the number of cells for points outside the range."""
    area, step = part.reals("point_cloud_range"), part.reals("voxel_size")
    p = [window(points, 2, k, 1).squeeze(2) for k in range(3)]
    # With the number of images of the points: a shorter expression than that of the counts.
    many = counts.cast(INT32).reshape([length(points, 0), 1])
    inside = part.counted(length(points, 1)).cast(INT32).unsqueeze(0) < many
    for k, x in enumerate(p):
        inside = inside & ~(x < area[k]) & (x < area[k + 3])
    x, y = (part.unary(UnaryOperation.FLOOR, (p[k] - area[k]) / step[k]).cast(INT32) for k in (0, 1))
    inside = inside & (x < grid[1]) & (y < grid[0])
    return part.where_(inside, y * grid[1] + x, x * 0 + grid[0] * grid[1])


def _stored_sums(part: Part, counts: Tensor, cell: Tensor, cells: int) -> Tensor:
    """The number of points of each cell."""
    empty = part.full([length(cell, 0), cells + 1], part.constant(np.int32(0)))
    sums = scatter(part, empty, cell.cast(INT64), counts, ReduceOperation.SUM, axis=1)
    return window(sums, 1, 0, cells)


def _picked(part: Part, x: Tensor, at: Tensor) -> Tensor:
    return part.layer("add_gather", x, at, 1, num_elementwise_dims=1)


def _rank(part: Part, cell: Tensor, many: Tensor, cells: int) -> Tensor:
    """The rank of each point in its cell: its position after sorting by cells, minus that of the cell's
    first."""
    # One more element at the end, since there may be none to sort.
    spare = part.concat([cell, part.full([length(cell, 0), 1], part.constant(np.int32(cells)))], 1)
    _, order = top(part, spare, TopKOperation.MIN, length(spare, 1), 1)
    place = part.counted(length(spare, 1)).cast(INT32).unsqueeze(0) + spare * 0
    among = window(scatter(part, place * 0, order, place, axis=1), 1, 0, length(cell, 1))
    return among - _picked(part, _before(part, many, cells), cell.minimum(cells - 1))


def _features(part: Part, points: Tensor, number: Tensor, coords: Tensor) -> Tensor:
    """The values of points, their offsets from the mean of their pillar and from its center; zeros without a
    point."""
    area, step = part.reals("point_cloud_range"), part.reals("voxel_size")
    feature_count = part.whole("voxel_feature_num")
    xyz = window(points, 3, 0, 3)
    count = number.cast(FLOAT).unsqueeze(2, 3)
    mean = part.reduce(ReduceOperation.SUM, xyz, [2]) / count.maximum(1.0)
    cells = [window(coords, 2, 3 - k, 1).cast(FLOAT).unsqueeze(3) for k in range(3)]
    middle = [x * step[k] + (step[k] / 2 + area[k]) for k, x in enumerate(cells)]
    features = part.concat([points, xyz - mean, xyz - part.concat(middle, 3)], 3)
    if feature_count > features.sizes[3]:
        got = f"voxel_feature_num {feature_count}"
        raise ArgumentError(
            "AR304", part.where, got, f"at most {features.sizes[3]}, the number of values per point"
        )
    place = part.counted(length(points, 2)).cast(FLOAT).unsqueeze(0, 1, 3)
    features = window(features, 3, 0, feature_count)
    return part.where_(place < count, features, part.like(0.0, features))


AREA = Field("point_cloud_range", (0.0,), count=6, needed=True)
PLUGINS = (
    Standard(
        "DecodeBbox3DPlugin",
        boxes,
        (
            AREA,
            Field("anchors", (0.0,), needed=True),
            Field("anchor_bottom_height", (0.0,), needed=True),
            Field("dir_offset", 0.78539),
            Field("dir_limit_offset", 0.0),
            Field("num_dir_bins", 2, 1),
            Field("score_thresh", 0.1),
        ),
        inputs=(3, 3),
        outputs=2,
    ),
    Standard(
        "VoxelGeneratorPlugin",
        pillars,
        (
            Field("max_num_points_per_voxel", 1, 1, needed=True),
            Field("max_voxels", 1, 1, needed=True),
            AREA,
            Field("voxel_feature_num", 10, 1, needed=True),
            Field("voxel_size", (1.0,), 1e-6, count=3, needed=True),
        ),
        inputs=(2, 2),
        outputs=3,
    ),
)
