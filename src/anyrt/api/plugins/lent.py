"""Outputs that may lie in the memory of an input of the network, since plug-ins write the one over the other.

    y = network.add_plugin(trtp.op.my.add_in_place(x, delta=2)).get_output(0)

A program may bind y to the address of x, as TensorRT's samples do, where nobody else reads x or what lies
between both.
"""

from __future__ import annotations

from anyrt.api.model.expansion import Expansion
from anyrt.api.model.tensor import ITensor
from anyrt.prims.plugin import Plugin


def lender(expansion: Expansion, output: ITensor) -> ITensor | None:
    """The input of the network in whose memory `output` may lie; None where there is none."""
    found: ITensor | None = output
    while found is not None and found._layer is not None:
        found = _written_over(expansion, found)
    return None if found is output else found


def _written_over(expansion: Expansion, tensor: ITensor) -> ITensor | None:
    """The tensor that a plug-in writes this one over, which nobody else reads; None where there is none."""
    layer, value = tensor._layer, expansion.value(tensor)
    if layer is None or not isinstance(value.op, Plugin):
        return None
    over = value.op.over[value.index] if value.op.over else -1
    source = layer._inputs[over] if over >= 0 else None
    if source is None or expansion.value(source) != value.args[over]:
        return None  # it was converted for the plug-in
    alone = source._consumers == [layer] and source not in layer._network._outputs
    return source if alone else None
