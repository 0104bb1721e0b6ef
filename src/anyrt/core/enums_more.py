"""The less common enums: plugins, calibration, the ONNX parser, attention and collectives.

>>> int(PluginFieldType.FLOAT32)
1
"""

from __future__ import annotations

from anyrt.core.trt_enum import TrtEnum


class APILanguage(TrtEnum):
    """The implementation language of a plugin."""

    CPP, PYTHON = range(2)


class AllocatorFlag(TrtEnum):
    """What an allocator promises for one block."""

    RESIZABLE = 0


class AttentionIOForm(TrtEnum):
    """The layout of attention inputs and outputs."""

    PADDED_BHND, PACKED_NHD = range(2)


class AttentionNormalizationOp(TrtEnum):
    """The normalization of attention scores."""

    NONE, SOFTMAX = range(2)


class BoundingBoxFormat(TrtEnum):
    """The encoding of a box for non-maximum suppression."""

    CORNER_PAIRS, CENTER_SIZES = range(2)


class CalibrationAlgoType(TrtEnum):
    """The algorithm of an int8 calibrator."""

    LEGACY_CALIBRATION, ENTROPY_CALIBRATION, ENTROPY_CALIBRATION_2, MINMAX_CALIBRATION = range(4)


class CausalMaskKind(TrtEnum):
    """Where the causal mask of attention is anchored."""

    NONE, UPPER_LEFT, LOWER_RIGHT = range(3)


class CollectiveOperation(TrtEnum):
    """The operation of a collective layer."""

    ALL_REDUCE, ALL_GATHER, BROADCAST, REDUCE, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER = range(8)


class DimensionOperation(TrtEnum):
    """Arithmetic on symbolic dimensions in a plugin."""

    SUM, PROD, MAX, MIN, SUB, EQUAL, LESS, FLOOR_DIV, CEIL_DIV = range(9)


class ErrorCode(TrtEnum):
    """What the ONNX parser reports."""

    SUCCESS, INTERNAL_ERROR, MEM_ALLOC_FAILED, MODEL_DESERIALIZE_FAILED, INVALID_VALUE = range(5)
    INVALID_GRAPH, INVALID_NODE, UNSUPPORTED_GRAPH, UNSUPPORTED_NODE, UNSUPPORTED_NODE_ATTR = range(5, 10)
    UNSUPPORTED_NODE_INPUT, UNSUPPORTED_NODE_DATATYPE, UNSUPPORTED_NODE_DYNAMIC = range(10, 13)
    UNSUPPORTED_NODE_SHAPE, REFIT_FAILED = range(13, 15)


class KVCacheMode(TrtEnum):
    """How a key-value cache is written."""

    LINEAR = 0


class MoEActType(TrtEnum):
    """The activation inside a mixture of experts."""

    NONE, SILU = range(2)


class OnnxParserFlag(TrtEnum):
    """Switches of the ONNX parser."""

    NATIVE_INSTANCENORM, ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA, REPORT_CAPABILITY_DLA = range(3)
    ENABLE_PLUGIN_OVERRIDE, ADJUST_FOR_DLA = range(3, 5)


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


class QuantizationFlag(TrtEnum):
    """Switches of quantisation."""

    CALIBRATE_BEFORE_FUSION = 0


class QuickPluginCreationRequest(TrtEnum):
    """The requested form of a decorator plugin."""

    UNKNOWN, PREFER_JIT, PREFER_AOT, STRICT_JIT, STRICT_AOT = range(5)


class SeekPosition(TrtEnum):
    """The reference point of a stream position."""

    SET, CUR, END = range(3)


class TensorRTPhase(TrtEnum):
    """Whether a plugin is being built or run."""

    BUILD, RUNTIME = range(2)
