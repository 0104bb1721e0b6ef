"""Plug-ins whose outputs are made of primitives: a layer of one is no call, and fuses like any other."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.ir.graph import Value


class Composed:
    """The internal base of such a plug-in, beside its public class."""

    __slots__ = ()

    def _composed(self, name: str, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """The values of its outputs, in a layer called `name` whose inputs have these values."""
        raise NotImplementedError(f"{type(self).__name__} must override _composed")


def values_of(plugin: Composed, name: str, inputs: Sequence[Value]) -> tuple[Value, ...]:
    """The values of the outputs of such a plug-in in a layer called `name`."""
    return plugin._composed(name, inputs)
