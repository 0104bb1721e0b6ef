"""Plug-ins of version 3 in networks."""

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.samples import Pad, PadCreator, at, built, fields, pad, wrapped


def after_abs(network, x, plugin=None):
    """A plug-in between two layers, which cannot fuse."""
    y = network.add_unary(x, trt.UnaryOperation.ABS).get_output(0)
    y = network.add_plugin_v3([y], [], plugin or pad()).get_output(0)
    return network.add_unary(y, trt.UnaryOperation.NEG).get_output(0)


@pytest.fixture
def pads(registry):
    registry.register_creator(PadCreator(), "")
    with trt.strict():
        yield


def test_a_plugin_computes_between_layers(pads, log, rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    assert np.array_equal(built(log, after_abs).run(x=x)["y"], -wrapped(abs(x)))


def test_a_layer_has_its_plugin_and_the_shape_of_its_output(log):
    network, plugin = trt.Builder(log).create_network(), pad()
    x = network.add_input("x", trt.float16, (1, -1, 8))
    layer = network.add_plugin_v3([x], [], plugin)
    y = layer.get_output(0)
    assert isinstance(layer, trt.IPluginV3Layer)
    assert (layer.type, layer.plugin, layer.num_inputs) == (trt.LayerType.PLUGIN_V3, plugin, 1)
    assert (tuple(y.shape), y.dtype, network[0]) == ((1, -1, 11), trt.float16, layer)


@pytest.mark.parametrize("dtype", [trt.float32, trt.float16])
def test_a_plugin_alone_reads_inputs_and_writes_outputs_in_place(dtype, pads, log, rng):
    engine = built(log, lambda n, x: n.add_plugin_v3([x], [], pad()).get_output(0), dtype=dtype)
    x = rng.standard_normal((2, 3, 4)).astype(trt.nptype(dtype))
    y = engine.run(x=x)["y"]
    assert (y.dtype, np.array_equal(y, wrapped(x))) == (x.dtype, True)


def test_shapes_follow_the_input_of_an_inference(pads, log, rng):
    engine = built(log, after_abs, (1, 1, 2), (4, 4, 5), (9, 9, 9))
    for shape in ((1, 4, 5), (9, 9, 9), (3, 5, 4), (1, 4, 5)):
        x = rng.standard_normal(shape).astype(np.float32)
        assert np.array_equal(engine.run(x=x)["y"], -wrapped(abs(x)))


def test_contexts_have_plugins_of_their_own(pads, log, rng):
    engine = built(log, after_abs, (1, 1, 2), (4, 4, 5), (9, 9, 9))
    for shape in ((1, 4, 5), (3, 5, 4)):
        context, x = engine.create_execution_context(), rng.standard_normal(shape).astype(np.float32)
        context.set_input_shape("x", shape)
        y = np.empty(context.get_tensor_shape("y"), np.float32)
        assert context.set_tensor_address("x", x.ctypes.data)
        assert context.set_tensor_address("y", y.ctypes.data)
        for _ in range(3):
            assert context.execute_async_v3(0)
        assert np.array_equal(y, -wrapped(abs(x)))


def test_a_plan_stores_the_fields_of_the_plugin(pads, log, rng):
    engine = built(log, lambda n, x: after_abs(n, x, pad((0, 1, 2, 0))))
    again = trt.Runtime(log).deserialize_cuda_engine(engine.serialize())
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    assert np.array_equal(again.run(x=x)["y"], -wrapped(abs(x), (0, 1, 2, 0)))


def test_a_plan_with_an_unregistered_plugin_raises_ar823(log):
    assert built(log, after_abs) is None
    (line,) = [x for x in log.lines if "AR823" in x]
    assert "the plug-in 'CircPad', version '1'" in line
    assert "register_creator" in line


OTHERS = {"version": {"plugin_version": "2"}, "namespace": {"plugin_namespace": "mine"}}


@pytest.mark.parametrize("other", OTHERS)
def test_ar823_names_registered_versions_and_namespaces(registry, log, other):
    instance = PadCreator()
    for name, value in OTHERS[other].items():
        setattr(instance, name, value)
    registry.register_creator(instance, instance.plugin_namespace)
    assert built(log, after_abs) is None
    there = {"version": "'CircPad', version '2'", "namespace": "'CircPad', version '1', namespace 'mine'"}
    assert "[AR823]" in log.lines[-1]
    assert f" as {there[other]};" in log.lines[-1]


@pytest.mark.parametrize("answer", [None, 3, Pad, "raises"], ids=str)
def test_a_creator_that_returns_no_plugin_is_reported(registry, log, answer):
    creator, runtime = PadCreator(), trt.Runtime(log)
    registry.register_creator(creator)
    plan = built(log, after_abs).serialize()
    creator.create_plugin = lambda *args: 1 / 0 if answer == "raises" else answer
    assert runtime.deserialize_cuda_engine(plan) is None
    assert ("[AR824]" if answer == "raises" else "[AR822]") in log.lines[-1]
    assert "PadCreator.create_plugin" in log.lines[-1]
    del creator.create_plugin
    assert runtime.deserialize_cuda_engine(plan) is not None


def weighted(log, *flags):
    """An engine with a plug-in behind a sum with weights of 1."""
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    for flag in flags:
        config.set_flag(flag)
    x, ones = network.add_input("x", trt.float32, (2, 3, 4)), np.ones((2, 3, 4), np.float32)
    w = network.add_constant(ones.shape, ones)
    w.name = "w"
    y = network.add_elementwise(x, w.get_output(0), trt.ElementWiseOperation.SUM).get_output(0)
    y = network.add_plugin_v3([y], [], pad()).get_output(0)
    y.name = "y"
    network.mark_output(y)
    return builder.build_engine_with_config(network, config)


FLAGS = trt.BuilderFlag


@pytest.mark.parametrize("flags", [(FLAGS.REFIT,), (FLAGS.REFIT, FLAGS.STRIP_PLAN), (FLAGS.STRIP_PLAN,)])
def test_plans_with_plugins_are_stripped_and_refitted(pads, log, rng, flags):
    engine, x = weighted(log, *flags), rng.standard_normal((2, 3, 4)).astype(np.float32)
    value = 1 if flags == (FLAGS.STRIP_PLAN,) else 5
    refitter = trt.Refitter(engine, log)
    assert refitter.set_weights("w", trt.WeightsRole.CONSTANT, np.full((2, 3, 4), value, np.float32))
    assert refitter.refit_cuda_engine()
    assert np.array_equal(engine.run(x=x)["y"], wrapped(x + np.float32(value)))


SEEN = []


class Streams(Pad):
    """Records streams, shapes and the calls of on_shape_change."""

    def on_shape_change(self, inp, out):
        SEEN.append(("sizes", tuple(inp[0].dims), tuple(out[0].dims)))

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        SEEN.append(("run", stream))
        Pad.enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream)

    def clone(self):
        instance = Streams()
        instance.__dict__.update(self.__dict__)
        return instance


def test_a_plugin_receives_new_shapes_and_each_stream(registry, log):
    creator = PadCreator()
    creator.create_plugin = lambda name, fc, phase: Streams(fc, phase)
    registry.register_creator(creator)
    engine = built(log, lambda n, x: after_abs(n, x, Streams(fields())), (1, 3, 4), (2, 3, 4), (4, 3, 4))
    context, x, y = engine.create_execution_context(), *(np.zeros(999, np.float32) for _ in "xy")
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    SEEN.clear()
    for batch, stream in ((1, 5), (1, 6), (3, 7)):
        context.set_input_shape("x", (batch, 3, 4))
        assert context.execute_async_v3(stream)
    one, three = ("sizes", (1, 3, 4), (1, 10, 7)), ("sizes", (3, 3, 4), (3, 10, 7))
    assert [one, ("run", 5), ("run", 6), three, ("run", 7)] == SEEN


class Sums(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuildV2, trt.IPluginV3OneRuntime):
    """a + b, in place of a, with a workspace; and the number of elements, as int64."""

    def __init__(self):
        for base in (trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuildV2, trt.IPluginV3OneRuntime):
            base.__init__(self)
        self.plugin_name, self.plugin_version, self.plugin_namespace = "Sums", "2", "mine"
        self.num_outputs = 2

    def get_capability_interface(self, type):
        return self

    def clone(self):
        return Sums()

    def get_output_data_types(self, input_types):
        return [input_types[0], trt.int64]

    def get_output_shapes(self, inputs, shape_inputs, builder):
        return [inputs[0], trt.DimsExprs([inputs[0][0], builder.constant(1)])]

    def supports_format_combination(self, pos, in_out, num_inputs):
        return in_out[pos].desc.type == (trt.int64 if pos == 3 else trt.float32)

    def get_workspace_size(self, inp, out):
        return 4 * int(np.prod(inp[0].max))

    def get_aliased_input(self, output_index):
        return 0 if output_index == 0 else -1

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        assert inputs[0] == outputs[0]
        room = at(workspace, input_desc[0])
        room[...] = at(inputs[1], input_desc[1])
        a = at(inputs[0], input_desc[0])
        a += room
        at(outputs[1], output_desc[1])[...] = a[0].size


class SumsCreator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = "Sums", "2", "mine"

    def create_plugin(self, name, fc, phase):
        return Sums()


def sums(network, x):
    """Two plug-ins in place: one adds x and exp(x), one adds a constant to that."""
    layer = network.add_plugin_v3([x, network.add_unary(x, trt.UnaryOperation.EXP).get_output(0)], [], Sums())
    ones = network.add_constant((2, 3, 4), np.ones((2, 3, 4), np.float32)).get_output(0)
    again = network.add_plugin_v3([layer.get_output(0), ones], [], Sums())
    return again.get_output(0), layer.get_output(1), layer.get_output(0)


def test_an_output_may_share_the_memory_of_an_input_with_other_readers(registry, log, rng):
    registry.register_creator(SumsCreator(), "mine")
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    before = x.copy()
    with trt.strict():
        actual = built(log, sums).run(x=x)
    want = x + np.exp(x)
    assert np.allclose(actual["y2"], want, rtol=1e-6)
    assert np.array_equal(actual["y"], actual["y2"] + 1)
    assert (actual["y1"].tolist(), np.array_equal(x, before)) == ([[12], [12]], True)
