"""Loops and conditionals of the network, as importers write them.

turns = Turns(node, count)
total = turns.state(zero)
turns.then(total, total + turns.each(rows))
y = turns.last(total)
"""

from __future__ import annotations

from anyrt.api.compose.layers import INT64, Layers
from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.layer import ILayer
from anyrt.api.model.tensor import ITensor
from anyrt.core.enums import LoopOutput, TripLimit
from anyrt.prims.const import Const


class Turns:
    """A loop; `length`: how many turns it has, where sizes say, else None."""

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
        """So many turns, none for a number below 0; `count`: one int64."""
        self.length = count.reshape(()) if self.layers.symbols(count) is not None else None
        number = self.layers.ints(count)
        if self.length is not None and (number is None or number[0] < 0):
            self.length = self.length.maximum(0)
        self._add(
            "add_trip_limit", count.reshape(()) if self.length is None else self.length, TripLimit.COUNT
        )

    def go_on(self, state: Tensor) -> None:
        """No turn any more as soon as a state, one bool, is false."""
        self._add("add_trip_limit", state, TripLimit.WHILE)
        self.length = None

    def counter(self) -> Tensor:
        """The number of the turn, from 0 on."""
        turn = self.state(self.layers.constant(0, INT64))
        self.then(turn, turn + 1)
        return turn

    def state(self, first: Tensor) -> Tensor:
        """What turns pass on, as a turn gets it."""
        layer = self._add("add_recurrence", first)
        state = self._tensor(layer)
        self._states[state] = layer
        return state

    def then(self, state: Tensor, following: Tensor) -> None:
        """What the next turn gets for a state."""
        self._states[state].set_input(1, following.it)

    def each(self, x: Tensor, axis: int = 0, backwards: bool = False) -> Tensor:
        """The slice of a turn."""
        return self._tensor(self._add("add_iterator", x, axis, backwards))

    def last(self, state: Tensor) -> Tensor:
        """A state at the end."""
        return self._tensor(self._add("add_loop_output", state, LoopOutput.LAST_VALUE))

    def all(self, x: Tensor, axis: int = 0, backwards: bool = False) -> Tensor:
        """What all turns have made, along a new axis; `backwards`: the last turn's first."""
        kind = LoopOutput.REVERSE if backwards else LoopOutput.CONCATENATE
        layer = self._add("add_loop_output", x, kind, axis)
        if self.length is not None:
            layer.set_input(1, self.length.it)
        return self._tensor(layer)


class Choice:
    """One of two branches, as a bool says."""

    def __init__(self, layers: Layers, flag: Tensor) -> None:
        self.layers = layers
        self.part = layers.network.add_if_conditional()
        self.part.name = layers.where
        self._passed: dict[ITensor, ITensor] = {}
        _border(layers, self.part, "set_condition", flag)

    def enter(self, tensor: ITensor) -> ITensor:
        """A tensor from around, as both branches read it. Weights, and values that determine sizes, stay
        unchanged."""
        if tensor not in self._passed:
            x = self.layers.tensor(tensor)
            free = isinstance(self.layers.value(x).op, Const) or self.layers.symbols(x) is not None
            self._passed[tensor] = (
                tensor if free else _border(self.layers, self.part, "add_input", x).get_output(0)
            )
        return self._passed[tensor]

    def leave(self, then: Tensor, otherwise: Tensor) -> Tensor:
        """What one of the branches has made."""
        return self.layers.tensor(
            _border(self.layers, self.part, "add_output", then, otherwise).get_output(0)
        )


def _border(layers: Layers, part: object, method: str, *operands: object) -> ILayer:
    """A new layer at the border of a loop or conditional, named as the others of its node."""
    layer = getattr(part, method)(*(x.it if isinstance(x, Tensor) else x for x in operands))
    assert isinstance(layer, ILayer), f"{method} gave {layer!r}"
    layers.give_name(layer)
    return layer
