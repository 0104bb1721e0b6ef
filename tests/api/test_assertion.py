"""Assertions: checked by the build, when shapes are set, and by each inference."""

import re

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import GraphError
from tests.messages import diagnostic

F = trt.float32
EQUAL, LESS = trt.ElementWiseOperation.EQUAL, trt.ElementWiseOperation.LESS


def sizes(net, x):
    return net.add_shape(x).get_output(0)


def compared(net, a, b, op=EQUAL):
    return net.add_elementwise(a, b, op).get_output(0)


def marked(net, x, name="y"):
    y = net.add_identity(x).get_output(0)
    y.name = name
    net.mark_output(y)
    return y


def built(net, **ranges):
    config = net.builder.create_builder_config()
    profile = net.builder.create_optimization_profile()
    for name, shapes in ranges.items():
        profile.set_shape(name, *shapes)
    if ranges:
        config.add_optimization_profile(profile)
    return net.builder.build_engine_with_config(net, config)


def test_a_layer_without_outputs(net):
    x = net.add_input("x", F, (3, 4, 4))
    layer = net.add_assertion(compared(net, sizes(net, x), sizes(net, x)), "Shouldn't fail")
    assert (layer.num_inputs, layer.num_outputs, layer.get_output(0)) == (1, 0, None)
    assert (type(layer), layer.message) == (trt.IAssertionLayer, "Shouldn't fail")
    marked(net, x)
    assert built(net).run(x=np.ones((3, 4, 4), np.float32))["y"].sum() == 48


def test_a_condition_that_is_false_at_build_is_rejected_there(net, log):
    a, b = net.add_input("a", F, (3, 4, 4)), net.add_input("b", F, (3, 3, 4))
    net.add_assertion(compared(net, sizes(net, a), sizes(net, b)), "other sizes").name = "alike"
    marked(net, a)
    assert built(net) is None
    expected = diagnostic("AR410", "alike (test_assertion.py:", False, 1, True, "other sizes")
    assert re.search(expected, log.lines[0])


def test_conditions_on_sizes_are_checked_when_shapes_are_set(net, log):
    a, b = net.add_input("a", F, (-1,)), net.add_input("b", F, (-1,))
    net.add_assertion(compared(net, sizes(net, a), sizes(net, b)), "give as many").name = "alike"
    marked(net, a)
    every = (0,), (4,), (9,)
    context = built(net, a=every, b=every).create_execution_context()
    assert context.set_input_shape("a", (3,))
    assert context.set_input_shape("b", (3,))
    assert context.infer_shapes() == []
    context.set_input_shape("b", (4,))
    for name, count in (("a", 3), ("b", 4), ("y", 3)):
        context.set_tensor_address(name, np.zeros(count, np.float32))
    assert not context.execute_async_v3(0)
    assert "[AR410] alike" in log.lines[-1]
    assert "a.shape[0] = 3" in log.lines[-1]
    assert log.lines[-1].endswith("give as many")


def limit(net, x, most, message):
    """The assertion x < most, as a layer of that name."""
    bound = net.add_constant((1,), np.float32([most])).get_output(0)
    net.add_assertion(compared(net, x, bound, LESS), message).name = message


def test_data_dependent_conditions_are_checked_by_each_inference(net, log):
    x = net.add_input("x", F, (5,))
    limit(net, x, 10, "below 10")
    net.add_unary(marked(net, x), trt.UnaryOperation.NEG)
    context = built(net).create_execution_context()
    values, y = np.arange(5, dtype=np.float32), np.full(5, -1, np.float32)
    context.set_tensor_address("x", values)
    context.set_tensor_address("y", y)
    values[[2, 4]] = 10, 11
    assert not context.execute_async_v3(0)
    expected = diagnostic("AR410", "below 10 (test_assertion.py:", False, 2, True, "below 10")
    assert re.search(expected, log.lines[-1])
    assert y.tolist() == [-1] * 5
    values[[2, 4]] = np.nextafter(np.float32(10), np.float32(0))
    assert context.execute_async_v3(0)
    assert np.array_equal(y, values)


@pytest.mark.parametrize(("x", "message"), [([1, 1], None), ([1, 7], "below 6"), ([2, 1], "below 2")])
def test_several_assertions_on_computed_values(net, log, x, message):
    tensor = net.add_input("x", F, (2,))
    double = net.add_elementwise(tensor, tensor, trt.ElementWiseOperation.SUM).get_output(0)
    for most in (2, 6):
        first = net.add_slice(double if most == 6 else tensor, (most // 6,), (1,), (1,)).get_output(0)
        limit(net, first, most, f"below {most}")
    marked(net, double), marked(net, tensor, "z")
    with trt.strict():
        engine = built(net)
    if message is None:
        assert engine.run(x=np.float32(x))["y"].tolist() == [2, 2]
        return
    with pytest.raises(GraphError, match=f"AR410.* {message}"):
        engine.run(x=np.float32(x))


def test_a_scalar_condition_and_a_message_that_is_changed(net, log):
    x = net.add_input("x", trt.bool, ())
    layer = net.add_assertion(x, "first")
    layer.message = "second"
    marked(net, x)
    context = built(net).create_execution_context()
    values, y = np.zeros((), np.bool_), np.zeros((), np.bool_)
    context.set_tensor_address("x", values)
    context.set_tensor_address("y", y)
    assert not context.execute_async_v3(0)
    assert re.search(diagnostic("AR410", False, 0, True, "second"), log.lines[-1])
    values[()] = True
    assert (context.execute_async_v3(0), y.item()) == (True, True)


def test_no_cache_is_written_where_an_assertion_fails(net):
    cache, new = net.add_input("cache", F, (1, 1, 4, 1)), net.add_input("new", F, (1, 1, 1, 1))
    at = net.add_input("at", trt.int32, (1,))
    updated = net.add_kv_cache_update(cache, new, at, trt.KVCacheMode.LINEAR).get_output(0)
    updated.name = "updated"
    net.mark_output(updated)
    flat = net.add_shuffle(new)
    flat.reshape_dims = (1,)
    limit(net, flat.get_output(0), 1, "small")
    arrays = {"cache": np.zeros((1, 1, 4, 1), np.float32), "new": np.ones((1, 1, 1, 1), np.float32)}
    arrays |= {"at": np.int32([2]), "updated": arrays["cache"]}
    context = built(net).create_execution_context()
    for name, array in arrays.items():
        context.set_tensor_address(name, array)
    assert (context.execute_async_v3(0), arrays["cache"].sum()) == (False, 0)
    arrays["new"][:] = 0.5
    assert (context.execute_async_v3(0), arrays["cache"].sum()) == (True, 0.5)
