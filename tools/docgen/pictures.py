"""The picture in the README: a residual block, as `anyrt draw` shows it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import anyrt as trt
from anyrt.cli.commands.draw import drawn
from anyrt.cli.draw.svg import svg

CHANNELS = 32


def residual() -> dict[str, str]:
    """Path below the root and text of the picture."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network()
    network.name = "residual block"
    x = network.add_input("x", trt.float32, (1, CHANNELS, 28, 28))
    t = _activation(network, _normalization(network, x, "norm1"), "gelu", trt.ActivationType.GELU_ERF)
    t = _activation(network, _normalization(network, t, "norm2"), "relu", trt.ActivationType.RELU)
    add = network.add_elementwise(t, x, trt.ElementWiseOperation.SUM)
    add.name, add.get_output(0).name = "add", "y"
    network.mark_output(add.get_output(0))
    with tempfile.TemporaryDirectory() as folder, trt.strict():
        path = Path(folder, "residual.plan")
        path.write_bytes(builder.build_serialized_network(network, builder.create_builder_config()))
        picture, notes, _ = drawn(str(path), profile=False)
    return {"docs/residual.svg": svg(picture, notes)}


def _normalization(network: trt.INetworkDefinition, x: trt.ITensor, name: str) -> trt.ITensor:
    shape = (1, CHANNELS, 1, 1)
    values = np.linspace(0.5, 1.5, CHANNELS, dtype=np.float32)
    scale, bias = (network.add_constant(shape, values) for _ in range(2))
    layer = network.add_normalization(x, scale.get_output(0), bias.get_output(0), 1 << 2 | 1 << 3)
    layer.name = name
    return layer.get_output(0)


def _activation(
    network: trt.INetworkDefinition, x: trt.ITensor, name: str, kind: trt.ActivationType
) -> trt.ITensor:
    layer = network.add_activation(x, kind)
    layer.name = name
    return layer.get_output(0)
