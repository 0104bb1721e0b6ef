"""Plug-ins that raise or return invalid results: a clear error, and the next call works."""

import os
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import AnyrtError
from anyrt.ir.graph import Type
from anyrt.prims.plugin import Plugin, PluginData, Tensor
from tests.messages import diagnostic
from tests.plugins.samples import OldPad, OldPadCreator, Pad, PadCreator, built, fields, pad, wrapped

NONE = trt.MatrixOperation.NONE


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
    "a size that is not set": ("AR822", "get_output_shapes", lambda self, i, s, b: [trt.DimsExprs(2)]),
    "too many elements": (
        "AR822",
        "get_output_shapes",
        lambda self, i, s, b: [trt.DimsExprs([b.constant(1 << 62)] * 8)],
    ),
    "a size of another call": (
        "AR822",
        "get_output_shapes",
        lambda self, i, s, b: [
            trt.DimsExprs([trt.IExprBuilder().declare_size_tensor(0, b.constant(1), b.constant(4))])
        ],
    ),
    "no format": ("AR822", "no support", lambda self, pos, in_out, n: False),
    "a workspace that is text": ("AR822", "get_workspace_size", lambda self, i, o: "much"),
    "a tactic twice": ("AR822", "get_valid_tactics", lambda self: [1, 1]),
    "tactics that are a number": ("AR822", "int from Lying.get_valid_tactics", lambda self: 3),
    "a tactic that is nothing": ("AR822", "get_valid_tactics", lambda self: [None]),
    "fields that are none": ("AR822", "get_fields_to_serialize", lambda self: "nonsense"),
    "an exception": ("AR824", "configure_plugin", lambda self, i, o: 1 / 0),
}
METHODS = {
    "no support": "supports_format_combination",
    "int from Lying.get_valid_tactics": "get_valid_tactics",
}


@pytest.mark.parametrize("lie", LIES)
def test_an_invalid_result_is_reported_with_layer_and_method(lie, log):
    code, method, answer = LIES[lie]
    plugin = lying(**{METHODS.get(method, method): answer})
    assert built(log, lambda n, x: n.add_plugin_v3([x], [], plugin).get_output(0)) is None
    messages = [x for x in log.lines if f"[{code}]" in x]
    assert messages
    assert method in messages[0]
    assert "(Unnamed Layer* 0) [PluginV3]" in messages[0]


@pytest.fixture
def bound(registry, log):
    """bound(plugin): a context of an engine with one plug-in, its output array and its input array."""

    def make(plugin, **settings):
        creator = PadCreator()
        creator.create_plugin = lambda name, fc, phase: plugin.clone()
        registry.register_creator(creator)
        engine = built(log, lambda n, x: n.add_plugin_v3([x], [], plugin).get_output(0), **settings)
        context, x, y = engine.create_execution_context(), *(np.ones(s, np.float32) for s in (24, 140))
        context.set_tensor_address("x", x.ctypes.data)
        context.set_tensor_address("y", y.ctypes.data)
        y[:] = 0
        return context, y, x  # the caller keeps x alive

    return make


def first(action):
    """An `enqueue` whose first call performs `action` instead."""
    calls = []

    def enqueue(self, *args):
        calls.append(1)
        action() if len(calls) == 1 else Pad.enqueue(self, *args)

    return enqueue


@pytest.mark.parametrize(
    "name", ["plugin_name", "num_outputs", "metadata_string", "format_combination_limit"]
)
def test_an_attribute_that_raises_is_reported_by_name(log, name):
    plugin = type("Raising", (Pad,), {"__init__": Pad.__init__, "clone": lambda self: self})(fields())
    setattr(type(plugin), name, property(lambda self: 1 / 0))
    network = trt.Builder(log).create_network()
    layer = network.add_plugin_v3([network.add_input("x", trt.float32, (2, 3, 4))], [], plugin)
    if layer is not None:
        network.mark_output(layer.get_output(0))
        config = trt.Builder(log).create_builder_config()
        assert trt.Builder(log).build_serialized_network(network, config) is None
    assert "[AR824]" in log.lines[-1]
    assert f"ZeroDivisionError: division by zero, from Raising.{name}" in log.lines[-1]


@pytest.mark.parametrize("answer", [3, -1, [1, 2], object(), "\ud800"])
def test_an_old_plugin_must_serialize_to_bytes(log, registry, answer):
    registry.register_creator(OldPadCreator())
    plugin = type("Old", (OldPad,), {"serialize": lambda self: answer, "clone": lambda self: self})(fields())
    assert built(log, lambda n, x: n.add_plugin_v2([x], plugin).get_output(0)) is None
    values = (type(answer).__name__, "Old.serialize", "bytes")
    assert re.match(diagnostic("AR822", *values), log.lines[-1])


OWN = {
    "runs its own context": (lambda context: context.execute_async_v3(0), "AR708"),
    "moves its own output": (lambda context: context.set_tensor_address("y", 8), "AR708"),
    "unbinds its own input": (lambda context: context.set_input_shape("x", (1, 1, 1)), "AR708"),
}


@pytest.mark.parametrize("what", OWN)
def test_a_plugin_cannot_change_the_context_that_calls_it(bound, log, what):
    act, code = OWN[what]
    held = []

    def enqueue(self, *args):
        assert not held or act(held[0]) is False
        Pad.enqueue(self, *args)

    context, y, _x = bound(lying(enqueue=enqueue))
    held.append(context)
    assert (context.execute_async_v3(0), y.tolist()) == (True, [1] * 140)
    assert [line[1:6] for line in log.lines] == [code]


def test_a_plugin_builds_and_runs_engines_of_its_own(bound, log):
    def enqueue(self, *args):
        result = built(log, lambda n, x: n.add_unary(x, trt.UnaryOperation.NEG).get_output(0))
        assert result.run(x=np.ones((2, 3, 4), np.float32))["y"].tolist() == [[[-1] * 4] * 3] * 2
        Pad.enqueue(self, *args)

    context, y, _x = bound(lying(enqueue=enqueue))
    assert (context.execute_async_v3(0), y.tolist(), log.lines) == (True, [1] * 140, [])


def test_plugins_run_in_several_threads_at_once(bound, log):
    context, _y, _x = bound(pad())

    def work():
        x = np.ones((2, 3, 4), np.float32)
        return [context.engine.run(x=x)["y"].tolist() == wrapped(x).tolist() for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        assert all(all(done.result()) for done in [pool.submit(work) for _ in range(4)])


def throw(error):
    raise error


def raising(*args):
    raise ValueError("not today")


def test_an_exception_in_enqueue_ends_only_that_inference(bound, log):
    context, y, _x = bound(lying(enqueue=first(raising)))
    assert (context.execute_async_v3(0), y.any()) == (False, False)
    assert "Traceback" in log.lines[-2]
    assert "[AR824]" in log.lines[-1]
    assert "ValueError: not today" in log.lines[-1]
    assert context.execute_async_v3(0)
    assert y.tolist() == [1] * 140


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, BaseException])
def test_exceptions_that_end_programs_pass_and_the_next_inference_works(bound, log, error):
    context, y, _x = bound(lying(enqueue=first(lambda: throw(error()))))
    with pytest.raises(error):
        context.execute_async_v3(0)
    assert (context.execute_async_v3(0), y.tolist(), log.lines) == (True, [1] * 140, [])


class Meddling(Pad):
    """Changes the descriptions that it receives."""

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        Pad.enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream)
        input_desc[0].dims, input_desc[0].type = (1,), trt.int8
        output_desc[0].dims[0] = 99
        for kept in (input_desc, output_desc, inputs, outputs):
            kept.clear()

    def on_shape_change(self, inp, out):
        inp[0].dims = (3,)
        out.clear()

    def clone(self):
        return _copied(Meddling(), self)


def test_changes_of_arguments_do_not_reach_the_next_call(bound, log):
    context, y, _x = bound(Meddling(fields()))
    for _ in range(3):
        y[:] = 0
        assert (context.execute_async_v3(0), y.tolist(), log.lines) == (True, [1] * 140, [])


def slow(network, x):
    """A plug-in behind matrix products that take tenths of a second."""
    w = network.add_constant((2048, 2048), np.zeros((2048, 2048), np.float32)).get_output(0)
    for _ in range(4):
        x = network.add_matrix_multiply(x, NONE, w, NONE).get_output(0)
    return network.add_plugin_v3([x], [], pad()).get_output(0)


def test_ctrl_c_in_a_kernel_before_a_plugin_ends_the_inference(registry, log):
    """Python raises KeyboardInterrupt when native code calls back, at the entry of the function."""
    registry.register_creator(PadCreator())
    engine = built(log, slow, (256, 2048))
    context, x, y = (
        engine.create_execution_context(),
        np.ones((256, 2048), np.float32),
        np.empty(1 << 20, "f4"),
    )
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    timer = threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        assert context.execute_async_v3(0) is timer.join()
    signal.signal(signal.SIGINT, before)
    assert (context.execute_async_v3(0), log.lines) == (True, [])


def test_a_context_that_fails_releases_its_plugins(registry, log):
    ended = []

    class Ending(OldPad):
        def terminate(self):
            ended.append(1)

        def clone(self):
            return _copied(Ending(), self)

    for creator, result in (
        (OldPadCreator(), Ending(fields())),
        (PadCreator(), lying(attach_to_context=raising)),
    ):
        creator.create_plugin = creator.deserialize_plugin = lambda *args, result=result: result.clone()
        registry.register_creator(creator)

    def both(network, x):
        y = network.add_plugin_v2([x], Ending(fields())).get_output(0)
        return network.add_plugin_v3([y], [], pad()).get_output(0)

    assert built(log, both).create_execution_context() is None
    assert ended == [1]


def declared(*shape, dtype=DataType.FLOAT, format=TensorFormat.LINEAR):
    return Tensor(Type(shape, dtype), format)


N = Sym("n", 1, 9).dim
FALSE = {
    "a larger input": ((declared(2, 4), declared(2, 3)), (-1,), "AR123"),
    "a larger output": ((declared(2, 3), declared(2, 9)), (-1,), "AR123"),
    "an open size": ((declared(2, N), declared(2, 3)), (-1,), "AR123"),
    "another type": ((declared(2, 3), declared(2, 3, dtype=DataType.INT64)), (-1,), "AR202"),
    "another format": ((declared(2, 3), declared(1, 2, 1, 3, format=TensorFormat.CHW4)), (-1,), "AR123"),
    "a tensor more": ((declared(2, 3), declared(2, 3), declared(2, 3)), (-1,), "AR202"),
    "an operand that is not there": ((declared(2, 3), declared(2, 3)), (1,), "AR123"),
}


@pytest.mark.parametrize("lie", FALSE)
def test_a_plan_must_declare_the_memory_that_plugins_receive(lie):
    """Plug-ins write all declared memory; a manipulated plan could make them write outside."""
    sees, over, code = FALSE[lie]
    memory, result = Type((2, 3), DataType.FLOAT), PluginData(np.zeros(0, np.uint8), DataType.UINT8)
    with pytest.raises(AnyrtError, match=rf"\[{code}\] pad"):
        Plugin("pad", "Pad", "1", "", result, (memory,), sees, over=over).infer((memory,))
    good = Plugin("pad", "Pad", "1", "", result, (memory,), (declared(2, 3), declared(2, 3)), over=(0,))
    assert good.infer((memory,)) == (memory,)
