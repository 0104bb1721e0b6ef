"""Loops and conditionals of the network, as importers build them.

loop = Iterations(node, count)
total = loop.state(zero)
loop.then(total, total + loop.each(rows))
y = loop.last(total)
"""

from __future__ import annotations

from anyrt.api.compose.layers import INT64, Layers
from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.layer import ILayer
from anyrt.api.model.tensor import ITensor
from anyrt.core.enums import LoopOutput, TripLimit
from anyrt.prims.const import Const


class Iterations:
    """A loop; `length`: its number of iterations if dimensions determine it, else None."""

    def __init__(self, layers: Layers, count: Tensor | None = None) -> None:
        self.layers = layers
        self.part = layers.network.add_loop()
        self.part.name = layers.where
        self.length: Tensor | None = None
        self._states: dict[Tensor, ILayer] = {}
        if count is not None:
            self.limit(count)

    def _add(self, method: str, *operands: object) -> ILayer:
        return _border(self.layers, self.part, method, *operands)

    def _tensor(self, layer: ILayer) -> Tensor:
        return self.layers.tensor(layer.get_output(0))

    def limit(self, count: Tensor) -> None:
        """Limit the loop to `count` iterations, one int64; a negative count is 0."""
        self.length = count.reshape(()) if self.layers.symbols(count) is not None else None
        number = self.layers.ints(count)
        if self.length is not None and (number is None or number[0] < 0):
            self.length = self.length.maximum(0)
        self._add(
            "add_trip_limit", count.reshape(()) if self.length is None else self.length, TripLimit.COUNT
        )

    def go_on(self, state: Tensor) -> None:
        """End the loop as soon as a state, one bool, is false."""
        self._add("add_trip_limit", state, TripLimit.WHILE)
        self.length = None

    def counter(self) -> Tensor:
        """The index of the iteration, from 0 on."""
        index = self.state(self.layers.constant(0, INT64))
        self.then(index, index + 1)
        return index

    def state(self, first: Tensor) -> Tensor:
        """A value that iterations pass on, as an iteration reads it; `first`: its initial value."""
        layer = self._add("add_recurrence", first)
        state = self._tensor(layer)
        self._states[state] = layer
        return state

    def then(self, state: Tensor, following: Tensor) -> None:
        """Set the value of a state for the next iteration."""
        self._states[state].set_input(1, following.it)

    def each(self, x: Tensor, axis: int = 0, backwards: bool = False) -> Tensor:
        """The slice of the current iteration."""
        return self._tensor(self._add("add_iterator", x, axis, backwards))

    def last(self, state: Tensor) -> Tensor:
        """The value of a state after the loop."""
        return self._tensor(self._add("add_loop_output", state, LoopOutput.LAST_VALUE))

    def all(self, x: Tensor, axis: int = 0, backwards: bool = False) -> Tensor:
        """The values of all iterations along a new axis; `backwards`: the last iteration first."""
        kind = LoopOutput.REVERSE if backwards else LoopOutput.CONCATENATE
        layer = self._add("add_loop_output", x, kind, axis)
        if self.length is not None:
            layer.set_input(1, self.length.it)
        return self._tensor(layer)


class Choice:
    """A conditional: a bool selects one of two branches."""

    def __init__(self, layers: Layers, flag: Tensor) -> None:
        self.layers = layers
        self.part = layers.network.add_if_conditional()
        self.part.name = layers.where
        self._passed: dict[ITensor, ITensor] = {}
        _border(layers, self.part, "set_condition", flag)

    def enter(self, tensor: ITensor) -> ITensor:
        """A tensor from outside, as both branches read it. Weights and values that determine dimensions are
        returned unchanged."""
        if tensor not in self._passed:
            x = self.layers.tensor(tensor)
            free = isinstance(self.layers.value(x).op, Const) or self.layers.symbols(x) is not None
            self._passed[tensor] = (
                tensor if free else _border(self.layers, self.part, "add_input", x).get_output(0)
            )
        return self._passed[tensor]

    def leave(self, then: Tensor, otherwise: Tensor) -> Tensor:
        """The result of the selected branch."""
        return self.layers.tensor(
            _border(self.layers, self.part, "add_output", then, otherwise).get_output(0)
        )


def _border(layers: Layers, part: object, method: str, *operands: object) -> ILayer:
    """A new layer at the border of a loop or conditional, named like the others of its node."""
    layer = getattr(part, method)(*(x.it if isinstance(x, Tensor) else x for x in operands))
    assert isinstance(layer, ILayer), f"{method} returned {layer!r}"
    layers.give_name(layer)
    return layer
