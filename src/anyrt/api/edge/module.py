"""The functions of the module: `nptype`, `volume`, plug-in registries.

>>> volume((2, 3, 4)), volume(()), nptype(DataType.HALF)
(24, 1, <class 'numpy.float16'>)
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from anyrt.api.edge.quiet import wrong_type
from anyrt.api.plugins.registry import IPluginRegistry, the_registry
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType, EngineCapability

_NUMPY: dict[DataType, type[np.generic]] = {
    DataType.FLOAT: np.float32,
    DataType.HALF: np.float16,
    DataType.INT8: np.int8,
    DataType.INT32: np.int32,
    DataType.INT64: np.int64,
    DataType.BOOL: np.bool_,
    DataType.UINT8: np.uint8,
}


def nptype(trt_type: DataType) -> type[np.generic]:
    """The NumPy type of an element type; TypeError for types of TensorRT that NumPy lacks. For types that
    only AnyRT has and NumPy lacks, the type of ml_dtypes."""
    if isinstance(trt_type, DataType) and trt_type.is_extension:
        return numpy_dtype(trt_type).type
    if trt_type not in _NUMPY:
        raise TypeError(f"Could not resolve TensorRT datatype to an equivalent numpy datatype: {trt_type}")
    return _NUMPY[trt_type]


def volume(iterable: Iterable[int]) -> int:
    """The product of all sizes; 1 if there are none."""
    return math.prod(iterable)


def get_plugin_registry() -> IPluginRegistry:
    """The registry of all plug-ins of this process."""
    return the_registry()


def get_builder_plugin_registry(arg0: EngineCapability) -> IPluginRegistry:
    """The registry that builders of this capability use."""
    if not isinstance(arg0, EngineCapability):
        raise wrong_type("get_builder_plugin_registry", arg0, EngineCapability)
    return the_registry()


def _itemsize(trt_type: DataType) -> int | float:
    """The bytes of one element, for `DataType.itemsize`."""
    return trt_type.itemsize
