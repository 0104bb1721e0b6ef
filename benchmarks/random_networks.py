"""Random valid networks of layers, through the public API, determined by a seed.

    output = random_network(network, seed)

In a quarter of them, the first size is dynamic.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

import anyrt as trt
from benchmarks.steps import Shape

LAYERS = 20  # at most
VOLUME = 20_000  # elements of a tensor, where the open size is OPEN
OPEN = 8
SHAPES: tuple[Shape, ...] = ((2, 3, 4, 5), (1, 8, 7, 9), (4, 4, 16, 16), (1, 3, 33, 17), (2, 2, 2, 2))
TYPES = (trt.float32, trt.float32, trt.float32, trt.float16, trt.bfloat16)
POWERS = (2.0, 3.0, 0.5, -1.0, 1.7)
SIZES = (1, 2, 3, 5, 8, 16, 17)
NUMBERS = {trt.ReduceOperation.SUM, trt.ReduceOperation.AVG, trt.ReduceOperation.MAX, trt.ReduceOperation.MIN}
UNARY = (
    trt.UnaryOperation.EXP, trt.UnaryOperation.SQRT, trt.UnaryOperation.ABS, trt.UnaryOperation.NEG,
    trt.UnaryOperation.SIN, trt.UnaryOperation.ERF, trt.UnaryOperation.RECIP, trt.UnaryOperation.FLOOR,
)  # fmt: skip
BINARY = (
    trt.ElementWiseOperation.SUM, trt.ElementWiseOperation.PROD, trt.ElementWiseOperation.SUB,
    trt.ElementWiseOperation.DIV, trt.ElementWiseOperation.MAX, trt.ElementWiseOperation.MIN,
    trt.ElementWiseOperation.POW,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grower:
    """A growing network: its tensors and the random generator."""

    network: trt.INetworkDefinition
    dice: random.Random
    tensors: list[trt.ITensor]

    def tensor(self) -> trt.ITensor:
        """One of the last tensors, mostly the last one."""
        return self.dice.choice(self.tensors[-3:] + self.tensors[-1:] * 3)

    def axis(self, x: trt.ITensor) -> int:
        """Any axis but the first, which may be dynamic."""
        return self.dice.randrange(1, len(x.shape))

    def mask(self, x: trt.ITensor) -> int:
        """A mask of one or more axes without the first."""
        return sum({1 << self.axis(x) for _ in range(self.dice.randint(1, 3))})

    def constant(self, x: trt.ITensor, shape: Shape) -> trt.ITensor:
        """Random numbers of the type of `x`."""
        numbers = np.random.default_rng(self.network.num_layers).random(shape, np.float32) + np.float32(0.5)
        layer = self.network.add_constant(shape, trt.Weights(numbers)).get_output(0)
        return layer if x.dtype == trt.float32 else self.network.add_cast(layer, x.dtype).get_output(0)


Step: TypeAlias = Callable[[Grower, trt.ITensor], trt.ILayer]


def random_network(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """The last tensor of the network of seed `size`, with at most LAYERS layers besides constants."""
    dice = random.Random(size)
    shape = dice.choice(SHAPES)
    if dice.random() < 0.25:
        shape = (-1, *shape[1:])
    grower = Grower(network, dice, [network.add_input("x", dice.choice(TYPES), shape)])
    for _ in range(dice.randint(1, LAYERS)):
        x = grower.tensor()
        y = dice.choice(STEPS)(grower, x).get_output(0)
        assert y.shape.rank > 0, f"seed {size}: a layer was refused"
        if math.prod(OPEN if d < 0 else d for d in y.shape) <= VOLUME:
            grower.tensors.append(y)
    if len(grower.tensors) == 1:
        grower.tensors.append(activation(grower, grower.tensors[0]).get_output(0))
    return grower.tensors[-1]


def activation(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """Any activation function."""
    layer = grower.network.add_activation(x, grower.dice.choice([*trt.ActivationType.__members__.values()]))
    layer.alpha, layer.beta = grower.dice.choice((0.1, 1.0)), grower.dice.choice((0.5, 1.0))
    return layer


def unary(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A unary function."""
    return grower.network.add_unary(x, grower.dice.choice(UNARY))


def binary(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """An operation with another tensor of the same shape, or with a constant."""
    alike = [t for t in grower.tensors if t.dtype == x.dtype and tuple(t.shape) == tuple(x.shape)]
    axis = grower.axis(x)
    row = tuple(d if k == axis else 1 for k, d in enumerate(x.shape))
    other = grower.dice.choice(alike) if grower.dice.random() < 0.7 else grower.constant(x, row)
    return grower.network.add_elementwise(x, other, grower.dice.choice(BINARY))


def scale(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A scale, in half of the cases with a power."""
    modes = trt.ScaleMode.__members__.values()
    mode, axis = grower.dice.choice([*modes]), 1
    count = {trt.ScaleMode.UNIFORM: 1, trt.ScaleMode.CHANNEL: x.shape[1]}.get(mode, math.prod(x.shape[1:]))
    some = np.random.default_rng(count).random(count, np.float32) + np.float32(0.5)
    power = np.full(count, grower.dice.choice(POWERS), np.float32) if grower.dice.random() < 0.5 else None
    return grower.network.add_scale_nd(x, mode, some, some, power, axis)


def normalization(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A normalisation over some axes."""
    mask = grower.mask(x)
    shape = tuple(d if mask >> k & 1 else 1 for k, d in enumerate(x.shape))
    gain, bias = grower.constant(x, shape), grower.constant(x, shape)
    return grower.network.add_normalization_v2(x, gain, bias, mask)


def resize(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A resize of one or both of the last two axes, in any mode."""
    layer = grower.network.add_resize(x)
    layer.resize_mode = grower.dice.choice([*trt.InterpolationMode.__members__.values()])
    grids = [*trt.ResizeCoordinateTransformation.__members__.values()]
    layer.coordinate_transformation = grower.dice.choice(grids)
    axes = grower.dice.choice(((2,), (3,), (2, 3)))
    factors = {k: grower.dice.choice(SIZES) / x.shape[k] for k in axes}
    layer.scales = [factors.get(k, 1.0) for k in range(len(x.shape))]
    return layer


def transpose(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A permutation of all axes but the first."""
    layer = grower.network.add_shuffle(x)
    axes = range(1, len(x.shape))
    layer.first_transpose = (0, *grower.dice.sample(axes, len(axes)))
    return layer


def reshape(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A reshape to permuted sizes."""
    layer = grower.network.add_shuffle(x)
    layer.reshape_dims = (0, *grower.dice.sample(list(x.shape[1:]), len(x.shape) - 1))
    return layer


def reduce(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A reduction of some axes, which keep size 1."""
    kind = grower.dice.choice([k for k in trt.ReduceOperation.__members__.values() if k in NUMBERS])
    return grower.network.add_reduce(x, kind, grower.mask(x), True)


def slice_(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A slice of each axis but the first, which keeps one element."""
    pairs = [sorted(grower.dice.choices(range(d), k=2)) for d in x.shape[1:]]
    start, size = (0, *(a for a, _ in pairs)), (1, *(b - a + 1 for a, b in pairs))
    return grower.network.add_slice(x, start, size, (1,) * len(start))


def concatenation(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A tensor with itself, or with another one that fits."""
    alike = [t for t in grower.tensors if t.dtype == x.dtype and tuple(t.shape) == tuple(x.shape)]
    layer = grower.network.add_concatenation([x, grower.dice.choice(alike)])
    layer.axis = grower.axis(x)
    return layer


def cast(grower: Grower, x: trt.ITensor) -> trt.ILayer:
    """A cast to another floating-point type."""
    return grower.network.add_cast(x, grower.dice.choice(TYPES))


STEPS: tuple[Step, ...] = (
    *(activation, activation, unary, binary, binary, scale, normalization, normalization, resize),
    *(transpose, reshape, reduce, slice_, concatenation, cast),
)
