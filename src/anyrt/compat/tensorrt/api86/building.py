"""The builder of 8.6. The functions become methods and properties of the builder and its configuration."""

from __future__ import annotations

from anyrt.api.building.builder import Builder
from anyrt.api.building.config import IBuilderConfig
from anyrt.api.edge.quiet import quiet
from anyrt.api.model.layer import ILayer
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import state_of
from anyrt.api.model.tensor import ITensor
from anyrt.api.run.engine import ICudaEngine
from anyrt.core.enums import DataType, MemoryPoolType, NetworkDefinitionCreationFlag
from anyrt.core.errors import NotSupportedError

_create_network = Builder.create_network
_add_shape = INetworkDefinition.add_shape  # type: ignore[attr-defined]  # derived from the layer's record
EXPLICIT_BATCH = 1 << NetworkDefinitionCreationFlag.EXPLICIT_BATCH


def add_shape(self: INetworkDefinition, input: ITensor) -> ILayer | None:
    """The dimensions of a tensor as int32, as in 8.6."""
    layer: ILayer | None = _add_shape(self, input)
    if layer is not None and not state_of(self).is_strong:
        layer.set_output_type(0, DataType.INT32)
    return layer


def build_engine(self: Builder, network: INetworkDefinition, config: IBuilderConfig) -> ICudaEngine | None:
    """Build an engine without a separate plan; None if the build fails."""
    return self.build_engine_with_config(network, config)


@quiet(None)
def create_network(self: Builder, flags: int = 0) -> INetworkDefinition | None:
    """A network whose shapes include the batch, with EXPLICIT_BATCH. Without that flag None and AR901: the
    implicit batch dimension of 8.6 is not supported."""
    if isinstance(flags, int) and not flags & EXPLICIT_BATCH:
        got, wanted = "an implicit batch dimension", "NetworkDefinitionCreationFlag.EXPLICIT_BATCH"
        do = "pass 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH), and add it to the shapes"
        raise NotSupportedError("AR901", "create_network", got, wanted, do)
    return _create_network(self, flags)


def has_explicit_precision(self: INetworkDefinition) -> bool:
    """False: EXPLICIT_PRECISION is accepted and has no effect, as in 8.6."""
    return False


def max_workspace_size(self: IBuilderConfig) -> int:
    """The maximum workspace of an engine in bytes."""
    return self.get_memory_pool_limit(MemoryPoolType.WORKSPACE)


def _set_max_workspace_size(self: IBuilderConfig, size: int) -> None:
    self.set_memory_pool_limit(MemoryPoolType.WORKSPACE, size)


BUILDER = (build_engine, create_network)
MAX_WORKSPACE_SIZE = property(max_workspace_size, _set_max_workspace_size)
