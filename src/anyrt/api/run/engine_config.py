"""The configurations of contexts, for their memory, and of the serialization of engines."""

from __future__ import annotations

from anyrt.api.building.flagbits import check_bits
from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import Refused, wrong_type
from anyrt.core.enums import ExecutionContextAllocationStrategy, SerializationFlag
from anyrt.core.errors import ArgumentError

Strategy = ExecutionContextAllocationStrategy


@fold
class IRuntimeConfig(Fixed):
    """The allocation strategy of contexts; created by `ICudaEngine.create_runtime_config`."""

    __slots__ = ("__weakref__", "_strategy")

    def __init__(self) -> None:
        self._strategy = Strategy.STATIC

    @one_line
    def __repr__(self) -> str:
        return f": {self._strategy.name}"

    def set_execution_context_allocation_strategy(self, strategy: Strategy = Strategy.STATIC) -> None:
        """Set when a context allocates its memory.

        STATIC: at creation, for all profiles. ON_PROFILE_CHANGE: when a profile is selected, for this
        profile. USER_MANAGED: never; call `context.set_device_memory` before an inference."""
        if not isinstance(strategy, Strategy):
            raise wrong_type("IRuntimeConfig", strategy, ExecutionContextAllocationStrategy)
        self._strategy = strategy

    def get_execution_context_allocation_strategy(self) -> Strategy:
        """When a context allocates its memory."""
        return self._strategy


@fold
class ISerializationConfig(Fixed):
    """The flags of a serialization; created by `ICudaEngine.create_serialization_config`.

    `ICudaEngine.serialize_with_config` describes the effect of each flag."""

    __slots__ = ("__weakref__", "_flags")

    def __init__(self) -> None:
        self._flags = 0

    @one_line
    def __repr__(self) -> str:
        return f": flags {' '.join(f.name for f in SerializationFlag if self.get_flag(f)) or 'none'}"

    @property
    def flags(self) -> int:
        """All flags as a bit mask; RuntimeError for unknown bits."""
        return self._flags

    @flags.setter
    def flags(self, flags: int) -> None:
        if not isinstance(flags, int):
            raise wrong_type("ISerializationConfig.flags", flags, "an int")
        try:
            check_bits("ISerializationConfig.flags", flags, SerializationFlag)
        except ArgumentError as error:
            raise Refused(error) from None
        self._flags = flags

    def set_flag(self, flag: SerializationFlag) -> bool:
        """Set a flag."""
        self._flags |= 1 << _serialization_flag(flag)
        return True

    def clear_flag(self, flag: SerializationFlag) -> bool:
        """Clear a flag."""
        self._flags &= ~(1 << _serialization_flag(flag))
        return True

    def get_flag(self, flag: SerializationFlag) -> bool:
        """Whether a flag is set."""
        return bool(self._flags & 1 << _serialization_flag(flag))


def _serialization_flag(flag: object) -> SerializationFlag:
    if not isinstance(flag, SerializationFlag):
        raise wrong_type("ISerializationConfig", flag, SerializationFlag)
    return flag
