"""Plug-ins that are compositions of primitives. Their layers need no call, and fuse like any other."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.ir.graph import Value


class Composed:
    """The internal base class of such a plug-in, in addition to its public class."""

    __slots__ = ()

    def _composed(self, name: str, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """The values of its outputs for these inputs; `name`: the name of the layer."""
        raise NotImplementedError(f"{type(self).__name__} must override _composed")


def values_of(plugin: Composed, name: str, inputs: Sequence[Value]) -> tuple[Value, ...]:
    """The values of the outputs of such a plug-in for these inputs; `name`: the name of the layer."""
    return plugin._composed(name, inputs)
