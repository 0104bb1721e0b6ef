"""The enums of plug-ins.

>>> int(PluginFieldType.FLOAT32)
1
"""

from __future__ import annotations

from anyrt.core.trt_enum import TrtEnum


class APILanguage(TrtEnum):
    """The implementation language of a plugin."""

    CPP, PYTHON = range(2)


class DimensionOperation(TrtEnum):
    """Arithmetic on symbolic dimensions in a plugin."""

    SUM, PROD, MAX, MIN, SUB, EQUAL, LESS, FLOOR_DIV, CEIL_DIV = range(9)


class PluginArgDataType(TrtEnum):
    """The type of a scalar argument of an ahead-of-time plugin."""

    INT8, INT16, INT32 = range(3)


class PluginArgType(TrtEnum):
    """The kind of an argument of an ahead-of-time plugin."""

    INT = 0


class PluginCapabilityType(TrtEnum):
    """The interface of a plugin that is requested."""

    CORE, BUILD, RUNTIME = range(3)


class PluginCreatorVersion(TrtEnum):
    """The version of a plugin creator."""

    V1 = 0
    V1_PYTHON = 64


class PluginFieldType(TrtEnum):
    """The type of a field passed to a plugin creator."""

    FLOAT16, FLOAT32, FLOAT64, INT8, INT16, INT32, CHAR, DIMS, UNKNOWN, BF16, INT64, FP8, INT4 = range(13)
    FP4 = 13


class QuickPluginCreationRequest(TrtEnum):
    """The requested form of a decorator plugin."""

    UNKNOWN, PREFER_JIT, PREFER_AOT, STRICT_JIT, STRICT_AOT = range(5)


class TensorRTPhase(TrtEnum):
    """Whether a plugin is being built or run."""

    BUILD, RUNTIME = range(2)
