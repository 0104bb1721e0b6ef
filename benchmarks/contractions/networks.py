"""Whole networks in the language of calls, with random weights: ResNet-50 and a transformer's encoder.

resnet50(calls, x, Numbers(Element.F32))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from benchmarks.contractions.calls import Act, Calls, Numbers
from benchmarks.contractions.forms import Fold, Mask, Window

T = TypeVar("T")
IMAGE = (1, 3, 224, 224)
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width of the blocks, how many
CLASSES = 1000
TOKENS, WIDTH, HEADS, HIDDEN, LAYERS = 128, 768, 12, 3072, 12


def resnet50(calls: Calls[T], x: T, numbers: Numbers) -> T:
    """(1, 3, 224, 224) to a number for each of 1000 classes; the stride in the 3×3 convolution."""
    y = _convolved(calls, x, numbers, 3, 64, 7, 2)
    y = calls.pool(calls.act(y, Act.RELU), Fold.MAX, Window((3, 3), (2, 2), (1, 1)))
    channels = 64
    for stage, (width, blocks) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = _bottleneck(calls, y, numbers, channels, width, stride)
            channels = 4 * width
    mean = calls.pool(y, Fold.AVERAGE, Window((7, 7), (7, 7), (0, 0)))
    rows = calls.reshape(mean, (1, channels))
    logits = calls.product(rows, calls.constant(numbers.weights((channels, CLASSES), channels)))
    return calls.add(logits, calls.constant(numbers.weights((CLASSES,), 1)))


def _bottleneck(calls: Calls[T], x: T, numbers: Numbers, channels: int, width: int, stride: int) -> T:
    y = calls.act(_convolved(calls, x, numbers, channels, width, 1, 1), Act.RELU)
    y = calls.act(_convolved(calls, y, numbers, width, width, 3, stride), Act.RELU)
    y = _convolved(calls, y, numbers, width, 4 * width, 1, 1)
    short = x if channels == 4 * width else _convolved(calls, x, numbers, channels, 4 * width, 1, stride)
    return calls.act(calls.add(y, short), Act.RELU)


def _convolved(calls: Calls[T], x: T, numbers: Numbers, c_in: int, c_out: int, kernel: int, stride: int) -> T:
    weights = numbers.weights((c_out, c_in, kernel, kernel), c_in * kernel * kernel)
    bias = numbers.weights((c_out,), 16)
    window = Window((kernel, kernel), (stride, stride), (kernel // 2, kernel // 2))
    return calls.convolution(x, weights, bias, window)


def encoder12(calls: Calls[T], x: T, numbers: Numbers) -> T:
    """Twelve layers over (1, 128, 768), each normalised before its attention and before its two products."""
    for _ in range(LAYERS):
        x = calls.add(x, _attended(calls, _normalized(calls, x, numbers), numbers))
        hidden = _dense(calls, _normalized(calls, x, numbers), numbers, WIDTH, HIDDEN)
        x = calls.add(x, _dense(calls, calls.act(hidden, Act.GELU), numbers, HIDDEN, WIDTH))
    return _normalized(calls, x, numbers)


def _attended(calls: Calls[T], x: T, numbers: Numbers) -> T:
    size = WIDTH // HEADS

    def heads(scale: float) -> T:
        """Queries carry the 1 / √size in their weights."""
        y = _dense(calls, x, numbers, WIDTH, WIDTH, scale)
        return calls.transpose(calls.reshape(y, (1, TOKENS, HEADS, size)), (0, 2, 1, 3))

    y = calls.attention(heads(size**-0.5), heads(1.0), heads(1.0), Mask.NONE, None)
    rows = calls.reshape(calls.transpose(y, (0, 2, 1, 3)), (1, TOKENS, WIDTH))
    return _dense(calls, rows, numbers, WIDTH, WIDTH)


def _dense(calls: Calls[T], x: T, numbers: Numbers, c_in: int, c_out: int, scale: float = 1.0) -> T:
    weights = numbers.weights((c_in, c_out), c_in) * numbers.dtype.numpy.type(scale)
    y = calls.product(x, calls.constant(weights))
    return calls.add(y, calls.constant(numbers.weights((c_out,), 16)))


def _normalized(calls: Calls[T], x: T, numbers: Numbers) -> T:
    return calls.normalize(x, numbers.ones((WIDTH,)), numbers.weights((WIDTH,), 16))


NETWORKS: dict[str, Callable[[Any, Any, Numbers], Any]] = {  # Any: calls of any program
    "resnet50": resnet50,
    "encoder12": encoder12,
}
