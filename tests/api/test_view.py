"""The read-only view of a network that the builder reads."""

import pytest

import anyrt as trt
from anyrt.api.model.state import state_of
from anyrt.api.model.view import view_of


def test_view_keeps_what_the_network_held(net):
    x = net.add_input("x", trt.float32, (2, 3))
    layer = net.add_identity(x)
    net.mark_output(layer.get_output(0))
    view = view_of(net)
    layer.name = "other"
    net.unmark_output(layer.get_output(0))
    net.add_identity(layer.get_output(0))
    assert [v.name for v in view.layers] == ["(Unnamed Layer* 0) [Identity]"]
    assert [t.it for t in view.marked] == [state_of(layer.get_output(0))]
    assert view.inputs[0].readers == (state_of(layer),)


def test_view_names_the_part_at_whose_border_a_layer_stands(net):
    loop = net.add_loop()
    first = loop.add_recurrence(net.add_input("x", trt.float32, (2,)))
    last = loop.add_loop_output(first.get_output(0), trt.LoopOutput.LAST_VALUE)
    view = view_of(net)
    assert [(v.it.it, v.part, v.is_part_output) for v in view.borders] == [
        (first, state_of(loop), False),
        (last, state_of(loop), True),
    ]


def test_view_cannot_be_changed(net):
    with pytest.raises(AttributeError):
        view_of(net).name = "y"
