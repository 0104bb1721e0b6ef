"""Outputs that may share the memory of a network input, because plug-ins compute in place.

    y = network.add_plugin(trtp.op.my.add_in_place(x, delta=2)).get_output(0)

A program may bind y to the address of x, as TensorRT's samples do, if nothing else reads x or the tensors
between both.
"""

from __future__ import annotations

from anyrt.api.model.expansion import Expansion
from anyrt.api.model.view import NetworkView, TensorView
from anyrt.prims.plugin import Plugin


def lender(view: NetworkView, expansion: Expansion, output: TensorView) -> TensorView | None:
    """The network input whose memory `output` may share; None if there is none."""
    tensor: TensorView | None = output
    while tensor is not None and tensor.maker is not None:
        tensor = _written_over(view, expansion, tensor)
    return None if tensor is output else tensor


def _written_over(view: NetworkView, expansion: Expansion, tensor: TensorView) -> TensorView | None:
    """The tensor that a plug-in overwrites with this one and that nothing else reads; None if there is
    none."""
    maker, value = tensor.maker, expansion.value(tensor.it)
    if maker is None or not isinstance(value.op, Plugin):
        return None
    over = value.op.over[value.index] if value.op.over else -1
    source = view.layer_of[maker].inputs[over] if over >= 0 else None
    if source is None or expansion.value(source.it) != value.args[over]:
        return None  # it was converted for the plug-in
    return source if source.readers == (maker,) and source not in view.outputs else None
