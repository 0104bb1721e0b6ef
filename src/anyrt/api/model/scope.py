"""Objects for a part of a network between two layers, such as `IAttention`.

    attention = network.add_attention(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, False)
    attention.mask = mask
    y = attention.get_output(0)

The network lists two layers: that of the operator, with the operands, and one that passes its output on.
"""

from __future__ import annotations

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.oneline import one_line, quoted
from anyrt.api.model.layer import ILayer, ends_text
from anyrt.api.model.state import state_of
from anyrt.api.model.tensor import ITensor


class Between(Fixed):
    """Base of these objects; `layers.layer_class` adds the attributes of the operator."""

    __slots__ = ("__weakref__", "_entry", "_exit")

    def __init__(self, entry: ILayer, behind: ILayer) -> None:
        self._entry = entry
        self._exit = behind

    @one_line
    def __repr__(self) -> str:
        ends = ends_text(state_of(self._entry), state_of(self._exit))
        return f" {quoted(self._entry.name)}: {ends}"

    @property
    def name(self) -> str:
        """The name, for messages and profiles."""
        return self._entry.name

    @name.setter
    def name(self, name: str) -> None:
        self._entry.name = name

    @property
    def metadata(self) -> str:
        """Any text; the engine inspector shows it."""
        return self._entry.metadata

    @metadata.setter
    def metadata(self, text: str) -> None:
        self._entry.metadata = text

    @property
    def num_ranks(self) -> int:
        """Kept: the number of devices that execute it; an engine uses one."""
        return self._entry.num_ranks

    @num_ranks.setter
    def num_ranks(self, count: int) -> None:
        self._entry.num_ranks = count

    @property
    def num_inputs(self) -> int:
        """The current number of inputs."""
        return self._entry.num_inputs

    @property
    def num_outputs(self) -> int:
        """The number of outputs."""
        return self._exit.num_outputs

    def get_input(self, index: int) -> ITensor:
        """Input `index`; None if out of range or not connected."""
        return self._entry.get_input(index)

    def get_output(self, index: int) -> ITensor:
        """Output `index`, the same object each time; None if out of range."""
        return self._exit.get_output(index)

    def set_input(self, index: int, tensor: ITensor) -> bool:
        """Connect a tensor to an input, also to an optional one that is not connected yet.

        False if it is rejected: AR312, no such input; AR403, a tensor of a different network."""
        self._entry.set_input(index, tensor)
        return self._entry.get_input(index) is tensor
