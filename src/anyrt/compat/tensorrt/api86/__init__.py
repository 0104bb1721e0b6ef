"""The names of TensorRT 8.6 that version 10 removed, implemented with their replacements.

    python -m anyrt.compat --api 8.6 script.py

They are added to the classes of the API, for the whole process. Without this option they must not exist,
because programs choose their branch with `hasattr(engine, "num_bindings")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyrt
from anyrt.api.building.builder import Builder
from anyrt.api.building.config import IBuilderConfig
from anyrt.api.derived.layers import layer_class
from anyrt.api.derived.methods import add_methods
from anyrt.api.edge import missing
from anyrt.api.edge.setting import Setting
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.run.context import IExecutionContext
from anyrt.api.run.engine import ICudaEngine
from anyrt.compat.tensorrt.api86 import building, context, engine, enums, layers
from anyrt.core.enums import DataType, InterpolationMode, SampleMode
from anyrt.ops import REMOVED

VERSION = "8.6.1"
# Layers with attributes for two axes, whose names lack "_nd".
TWO_AXES = ("IConvolutionLayer", "IDeconvolutionLayer", "IPaddingLayer", "IPoolingLayer")


def offer() -> None:
    """Add the names that TensorRT 10 removed to the API of this process."""
    _put(ICudaEngine, (*engine.METHODS, *map(property, engine.PROPERTIES)))
    _put(IExecutionContext, (*context.METHODS, context.ACTIVE_PROFILE))
    _put(Builder, building.BUILDER)
    _put(IBuilderConfig, (building.MAX_WORKSPACE_SIZE,))
    _put(INetworkDefinition, (property(building.has_explicit_precision), building.add_shape))
    _put(INetworkDefinition, add_methods(REMOVED).values())
    INetworkDefinition._ends = {DataType.INT64: DataType.INT32}
    _keep(Builder, "max_batch_size", Setting(int, 1, "Kept: shapes include the batch.", low=1))
    _keep(
        IBuilderConfig,
        "min_timing_iterations",
        Setting(int, 1, "Kept: minimum number of runs of a measurement.", low=1),
    )
    for owner in TWO_AXES:
        for name in missing.REMOVED[owner]:
            setattr(layer_class(owner), name, layers.of_two_axes(name))
    enums.offer()
    vars(anyrt).update(__version__=VERSION, ResizeMode=InterpolationMode, SliceMode=SampleMode)
    vars(anyrt).update({op.cls: layer_class(op.cls) for op in REMOVED})


def _put(owner: type, members: Iterable[Callable[..., object] | property]) -> None:
    """Add members to a class, by the names of their functions."""
    for member in members:
        function = member.fget if isinstance(member, property) else member
        assert function is not None, f"a name of {owner.__name__} that cannot be read"
        setattr(owner, function.__name__, member)


def _keep(owner: type, name: str, setting: Setting[int]) -> None:
    setting.__set_name__(owner, name)
    setattr(owner, name, setting)
