"""Members and values of the enums of 8.6: some are aliases of current members, some have no equivalent.

Members that only TensorRT 10 has get values after those of 8.6.
"""

from __future__ import annotations

from typing import Final

from anyrt.api.building.config import IBuilderConfig
from anyrt.core.enums import (
    BuilderFlag,
    EngineCapability,
    LayerType,
    NetworkDefinitionCreationFlag,
    PaddingMode,
    PreviewFeature,
    ProfilingVerbosity,
    SampleMode,
)
from anyrt.core.trt_enum import TrtEnum, add_name, add_to_list, renumber, unlisted
from anyrt.ops import REMOVED

_SAME: tuple[tuple[str, TrtEnum], ...] = (
    ("DEFAULT", EngineCapability.STANDARD),
    ("SAFE_GPU", EngineCapability.SAFETY),
    ("SAFE_DLA", EngineCapability.DLA_STANDALONE),
    ("DEFAULT", ProfilingVerbosity.LAYER_NAMES_ONLY),
    ("VERBOSE", ProfilingVerbosity.DETAILED),
    ("DEFAULT", SampleMode.STRICT_BOUNDS),
)
_MORE: tuple[tuple[str, type[TrtEnum]], ...] = (
    ("STRICT_TYPES", BuilderFlag),
    ("ENABLE_TACTIC_HEURISTIC", BuilderFlag),
    ("EXPLICIT_PRECISION", NetworkDefinitionCreationFlag),
    ("RNN_V2", LayerType),
    ("CAFFE_ROUND_DOWN", PaddingMode),
    ("CAFFE_ROUND_UP", PaddingMode),
    ("FASTER_DYNAMIC_SHAPES_0805", PreviewFeature),
    ("DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805", PreviewFeature),
)
# Enums whose values differ in TensorRT 10, in the order of NvInfer.h of 8.6, from 0 on.
_FLAGS: Final = """FP16 INT8 DEBUG GPU_FALLBACK STRICT_TYPES REFIT DISABLE_TIMING_CACHE TF32 SPARSE_WEIGHTS
SAFETY_SCOPE OBEY_PRECISION_CONSTRAINTS PREFER_PRECISION_CONSTRAINTS DIRECT_IO REJECT_EMPTY_ALGORITHMS
ENABLE_TACTIC_HEURISTIC VERSION_COMPATIBLE EXCLUDE_LEAN_RUNTIME FP8"""
_LAYERS: Final = """CONVOLUTION FULLY_CONNECTED ACTIVATION POOLING LRN SCALE SOFTMAX DECONVOLUTION
CONCATENATION ELEMENTWISE PLUGIN UNARY PADDING SHUFFLE REDUCE TOPK GATHER MATRIX_MULTIPLY RAGGED_SOFTMAX
CONSTANT RNN_V2 IDENTITY PLUGIN_V2 SLICE SHAPE PARAMETRIC_RELU RESIZE TRIP_LIMIT RECURRENCE ITERATOR
LOOP_OUTPUT SELECT FILL QUANTIZE DEQUANTIZE CONDITION CONDITIONAL_INPUT CONDITIONAL_OUTPUT SCATTER
EINSUM ASSERTION ONE_HOT NON_ZERO GRID_SAMPLE NMS REVERSE_SEQUENCE NORMALIZATION CAST"""
_PREVIEWS: Final = (
    "FASTER_DYNAMIC_SHAPES_0805 DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805 PROFILE_SHARING_0806"
)
_NUMBERED: Final[tuple[tuple[type[TrtEnum], str], ...]] = (
    (BuilderFlag, _FLAGS),
    (LayerType, _LAYERS),
    (PreviewFeature, _PREVIEWS),
    (NetworkDefinitionCreationFlag, "EXPLICIT_BATCH EXPLICIT_PRECISION"),
)


def offer() -> None:
    """Add the members to their enums, and use the values of 8.6."""
    for name, member in _SAME:
        kind = type(member)
        if name not in kind.__members__:
            add_name(member, name)
    for op in REMOVED:
        if op.layer.name not in LayerType.__members__:
            add_to_list(op.layer)
    for name, owner in _MORE:
        if name not in owner.__members__:
            add_to_list(unlisted(owner, name))
    for kind, names in _NUMBERED:
        renumber(kind, names.split())
    IBuilderConfig.flags.implied[BuilderFlag["STRICT_TYPES"]] = BuilderFlag.PREFER_PRECISION_CONSTRAINTS
