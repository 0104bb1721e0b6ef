"""Plug-ins that raise or answer wrongly: a named error, nothing lost, and the next call works."""

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.samples import Pad, PadCreator, built, fields


def lying(**methods):
    """A `Pad` with other methods."""
    methods["clone"] = lambda self: _copied(kind(fields()), self)
    kind = type("Lying", (Pad,), methods)
    return kind(fields())


def _copied(new, old):
    new.__dict__.update(old.__dict__)
    return new


LIES = {
    "too few types": ("AR822", "get_output_data_types", lambda self, types: []),
    "no types": ("AR822", "get_output_data_types", lambda self, types: 3),
    "too many shapes": ("AR822", "get_output_shapes", lambda self, i, s, b: [i[0], i[0]]),
    "numbers for shapes": ("AR822", "get_output_shapes", lambda self, i, s, b: [(1, 2)]),
    "a negative size": (
        "AR822",
        "get_output_shapes",
        lambda self, i, s, b: [trt.DimsExprs([b.constant(-3)])],
    ),
    "no format": ("AR822", "no support", lambda self, pos, in_out, n: False),
    "a workspace that is text": ("AR822", "get_workspace_size", lambda self, i, o: "much"),
    "a tactic twice": ("AR822", "get_valid_tactics", lambda self: [1, 1]),
    "tactics that are a number": ("AR822", "got int from Lying.get_valid_tactics", lambda self: 3),
    "a tactic that is nothing": ("AR822", "get_valid_tactics", lambda self: [None]),
    "fields that are none": ("AR822", "get_fields_to_serialize", lambda self: "nonsense"),
    "an exception": ("AR824", "configure_plugin", lambda self, i, o: 1 / 0),
}
METHODS = {
    "no support": "supports_format_combination",
    "got int from Lying.get_valid_tactics": "get_valid_tactics",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_plugin_that_lies_is_told_with_its_layer_and_method(lie, log):
    code, method, answer = LIES[lie]
    plugin = lying(**{METHODS.get(method, method): answer})
    assert built(log, lambda n, x: n.add_plugin_v3([x], [], plugin).get_output(0)) is None
    told = [x for x in log.lines if f"[{code}]" in x]
    assert told
    assert method in told[0]
    assert "(Unnamed Layer* 0) [PluginV3]" in told[0]


@pytest.fixture
def bound(registry, log):
    """bound(plugin): a context of an engine of a plug-in alone, with the array that it writes."""

    def make(plugin, **settings):
        creator = PadCreator()
        creator.create_plugin = lambda name, fc, phase: plugin.clone()
        registry.register_creator(creator)
        engine = built(log, lambda n, x: n.add_plugin_v3([x], [], plugin).get_output(0), **settings)
        context, x, y = engine.create_execution_context(), *(np.ones(s, np.float32) for s in (24, 140))
        context.set_tensor_address("x", x.ctypes.data)
        context.set_tensor_address("y", y.ctypes.data)
        y[:] = 0
        return context, y, x  # which lives as long as its caller wants

    return make


def first(action):
    """An `enqueue` that does something else when it is called first."""
    calls = []

    def enqueue(self, *args):
        calls.append(1)
        action() if len(calls) == 1 else Pad.enqueue(self, *args)

    return enqueue


def throw(error):
    raise error


def test_a_plugin_that_raises_while_running_ends_that_run_alone(bound, log):
    context, y, _x = bound(lying(enqueue=first(lambda: throw(ValueError("not today")))))
    assert (context.execute_async_v3(0), y.any()) == (False, False)
    assert "Traceback" in log.lines[-2]
    assert "[AR824]" in log.lines[-1]
    assert "ValueError: not today" in log.lines[-1]
    assert context.execute_async_v3(0)
    assert y.tolist() == [1] * 140


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, BaseException])
def test_what_ends_programs_passes_through_a_run_and_the_next_one_works(bound, log, error):
    context, y, _x = bound(lying(enqueue=first(lambda: throw(error()))))
    with pytest.raises(error):
        context.execute_async_v3(0)
    assert (context.execute_async_v3(0), y.tolist(), log.lines) == (True, [1] * 140, [])
