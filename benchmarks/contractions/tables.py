"""The distinct convolutions of known networks: (channels in, channels out, kernel, stride, padding, groups,
size of the square input), batch norm folded.

>>> len(NETWORKS["resnet50"])
23
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from benchmarks.contractions.networks import STAGES

Row: TypeAlias = tuple[int, int, int, int, int, int, int]
Table: TypeAlias = tuple[Row, ...]

# Blocks of networks for 224²: how many times as wide inside, channels, how many, stride of the first, kernel.
MOBILENET_V2 = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3)),
    *((6, 160, 3, 2, 3), (6, 320, 1, 1, 3)),
)
EFFICIENTNET_B0 = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5)),
    *((6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
)


def _pointwise(before: int, after: int, edge: int, stride: int = 1) -> Row:
    return (before, after, 1, stride, 0, 1, edge)


def _resnet50() -> Iterator[Row]:
    """The stride in the 3×3 convolution."""
    yield (3, 64, 7, 2, 3, 1, 224)
    before, edge = 64, 56
    for width, count in STAGES:
        for block in range(count):
            stride = 2 if width > 64 and not block else 1
            yield _pointwise(before, width, edge)
            yield (width, width, 3, stride, 1, 1, edge)
            if not block:
                yield _pointwise(before, 4 * width, edge, stride)
            edge //= stride
            yield _pointwise(width, 4 * width, edge)
            before = 4 * width


def _inverted(blocks: Sequence[tuple[int, ...]], gated: bool = False) -> Iterator[Row]:
    """A wide depthwise convolution between two of size 1; gated: with two products that weigh channels."""
    yield (3, 32, 3, 2, 1, 1, 224)
    before, edge = 32, 112
    for wider, after, count, first, kernel in blocks:
        for block in range(count):
            width, stride = wider * before, 1 if block else first
            if wider > 1:
                yield _pointwise(before, width, edge)
            yield (width, width, kernel, stride, kernel // 2, width, edge)
            edge //= stride
            if gated:
                yield _pointwise(width, before // 4, 1)
                yield _pointwise(before // 4, width, 1)
            yield _pointwise(width, after, edge)
            before = after
    yield _pointwise(before, 1280, edge)


def _distinct(rows: Iterator[Row]) -> Table:
    return tuple(dict.fromkeys(rows))


# 256², four levels from 64 channels on, padding kept.
UNET: Table = (
    (3, 64, 3, 1, 1, 1, 256), (64, 64, 3, 1, 1, 1, 256), (64, 128, 3, 1, 1, 1, 128),
    (128, 128, 3, 1, 1, 1, 128), (128, 256, 3, 1, 1, 1, 64), (256, 256, 3, 1, 1, 1, 64),
    (256, 512, 3, 1, 1, 1, 32), (512, 512, 3, 1, 1, 1, 32), (512, 1024, 3, 1, 1, 1, 16),
    (1024, 1024, 3, 1, 1, 1, 16), (1024, 512, 3, 1, 1, 1, 32), (512, 256, 3, 1, 1, 1, 64),
    (256, 128, 3, 1, 1, 1, 128), (128, 64, 3, 1, 1, 1, 256), (64, 2, 1, 1, 0, 1, 256),
)  # fmt: skip
# 640².
YOLOV5N: Table = (
    (3, 16, 6, 2, 2, 1, 640), (16, 32, 3, 2, 1, 1, 320), (32, 16, 1, 1, 0, 1, 160),
    (16, 16, 1, 1, 0, 1, 160), (16, 16, 3, 1, 1, 1, 160), (32, 32, 1, 1, 0, 1, 160),
    (32, 64, 3, 2, 1, 1, 160), (64, 32, 1, 1, 0, 1, 80), (32, 32, 1, 1, 0, 1, 80), (32, 32, 3, 1, 1, 1, 80),
    (64, 64, 1, 1, 0, 1, 80), (64, 128, 3, 2, 1, 1, 80), (128, 64, 1, 1, 0, 1, 40),
    (64, 64, 1, 1, 0, 1, 40), (64, 64, 3, 1, 1, 1, 40), (128, 128, 1, 1, 0, 1, 40),
    (128, 256, 3, 2, 1, 1, 40), (256, 128, 1, 1, 0, 1, 20), (128, 128, 1, 1, 0, 1, 20),
    (128, 128, 3, 1, 1, 1, 20), (256, 256, 1, 1, 0, 1, 20), (512, 256, 1, 1, 0, 1, 20),
    (256, 64, 1, 1, 0, 1, 40), (128, 32, 1, 1, 0, 1, 80), (64, 64, 3, 2, 1, 1, 80),
    (128, 128, 3, 2, 1, 1, 40), (64, 255, 1, 1, 0, 1, 80), (128, 255, 1, 1, 0, 1, 40),
    (256, 255, 1, 1, 0, 1, 20),
)  # fmt: skip

NETWORKS = {
    "resnet50": _distinct(_resnet50()),
    "mobilenetv2": _distinct(_inverted(MOBILENET_V2)),
    "efficientnetb0": _distinct(_inverted(EFFICIENTNET_B0, gated=True)),
    "unet": UNET,
    "yolov5n": YOLOV5N,
}
