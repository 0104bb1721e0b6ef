"""The argument of compositions: layers as functions of tensors, the plug-in's inputs and its fields.

def clip(part: Part) -> Tensor:
    return part.inputs[0].clip(part.real("clipMin"), part.real("clipMax"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from anyrt.api.building.builder import Builder
from anyrt.api.compose.layers import MALFORMED, Layers
from anyrt.api.compose.tensor import Tensor
from anyrt.api.edge.interfaces import Silence
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import NetworkState, state_of
from anyrt.api.model.tensor import ITensor
from anyrt.api.plugins.standard._record import FieldValue, Standard
from anyrt.core.enums import DataType, NetworkDefinitionCreationFlag
from anyrt.core.errors import AnyrtError, ArgumentError, GraphError, ShapeError
from anyrt.core.flags import strict
from anyrt.ir.graph import Value
from anyrt.ops._record import Array

T = TypeVar("T")


class Part(Layers):
    """The inputs and fields of a plug-in, and the methods that add layers for it."""

    def __init__(
        self,
        network: INetworkDefinition,
        name: str,
        version: str,
        inputs: Sequence[ITensor],
        values: Mapping[str, FieldValue],
    ) -> None:
        Layers.__init__(self, network, name)
        self.version = version
        self.inputs = [self.tensor(x) for x in inputs]
        self._values = values

    @property
    def names(self) -> Sequence[str]:
        """The names of the fields."""
        return list(self._values)

    def _typed(self, name: str, kind: type[T]) -> T:
        value = self._values[name]
        assert isinstance(value, kind), f"field {name} was read as {kind.__name__}"
        return value

    def whole(self, name: str) -> int:
        """The value of an integer field."""
        return self._typed(name, int)

    def real(self, name: str) -> float:
        """The value of a float field."""
        return float(self._typed(name, float))

    def text(self, name: str) -> str:
        """The value of a text field."""
        return self._typed(name, str)

    def wholes(self, name: str) -> tuple[int, ...]:
        """The value of a field of several integers."""
        return self._typed(name, tuple)

    def reals(self, name: str) -> tuple[float, ...]:
        """The value of a field of several floats."""
        return self._typed(name, tuple)

    def array(self, name: str) -> Array:
        """The value of a field of weights; empty if it is not set."""
        value = self._values[name]
        return np.empty(0, np.float32) if value is None else np.asarray(value)

    def optional(self, i: int) -> Tensor | None:
        """Input `i`; None if there are fewer."""
        return self.inputs[i] if i < len(self.inputs) else None

    def of_rank(self, i: int, *ranks: int) -> Tensor:
        """Input `i`, of one of these ranks; ShapeError AR123 for others."""
        x = self.inputs[i]
        if x.rank not in ranks:
            wanted = f"rank {' or '.join(map(str, ranks))}"
            raise ShapeError("AR123", self.where, f"rank {x.rank} of input {i}", wanted)
        return x

    def axis(self, name: str, x: Tensor) -> int:
        """The value of a field that is an axis of `x`, not negative; ArgumentError AR302 for any other
        number."""
        axis = self.whole(name)
        if not -x.rank <= axis < x.rank:
            raise ArgumentError("AR302", self.where, f"{name} {axis}", f"an axis of rank {x.rank}")
        return axis % x.rank

    def choice(self, name: str, table: Mapping[str, T]) -> T:
        """The entry of `table` for the value of a text field; ArgumentError AR304 if there is none."""
        word = self.text(name)
        if word not in table:
            raise ArgumentError("AR304", self.where, f"{name} {word[:40]!r}", f"one of {', '.join(table)}")
        return table[word]


def compose(
    standard: Standard, version: str, name: str, values: Mapping[str, FieldValue], operands: Sequence[Value]
) -> tuple[Value, ...]:
    """The outputs of a plug-in on `operands`; `name`: the name of its layer."""
    least, most = standard.inputs
    if not least <= len(operands) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise GraphError("AR406", name, f"{len(operands)} inputs", f"{wanted} for {standard.name}")
    # Not by create_network, which rejects flags without EXPLICIT_BATCH if the API is that of 8.6.
    network = INetworkDefinition(Builder(Silence()), 1 << NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    state = state_of(network)
    state.node = standard  # reports show it as one layer
    inputs = [_input(state, f"{name}.{k}", value) for k, value in enumerate(operands)]
    try:
        with strict():
            results = standard.compose(Part(network, name, version, inputs, values))
    except AnyrtError:
        raise
    except MALFORMED as error:
        got, wanted = f"{type(error).__name__}: {error}", f"valid inputs and fields of {standard.name}"
        raise ShapeError("AR123", name, got, wanted, "check the shapes of the inputs") from error
    outputs = [results] if isinstance(results, Tensor) else results
    return tuple(state.expansion.value(state_of(x.it)) for x in outputs)


def _input(network: NetworkState, name: str, value: Value) -> ITensor:
    """A tensor of the network with this value."""
    tensor = ITensor(network, name, None, 0)
    state = state_of(tensor)
    state.dtype = value.dtype
    state.shape = tuple(d if isinstance(d, int) else -1 for d in value.shape)
    network.inputs.append(state)
    network.expansion.take(state, value)
    return tensor


FLOAT, INT32, INT64 = DataType.FLOAT, DataType.INT32, DataType.INT64
