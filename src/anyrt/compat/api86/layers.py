"""Layers that 8.6 had, made of those that are there. The functions become methods of the network."""

from __future__ import annotations

import math

import anyrt as trt
from anyrt.api.edge import quiet, wrong_type
from anyrt.api.weights import Weights, to_weights
from anyrt.core.errors import ShapeError

PLACE = "add_fully_connected"


@quiet(None)
def add_fully_connected(
    self: trt.INetworkDefinition,
    input: trt.ITensor,
    num_outputs: int,
    kernel: object,
    bias: object = None,
) -> trt.ILayer:
    """The last three dimensions of `input`, C·H·W elements, times a kernel of num_outputs rows, plus a bias
    for each: (…, num_outputs, 1, 1).

    The answer is the last of the layers that compute this, a shuffle: it has no `kernel` to assign."""
    if not isinstance(input, trt.ITensor):
        raise wrong_type(f"{PLACE}: input", input, "an ITensor")
    shape = tuple(input.shape)
    if len(shape) < 3:
        do = "add dimensions of size 1 with a shuffle"
        raise ShapeError("AR101", PLACE, f"rank {len(shape)}", "rank >= 3", do)
    if -1 in shape[-3:]:
        do = "fix these sizes in the input"
        raise ShapeError("AR117", PLACE, f"{shape}", "three static dimensions at the end", do)
    columns, outer = math.prod(shape[-3:]), (0,) * len(shape[:-3])  # 0: as in the input
    weights = _counted(kernel, "kernel", num_outputs * columns)
    x = self.add_shuffle(input)
    x.reshape_dims = (*outer, 1, columns)
    rows = self.add_constant((*(1 for _ in outer), num_outputs, columns), weights)
    product = self.add_elementwise(x.get_output(0), rows.get_output(0), trt.ElementWiseOperation.PROD)
    total = self.add_reduce(
        product.get_output(0), trt.ReduceOperation.SUM, 2 << len(outer), False
    ).get_output(0)
    if bias is not None and to_weights(bias, f"{PLACE}: bias").size:
        biases = _counted(bias, "bias", num_outputs)
        one_each = self.add_constant((*(1 for _ in outer), num_outputs), biases)
        plus = self.add_elementwise(total, one_each.get_output(0), trt.ElementWiseOperation.SUM)
        total = plus.get_output(0)
    y = self.add_shuffle(total)
    y.reshape_dims = (*outer, num_outputs, 1, 1)
    return y


def _counted(given: object, name: str, count: int) -> Weights:
    weights = to_weights(given, f"{PLACE}: {name}")
    if weights.size != count:
        do = "give num_outputs rows of C * H * W" if name == "kernel" else "give one for each output"
        raise ShapeError("AR103", f"{PLACE}: {name}", f"{weights.size} weights", f"{count}", do)
    return weights
