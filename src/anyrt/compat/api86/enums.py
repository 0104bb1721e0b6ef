"""Members of enums that 8.6 had: some are other names of present members, some stand alone."""

from __future__ import annotations

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
from anyrt.core.trt_enum import TrtEnum, add_name, add_to_list, unlisted
from anyrt.ops import REMOVED

# EXPLICIT_PRECISION changed nothing in 8.6, and so asks for no more than the flag beside it.
_SAME: tuple[tuple[str, TrtEnum], ...] = (
    ("STRICT_TYPES", BuilderFlag.PREFER_PRECISION_CONSTRAINTS),
    ("DEFAULT", EngineCapability.STANDARD),
    ("SAFE_GPU", EngineCapability.SAFETY),
    ("SAFE_DLA", EngineCapability.DLA_STANDALONE),
    ("EXPLICIT_PRECISION", NetworkDefinitionCreationFlag.EXPLICIT_BATCH),
    ("DEFAULT", ProfilingVerbosity.LAYER_NAMES_ONLY),
    ("VERBOSE", ProfilingVerbosity.DETAILED),
    ("DEFAULT", SampleMode.STRICT_BOUNDS),
)
_MORE: tuple[tuple[str, type[TrtEnum]], ...] = (
    ("ENABLE_TACTIC_HEURISTIC", BuilderFlag),
    ("RNN_V2", LayerType),
    ("CAFFE_ROUND_DOWN", PaddingMode),
    ("CAFFE_ROUND_UP", PaddingMode),
    ("FASTER_DYNAMIC_SHAPES_0805", PreviewFeature),
    ("DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805", PreviewFeature),
)


def offer() -> None:
    """Add them to their enums."""
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
