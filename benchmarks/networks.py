"""Whole networks to build: each function adds `size` blocks or layers to a network, and returns the result.

network = trt.Builder(logger).create_network()
network.mark_output(residual(network, 12))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

import anyrt as trt
from benchmarks.steps import Shape

Network: TypeAlias = Callable[[trt.INetworkDefinition, int], trt.ITensor]

ROWS = (1, 128, 768)
PATCHES = (1, 197, 768)
MAPS = (1, 8, 16, 24)
SMALL_MAPS = (1, 8, 24, 24)
LAST, PLANES = 1 << 2, 1 << 2 | 1 << 3  # masks of axes that statistics run over

Act, Op, Interpolation = trt.ActivationType, trt.ElementWiseOperation, trt.InterpolationMode
SLOPED = (Act.LEAKY_RELU, Act.ELU, Act.SOFTPLUS, Act.SCALED_TANH)
MODES = tuple(Interpolation.__members__.values())
GRIDS = tuple(trt.ResizeCoordinateTransformation.__members__.values())


@dataclass(frozen=True, slots=True)
class Part:
    """A network that is part of another, and how often."""

    network: str
    size: int
    count: int = 1


def residual(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """x + n · sigmoid(n), where n is x normalised."""
    x = network.add_input("x", trt.float32, ROWS)
    for _ in range(size):
        normal = _layernorm(network, x)
        gate = network.add_activation(normal, Act.SIGMOID).get_output(0)
        x = _both(network, x, _both(network, normal, gate, Op.PROD), Op.SUM)
    return x


def gelu(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """x + gelu(layernorm(x))."""
    x = network.add_input("x", trt.float32, PATCHES)
    for _ in range(size):
        y = network.add_activation(_layernorm(network, x), Act.GELU_ERF).get_output(0)
        x = _both(network, x, y, Op.SUM)
    return x


def normalizations(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """Layer normalisations, one after the other."""
    x = network.add_input("x", trt.float32, ROWS)
    for _ in range(size):
        x = _layernorm(network, x)
    return x


def linear(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """Linear resizes, each one row and one column larger."""
    return _grown(network, 0, size, Interpolation.LINEAR)


def cubic(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """Cubic resizes, each one row and one column larger."""
    return _grown(network, 0, size, Interpolation.CUBIC)


def one_linear(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """Only the last of `size` linear resizes."""
    return _grown(network, size - 1, size, Interpolation.LINEAR)


def one_cubic(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """Only the last of `size` cubic resizes."""
    return _grown(network, size - 1, size, Interpolation.CUBIC)


@dataclass(frozen=True, slots=True)
class Unit:
    """The settings of five layers: a function with its slope, a resize with its size."""

    function: trt.ActivationType = Act.LEAKY_RELU
    slope: float = 0.1
    mode: trt.InterpolationMode = Interpolation.LINEAR
    grid: trt.ResizeCoordinateTransformation = GRIDS[0]
    maps: Shape = MAPS[2:]


def mixed(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """Pointwise, normalisation, residual sum, resize, shuffle, repeated: every fifth layer is equal."""
    return _chain(network, size, lambda number: Unit())


def varied(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """The same layers, all different: functions, slopes, modes, grids and sizes vary."""
    return _chain(network, size, _unlike)


def _unlike(number: int) -> Unit:
    return Unit(
        SLOPED[number % len(SLOPED)],
        0.1 + number / 1024,
        MODES[number % len(MODES)],
        GRIDS[number % len(GRIDS)],
        (12 + number % 20, 12 + number // 20 % 20),
    )


def weights(network: trt.INetworkDefinition, size: int) -> trt.ITensor:
    """A sum with `size` constants of 1 MB."""
    x = network.add_input("x", trt.float32, (1, 1))
    return _both(network, x, _constant(network, (size, 1 << 18)), Op.SUM)


def _chain(network: trt.INetworkDefinition, size: int, unit_of: Callable[[int], Unit]) -> trt.ITensor:
    before = y = network.add_input("x", trt.float32, MAPS)
    for n in range(size):
        unit = unit_of(n // 5)
        match n % 5:
            case 0:
                before, layer = y, network.add_activation(y, unit.function)
                layer.alpha, layer.beta = unit.slope, 1.0
                y = layer.get_output(0)
            case 1:
                y = _normalised(network, y, (1, y.shape[1], 1, 1), PLANES)
            case 2:
                y = _both(network, before, y, Op.SUM)
            case 3:
                y = _resized(network, y, (*MAPS[:2], *reversed(unit.maps)), unit.mode, unit.grid)
            case 4:
                shuffle = network.add_shuffle(y)
                shuffle.first_transpose = (0, 1, 3, 2)
                y = shuffle.get_output(0)
    return y


def _grown(
    network: trt.INetworkDefinition, first: int, last: int, mode: trt.InterpolationMode
) -> trt.ITensor:
    def shape(k: int) -> Shape:
        return (*SMALL_MAPS[:2], *(d + k for d in SMALL_MAPS[2:]))

    x = network.add_input("x", trt.float32, shape(first))
    for k in range(first, last):
        x = _resized(network, x, shape(k + 1), mode, trt.ResizeCoordinateTransformation.HALF_PIXEL)
    return x


def _resized(
    network: trt.INetworkDefinition,
    x: trt.ITensor,
    shape: Shape,
    mode: trt.InterpolationMode,
    grid: trt.ResizeCoordinateTransformation,
) -> trt.ITensor:
    layer = network.add_resize(x)
    layer.resize_mode, layer.coordinate_transformation, layer.shape = mode, grid, shape
    return layer.get_output(0)


def _layernorm(network: trt.INetworkDefinition, x: trt.ITensor) -> trt.ITensor:
    return _normalised(network, x, (1, 1, x.shape[2]), LAST)


def _normalised(network: trt.INetworkDefinition, x: trt.ITensor, affine: Shape, mask: int) -> trt.ITensor:
    """affine: the shape of scale and bias; mask: the axes of the statistics."""
    gain, bias = _constant(network, affine), _constant(network, affine)
    return network.add_normalization(x, gain, bias, mask).get_output(0)


def _constant(network: trt.INetworkDefinition, shape: Shape) -> trt.ITensor:
    """Weights that no other layer has."""
    numbers = np.random.default_rng(network.num_layers).random(shape, np.float32) + np.float32(0.5)
    return network.add_constant(shape, trt.Weights(numbers)).get_output(0)


def _both(
    network: trt.INetworkDefinition, a: trt.ITensor, b: trt.ITensor, op: trt.ElementWiseOperation
) -> trt.ITensor:
    return network.add_elementwise(a, b, op).get_output(0)
