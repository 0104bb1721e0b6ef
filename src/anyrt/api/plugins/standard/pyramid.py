"""Pooling of regions from feature pyramids, as in Mask R-CNN: the area of a region selects its map.

The maps are concatenated, channels innermost, so that one gather reads all of them. A bin is a sum over taps,
positions with weights, along rows and along columns. The field sampling_ratio sets the number of samples; if
it is 0, that depends on the size of the region, and a loop computes one region at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anyrt.api.compose.regions import Iterations
from anyrt.api.compose.sizes import Size, larger, length, smaller, stack, volume, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, INT64, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.core.enums import ReduceOperation, UnaryOperation
from anyrt.core.errors import ShapeError

LEGACY, OUTPUT_HALF_PIXEL, HALF_PIXEL = -1, 1, 2
CANONICAL = 224  # the side of a region, in pixels, above which it reads the third map


@dataclass(frozen=True, slots=True)
class Taps:
    """The taps of each bin along one axis: positions on a map and their weights, both (images, regions, bins,
    taps)."""

    place: Tensor
    share: Tensor


@dataclass(frozen=True, slots=True)
class Lines:
    """The samples of regions along one axis, all (images, regions, 1, 1): the begin of the first bin, the
    size of a bin, the number of samples of a bin, and the last position of the map; `offset`: the position of
    a sample in its part of a bin."""

    begin: Tensor
    step: Tensor
    count: Tensor
    last: Tensor
    offset: float

    def places(self, bins: Tensor, samples: Tensor) -> Tensor:
        """The position on the map of each sample of each bin."""
        positions = self.begin + self.step * bins + self.step * (samples + self.offset) / self.count
        return positions.maximum(0.0).minimum(self.last)


# ---- PyramidROIAlign ------------------------------------------------------------------------------


def pyramid_roi_align(part: Part) -> Tensor:
    """Means of bilinear samples: (images, regions, channels, bins, bins)."""
    rois, maps = _inputs(part, 4)
    image = part.wholes("image_size") if not part.whole("legacy") else (1024, 1024)
    corners = _corners(part, rois.cast(FLOAT), image)
    low, high = corners[:2], corners[2:]
    grown = [1.0 / n if part.whole("roi_coords_plusone") and not part.whole("legacy") else 0.0 for n in image]
    area = (high[0] - low[0] + grown[0]) * (high[1] - low[1] + grown[1])
    level = _level(part, area, _first_limit(part, image), len(maps))
    lines = [_lines(part, level, low[k], high[k], maps, k) for k in (0, 1)]
    if not _ratio(part):
        return _one_by_one(part, maps, level, lines).cast(maps[0].dtype)
    taps = [_neighbours(part, at, part.whole("pooled_size"), _ratio(part)) for at in lines]
    return _pooled(part, _behind(maps), *_starts(part, level, maps), taps).cast(maps[0].dtype)


def _first_limit(part: Part, image: Sequence[int]) -> float:
    """The area, as a fraction of the image, above which a region reads the second map."""
    if part.whole("legacy"):
        return CANONICAL**2 * 2.0 / (image[0] * image[1]) / 16.0
    return part.whole("fpn_scale") ** 2 / (image[0] * image[1]) / 4.0


def _inputs(part: Part, count: int) -> tuple[Tensor, list[Tensor]]:
    """Regions, (images, regions, 4), and maps of equal channels."""
    rois, maps = part.of_rank(0, 3), [part.of_rank(k + 1, 4) for k in range(count)]
    if rois.sizes[2] not in (4, -1):
        raise ShapeError(
            "AR123", part.where, f"regions of {rois.sizes[2]} values", "4 values for each region"
        )
    for x in maps[1:]:
        if -1 not in (x.sizes[1], maps[0].sizes[1]) and x.sizes[1] != maps[0].sizes[1]:
            got = f"maps of {maps[0].sizes[1]} and {x.sizes[1]} channels"
            raise ShapeError("AR123", part.where, got, "the same number of channels in each map")
    return rois, maps


def _corners(part: Part, rois: Tensor, image: Sequence[int]) -> list[Tensor]:
    """Lower and upper corner, y before x, as fractions of the image, clipped: (images, regions, 1, 1)."""
    legacy = part.whole("legacy")
    x = [window(rois, 2, k, 1).unsqueeze(3) for k in range(4)]
    ends = [[x[k].minimum(x[k + 2]) for k in (0, 1)], [x[k].maximum(x[k + 2]) for k in (0, 1)]]
    corners = [v for pair in ends for v in (pair if legacy or part.whole("roi_coords_swap") else pair[::-1])]
    if legacy or not part.whole("roi_coords_absolute"):
        return [v.clip(0.0, 1.0) for v in corners]
    return [v.clip(0.0, float(image[k % 2])) / float(image[k % 2]) for k, v in enumerate(corners)]


def _level(part: Part, area: Tensor, limit: float, count: int) -> Tensor:
    """The number of the map that each region reads, from 0."""
    limits = part.constant(limit * 4.0 ** np.arange(count - 1), FLOAT).reshape((1, 1, 1, count - 1))
    return part.reduce(ReduceOperation.SUM, (area > limits).cast(INT64), [3])


def _lines(part: Part, level: Tensor, low: Tensor, high: Tensor, maps: Sequence[Tensor], k: int) -> Lines:
    """The samples of regions along rows (k = 0) or columns (k = 1) of their maps."""
    size = _of_level(part, level, [length(x, 2 + k) for x in maps]).cast(FLOAT)
    mode, bins = _mode(part), part.whole("pooled_size")
    last, shift = (size - 1.0).maximum(0.0), 0.5 if mode == HALF_PIXEL else 0.0
    begin, end = ((v * (last if mode == LEGACY else size) - shift) for v in (low, high))
    step = (end - begin) / float(max(bins - 1, 1) if mode == LEGACY else bins)
    offset = 0.5 if mode in (OUTPUT_HALF_PIXEL, HALF_PIXEL) else 0.0
    count = part.unary(UnaryOperation.CEIL, (end - begin) / float(bins)).maximum(1.0)
    ratio = _ratio(part)
    return Lines(begin, step, part.like(ratio, begin) if ratio else count, last, offset)


def _mode(part: Part) -> int:
    return LEGACY if part.whole("legacy") else part.whole("roi_coords_transform")


def _ratio(part: Part) -> int:
    """The number of samples of a bin along an axis; 0: it depends on the size of the bin."""
    return 1 if part.whole("legacy") else part.whole("sampling_ratio")


def _neighbours(part: Part, at: Lines, bins: int, samples: int) -> Taps:
    """The two neighbours of each sample; each bin has `samples` of them."""
    place = at.places(_counting(part, bins, 2), _counting(part, samples, 3))
    first = part.unary(UnaryOperation.FLOOR, place)
    share = place - first
    second = (first + 1.0).minimum(at.last)
    shares = part.concat([1.0 - share, share], 3) / float(samples)
    return Taps(part.concat([first, second], 3).cast(INT64), shares)


def _covered(part: Part, at: Lines, bins: int, longest: Size) -> Taps:
    """All positions between the first and the last sample of each bin, as many as the largest region needs;
    those beyond a bin's own samples have weight 0."""
    most = part.reduce(ReduceOperation.MAX, at.count, range(4), keep=False).maximum(1.0).cast(INT64)
    # A size clamped to 0 … longest has `longest` as its upper bound.
    each = part.counted(smaller(longest, most.reshape((1,)).maximum(0)))
    samples, each = each.size(0), each.cast(FLOAT)
    place = at.places(_counting(part, bins, 2), each.unsqueeze(0, 1, 2))
    first = part.unary(UnaryOperation.FLOOR, window(place, 3, 0, 1))
    here = first + part.counted(_width(part, samples)).cast(FLOAT).unsqueeze(0, 1, 2)
    apart = part.unary(UnaryOperation.ABS, place.unsqueeze(3) - here.unsqueeze(4))
    near = part.where_(each.unsqueeze(0, 1, 2, 3) < at.count.unsqueeze(4), 1.0 - apart, part.like(0.0, apart))
    share = part.reduce(ReduceOperation.SUM, near.maximum(0.0), [4], keep=False) / at.count
    return Taps(here.minimum(at.last).cast(INT64), share)


def _width(part: Part, samples: Size) -> Size:
    """The number of positions between the first and the last of `samples` samples. Their distance is at most
    1, or almost 2 if corners are samples."""
    return samples * 2 if _mode(part) == LEGACY else samples + 1


def _counting(part: Part, size: int, axis: int) -> Tensor:
    """0, 1, … along one axis of four."""
    return part.constant(np.arange(size).reshape([-1 if k == axis else 1 for k in range(4)]), FLOAT)


def _of_level(part: Part, level: Tensor, sizes: Sequence[Size]) -> Tensor:
    """The entry of `sizes` for the map that each region reads."""
    return part.gather(stack(part, sizes), level, 0)


def _behind(maps: Sequence[Tensor]) -> Tensor:
    """The concatenated positions of all maps, channels innermost: (images, positions, channels)."""
    flat = [x.transpose(0, 2, 3, 1).reshape([length(x, 0), volume(x, (2, 3)), length(x, 1)]) for x in maps]
    return maps[0].layers.concat(flat, 1)


def _starts(part: Part, level: Tensor, maps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The first position of the map that each region reads, and the width of that map."""
    starts: list[Size] = [0]
    for x in maps[:-1]:
        starts.append(volume(x, (2, 3)) + starts[-1])
    return _of_level(part, level, starts), _of_level(part, level, [length(x, 3) for x in maps])


def _pooled(part: Part, x: Tensor, first: Tensor, wide: Tensor, taps: Sequence[Taps]) -> Tensor:
    """Sums over the taps of both axes: (images, regions, channels, bins, bins)."""
    rows, columns = taps
    line = (first + rows.place * wide).unsqueeze(3, 5)  # images, regions, bins, 1, taps, 1
    at = line + columns.place.unsqueeze(2, 4)
    share = rows.share.unsqueeze(3, 5) * columns.share.unsqueeze(2, 4)
    samples = part.layer("add_gather", x, at, 1, num_elementwise_dims=1).cast(FLOAT)
    sums = part.reduce(ReduceOperation.SUM, samples * share.unsqueeze(6), [4, 5], keep=False)
    return sums.transpose(0, 1, 4, 2, 3)


def _one_by_one(part: Part, maps: Sequence[Tensor], level: Tensor, lines: Sequence[Lines]) -> Tensor:
    """The same in a loop over regions, with a number of samples that depends on the size of the region."""
    x, bins = _behind(maps), part.whole("pooled_size")
    images, many, channels = length(level, 0), length(level, 1), length(x, 2)
    first, wide = _starts(part, level, maps)
    image = part.counted(images).unsqueeze(1, 2, 3) * length(x, 1)
    whole = part.concat([image + first, wide + first * 0, *(at.count.cast(INT64) for at in lines)], 3)
    turns = Iterations(part, whole.reshape([images * many, 4]).size(0))
    numbers = turns.each(whole.reshape([images * many, 4]))
    taps = []
    for k, at in enumerate(lines):
        most: Size = 1
        for size in (length(m, 2 + k) for m in maps):
            most = larger(most, (size + bins - 1) // bins)
        own = smaller(most, window(numbers, 0, 2 + k, 1).maximum(0))
        taps.append(_own(part, turns, _covered(part, at, bins, most), part.counted(own).size(0)))
    start, width = (window(numbers, 0, k, 1).reshape((1, 1, 1, 1)) for k in (0, 1))
    one = _pooled(part, x.reshape([1, images * length(x, 1), channels]), start, width, taps)
    return turns.all(one.squeeze(0, 1)).reshape([images, many, channels, bins, bins])


def _own(part: Part, turns: Iterations, taps: Taps, samples: Tensor) -> Taps:
    """The taps of the region of the current iteration."""
    taps_of_turn = []
    for x in (taps.place, taps.share):
        flat = x.reshape([volume(x, (0, 1)), length(x, 2), length(x, 3)])
        taps_of_turn.append(window(turns.each(flat), 1, 0, _width(part, samples)).unsqueeze(0, 1))
    return Taps(*taps_of_turn)


# ---- MultilevelCropAndResize ----------------------------------------------------------------------


def multilevel_crop_and_resize(part: Part) -> Tensor:
    """The sample at the center of each bin; zeros for regions that are empty or not inside the image."""
    rois, maps = _inputs(part, 5)
    high, wide = (float(n) for n in part.wholes("image_size")[1:])
    y1, x1, y2, x2 = (window(rois.cast(FLOAT), 2, k, 1).unsqueeze(3) for k in range(4))
    level = _level(part, (y2 - y1) * (x2 - x1), CANONICAL**2 / 4.0, len(maps))
    scale = part.gather(part.constant(0.25 * 0.5 ** np.arange(len(maps)), FLOAT), level, 0)
    taps = []
    for k, (low, end) in enumerate(((y1, y2), (x1, x2))):
        last = (_of_level(part, level, [length(x, 2 + k) for x in maps]).cast(FLOAT) - 1.0).maximum(0.0)
        bins = part.whole("pooled_size")
        step = (end - low) * scale / float(bins)
        taps.append(_neighbours(part, Lines(low * scale, step, part.like(1.0, low), last, 0.5), bins, 1))
    inside = [~(v < 0.0) & ~(v > most) for v, most in ((y1, high), (x1, wide), (y2, high), (x2, wide))]
    there = inside[0] & inside[1] & inside[2] & inside[3] & (y1 < y2) & (x1 < x2)
    samples = _pooled(part, _behind(maps), *_starts(part, level, maps), taps)
    return part.where_(there.unsqueeze(4), samples, part.like(0.0, samples)).cast(maps[0].dtype)


POOLED = Field("pooled_size", 7, 1)
FLAG = (0, 1)
PLUGINS = (
    Standard(
        "PyramidROIAlign_TRT",
        pyramid_roi_align,
        (
            Field("fpn_scale", CANONICAL, 1),
            POOLED,
            Field("image_size", (1024, 1024), 1, count=2),
            Field("roi_coords_absolute", 1, *FLAG),
            Field("roi_coords_swap", 0, *FLAG),
            Field("roi_coords_plusone", 0, *FLAG),
            Field("roi_coords_transform", HALF_PIXEL, LEGACY, HALF_PIXEL),
            Field("sampling_ratio", 0, 0),
            Field("legacy", 0, *FLAG),
        ),
        inputs=(5, 5),
    ),
    Standard(
        "MultilevelCropAndResize_TRT",
        multilevel_crop_and_resize,
        (POOLED, Field("image_size", (3, 832, 1344), 1, count=3)),
        inputs=(6, 6),
    ),
)
