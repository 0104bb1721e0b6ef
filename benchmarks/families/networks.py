"""What cases ask of AnyRT's networks beside their layers."""

from __future__ import annotations

from typing import Any

import numpy as np

import anyrt as trt
from benchmarks.values import Array


def constant_of(network: Any, array: Array) -> Any:  # Any: networks and tensors, whose classes are derived
    """A constant tensor."""
    weights = trt.Weights(np.ascontiguousarray(array))
    return network.add_constant(array.shape, weights).get_output(0)
