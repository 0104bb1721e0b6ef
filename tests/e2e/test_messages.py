"""One mistake for each code: the message has the location, the parts got and wanted, the cure, and the user's
line."""

import ast
import ctypes
import hashlib
import json
import re
import struct
import traceback
import uuid
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import anyrt as trt
from anyrt.cli.script import build_script
from anyrt.core.codes import CODES
from anyrt.runtime.ranks import SharedRanks
from tests.messages import diagnostic, golden, renew, steady
from tests.plugins.samples import Pad, PadCreator, fields

F, SUM, CHANNEL = trt.float32, trt.ElementWiseOperation.SUM, trt.ScaleMode.CHANNEL
PLAIN = trt.MatrixOperation.NONE
ONES, HALVES, A = np.ones(3, np.float32), np.ones(3, np.float16), np.ones((2, 3), np.float32)
MESSAGE = re.compile(r"\[(AR\d+)\] (?P<where>.+?): got (?P<got>.+), wanted (?P<wanted>.+?); (?P<do>.+)")
LINE = re.compile(r"(test_messages|bad)\.py:(\d+)\)")
ROOT = Path(__file__).parents[2]

# Codes that a program cannot cause, with the reason.
OUT_OF_REACH = {
    "AR204": "an array of such a type is an argument of the wrong kind, AR311 or AR304",
    "AR207": "names of types are read in plans alone, whose checksum fails first",
    "AR805": "it takes a kernel that is wrong; tests/compiler/test_verify.py makes one",
    "AR806": "it takes machine code that is not ours; tests/runtime/test_image.py has some",
    "AR807": "it takes a fault of this library; tests/api/test_build.py makes one",
    "AR808": "it takes text that LLVM refuses, a fault of this library",
    "AR810": "it takes a kernel that is wrong; tests/ir/test_run.py has some",
    "AR902": "told by names that are missing; tests/api tries them",
    "AR903": "told by names that are missing; tests/api tries them",
    "AR905": "the environment asks for it; tests/api/test_permissive.py does",
}


def model(node, *weights):
    """The bytes of a model of one node from x to y."""
    x, y = (helper.make_tensor_value_info(n, 1, [2]) for n in "xy")
    graph = helper.make_graph([node], "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def outside():
    """A weights file outside the model's directory."""
    weights = onnx.TensorProto(name="w", dims=[2], data_type=1, data_location=1)
    weights.external_data.add(key="location", value="../w.bin")
    return weights


def calibrated(p, cache):
    """A build with a calibrator that has no batch, and with this cache."""
    instance = type("Mine", (trt.IInt8MinMaxCalibrator,), {
        "get_batch_size": lambda self: 1, "get_batch": lambda self, names: None,
        "read_calibration_cache": lambda self: cache})()  # fmt: skip
    p.config.set_flag(trt.BuilderFlag.INT8)
    p.config.int8_calibrator = instance
    p.build(p.net.add_convolution_nd(p.x(1, 1, 2, 2), 1, (1, 1), np.ones(1, np.float32)))


def selected(p):
    """A build whose selector returns no list."""
    kind = type("Mine", (trt.IAlgorithmSelector,), {"select_algorithms": lambda self, context, choices: 0})
    p.config.algorithm_selector = kind()
    p.build(p.identity(2))


def ordered(p):
    """A build with a precision constraint that no layer can obey."""
    layer = p.identity(2)
    layer.precision = trt.int8
    p.config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    p.build(layer)


class Program:
    """The objects of a program: a builder, a network, a configuration, and short methods."""

    def __init__(self, log, folder):
        self.log, self.folder, self.builder = log, folder, trt.Builder(log)
        self.net, self.config = self.builder.create_network(), self.builder.create_builder_config()
        self.add_squeeze, self.add_shuffle = self.net.add_squeeze, self.net.add_shuffle

    def x(self, *shape, dtype=F, name="x"):
        return self.net.add_input(name, dtype, shape)

    def ints(self, *values):
        return self.net.add_constant((len(values),), np.int32(values)).get_output(0)

    def build(self, layer=None, **profile):
        if layer is not None:
            layer.get_output(0).name = "y"
            self.net.mark_output(layer.get_output(0))
        for name, shapes in profile.items():
            values = self.builder.create_optimization_profile()
            values.set_shape(name, *shapes)
            self.config.add_optimization_profile(values)
        return self.builder.build_serialized_network(self.net, self.config)

    def identity(self, *shape):
        return self.net.add_identity(self.x(*shape))

    def parser(self):
        return trt.OnnxParser(self.net, self.log)

    def load(self, plan):
        return trt.Runtime(self.log).deserialize_cuda_engine(plan)

    def plan(self):
        """y = x for 1 to 4 rows of three."""
        return bytes(self.build(self.identity(-1, 3), x=[(1, 3), (2, 3), (4, 3)]))

    def refitter(self, flag):
        """A refitter for y = x + w, built with `flag`."""
        weights, x = np.arange(3, dtype=np.float32), self.x(3)
        self.config.set_flag(flag)
        layer = self.net.add_elementwise(x, self.net.add_constant((3,), weights).get_output(0), SUM)
        self.net.set_weights_name(weights, "w")
        return trt.Refitter(self.load(self.build(layer)), self.log)

    def context(self, shape=None, **memory):
        context = self.load(self.plan()).create_execution_context()
        if shape is not None:
            context.set_input_shape("x", shape)
        for name, array in memory.items():
            context.set_tensor_address(name, array)
        return context


def shape(layer, **attributes):
    """Read a shape, which makes the network check the layer."""
    for name, value in attributes.items():
        setattr(layer, name, value)
    return layer.get_output(0).shape


def normalization(p, axes, channels):
    other = [p.x(1, channels, 1, 1, name=name) for name in "ab"]
    return p.net.add_normalization(p.x(2, 6, 3, 3), *other, axes)


def cycle(p):
    first = p.identity(2)
    first.set_input(0, p.net.add_identity(first.get_output(0)).get_output(0))
    return shape(first)


def looped(p, count, length=3):
    """The sums of x and itself, iteration by iteration."""
    loop = p.net.add_loop()
    state = loop.add_recurrence(p.x(2))
    now = state.get_output(0)
    state.set_input(1, p.net.add_elementwise(now, now, SUM).get_output(0))
    if count is not None:
        loop.add_trip_limit(
            p.net.add_constant((), np.array(count, np.int32)).get_output(0), trt.TripLimit.COUNT
        )
    result = loop.add_loop_output(now, trt.LoopOutput.CONCATENATE)
    result.set_input(1, p.net.add_constant((), np.array(length, np.int32)).get_output(0))
    return result


def formatted(layer):
    layer.get_output(0).allowed_formats = 1 << trt.TensorFormat.CHW32
    return layer


def undescribed():
    from anyrt import plugin

    plugin.register("messages::undescribed")(lambda x: x)


def endless(p):
    loop = p.net.add_loop()
    loop.max_trips = 9
    flag = loop.add_recurrence(p.net.add_constant((), np.array(True)).get_output(0))
    flag.set_input(1, p.net.add_identity(flag.get_output(0)).get_output(0))
    state = loop.add_recurrence(p.x(2))
    state.set_input(1, p.net.add_identity(state.get_output(0)).get_output(0))
    loop.add_trip_limit(flag.get_output(0), trt.TripLimit.WHILE)
    last = loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE)
    return run(p, last, np.ones(2, np.float32))


def run(p, layer, x):
    return p.load(p.build(layer)).run(x=x)


def sealed(plan, header):
    """The plan with another header and a valid checksum."""
    start = -(-(128 + len(header)) // 64) * 64
    old = struct.unpack_from("<QQQQ", plan, 16)
    fields = (len(header), start, old[2], start + old[2])
    preamble = plan[:16] + struct.pack("<QQQQ", *fields) + bytes(16)
    check = hashlib.sha256(preamble + header).digest()
    body = preamble + check + bytes(32) + header
    return body + bytes(start - len(body)) + plan[old[1] :]


def lying(plan):
    """The plan without the range of its size."""
    header = json.loads(plan[128 : 128 + struct.unpack_from("<Q", plan, 16)[0]])
    return sealed(plan, json.dumps({**header, "profiles": []}).encode())


def replaced(plan, at, text):
    return plan[:at] + text + plan[at + len(text) :]


def changed_file(p):
    path = p.folder / "net.plan"
    path.write_bytes(p.build(p.net.add_constant((1 << 19,), np.ones(1 << 19, np.float32))))
    engine = p.load(path)
    with open(path, "r+b") as file:
        file.truncate(1 << 16)
    return engine.serialize()


class Refusing(trt.IOutputAllocator):
    """Allocates no memory, and calls `act` instead."""

    def __init__(self, act):
        trt.IOutputAllocator.__init__(self)
        self.act = act

    def reallocate_output(self, tensor_name, memory, size, alignment):
        self.act()

    def notify_shape(self, tensor_name, shape):
        pass


def refused(p, act):
    context = p.context((2, 3), x=A)
    context.set_output_allocator("y", Refusing(lambda: act(context)))
    return context.execute_async_v3(0)


def named_sizes(p):
    a, b = (p.x(-1, 2, name=name) for name in "ab")
    for tensor in (a, b):
        tensor.set_dimension_name(0, "batch")
    profile = p.builder.create_optimization_profile()
    for name in "ab":
        profile.set_shape(name, (1, 2), (2, 2), (9, 2))
    p.config.add_optimization_profile(profile)
    engine = p.load(p.build(p.net.add_elementwise(a, b, SUM)))
    return engine.run(a=np.ones((3, 2), np.float32), b=np.ones((4, 2), np.float32))


def beyond(p):
    """Sums that are stored: 64 KB, where 4 KB are permitted."""
    sums = p.net.add_reduce(p.x(128, 128, 64), trt.ReduceOperation.SUM, 4, False).get_output(0)
    layer = p.net.add_resize(sums)
    layer.resize_mode, layer.scales = trt.InterpolationMode.CUBIC, (1.5, 1.5)
    p.config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 12)
    return p.build(layer)


class NoMemory(trt.IGpuAllocator):
    """An allocator without memory."""

    def allocate(self, size, alignment, flags):
        return None

    def deallocate(self, memory):
        return True


def no_memory(p):
    sums = p.net.add_reduce(p.x(128, 128, 64), trt.ReduceOperation.SUM, 4, False).get_output(0)
    layer = p.net.add_resize(sums)
    layer.resize_mode, layer.scales = trt.InterpolationMode.CUBIC, (1.5, 1.5)
    runtime = trt.Runtime(p.log)
    runtime.gpu_allocator = NoMemory()
    return runtime.deserialize_cuda_engine(p.build(layer)).create_execution_context()


class Full(trt.IStreamWriter):
    """Accepts no bytes."""

    def write(self, data):
        return 0


class Stop(trt.IProgressMonitor):
    """Cancels a build after its first step."""

    def phase_start(self, phase_name, parent_phase, num_steps):
        pass

    def step_complete(self, phase_name, step):
        return False

    def phase_finish(self, phase_name):
        pass


def stopped(p):
    p.config.progress_monitor = Stop()
    return p.build(p.identity(2))


def without_weights(p):
    engine = p.load(p.plan())
    config = engine.create_serialization_config()
    config.set_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    return engine.serialize_with_config(config)


def other_weights(p):
    refitter = p.refitter(trt.BuilderFlag.REFIT_IDENTICAL)
    refitter.set_named_weights("w", 2 * ONES)
    return refitter.refit_cuda_engine()


def bad_file(p, function="define"):
    (p.folder / "bad.py").write_text("def define(network):\n    1 / 0\n")
    return build_script(p.folder / "bad.py", function)


def other_processor(p):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_CPU", "abacus")
        return p.build(p.identity(2))


def cached(p, cache):
    new, at = p.x(1, 1, 3, 3, name="new"), p.x(1, dtype=trt.int32, name="at")
    return p.net.add_kv_cache_update(cache, new, at, trt.KVCacheMode.LINEAR)


def positions_of_averages(p):
    layer = p.net.add_pooling_nd(p.x(1, 1, 4, 4), trt.PoolingType.AVERAGE, (2, 2))
    layer.indices_type = trt.int32
    return shape(layer)


class Nameless(trt.IPluginCreatorV3One):
    """A creator without the name of its plug-in."""


class Creator(trt.IPluginCreatorV3One):
    """A creator without a plug-in."""

    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version = "Nothing", "1"


class Broken(trt.IPluginResource):
    """A resource that cannot be cloned."""

    def clone(self):
        return 1 / 0


class Beyond(Pad):
    """A plug-in that writes one element past the end."""

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        count = int(np.prod(output_desc[0].dims))
        (ctypes.c_float * (count + 1)).from_address(outputs[0])[count] = 1

    def clone(self):
        instance = Beyond()
        instance.__dict__.update(self.__dict__)
        return instance


def written_beyond(p):
    creator, registry = PadCreator(), trt.get_plugin_registry()
    creator.create_plugin = lambda name, fc, phase: Beyond(fc)
    registry.register_creator(creator)
    p.config.checked = True
    try:
        engine = p.load(p.build(p.net.add_plugin_v3([p.x(2, 3, 4)], [], Beyond(fields()))))
        return engine.run(x=np.zeros((2, 3, 4), np.float32))
    finally:
        registry.deregister_creator(creator)


def without_communicator(p):
    every, total = trt.CollectiveOperation.ALL_REDUCE, trt.ReduceOperation.SUM
    layer = p.net.add_dist_collective(p.x(2), every, total, -1, None)
    layer.num_ranks = 2
    return p.load(p.build(layer)).run(x=np.ones(2, np.float32))


def registered(act):
    """Call `act` with the registry in strict mode, because its messages do not reach the log of the test."""
    with trt.strict():
        return act(trt.get_plugin_registry())


def registered_twice(p):
    registry, first = trt.IPluginRegistry(), Creator()
    registry.register_creator(first)
    with trt.strict():
        registry.register_creator(Creator())


PROVOKED = {
    "AR101": lambda p: shape(p.net.add_scale(p.x(3, 4, 5), trt.ScaleMode.UNIFORM)),
    "AR102": lambda p: shape(p.net.add_scale(p.x(1, 4, 5, 6), CHANNEL, scale=ONES)),
    "AR103": lambda p: shape(p.add_shuffle(p.x(3, 4)), reshape_dims=(7, -1)),
    "AR104": lambda p: shape(p.add_shuffle(p.x(2, 3)), reshape_dims=(-1, -1)),
    "AR105": lambda p: shape(p.add_shuffle(p.x(2, 0)), reshape_dims=(-1, 0)),
    "AR106": lambda p: shape(p.add_shuffle(p.x(2, 3)), reshape_dims=(2, 3, 0)),
    "AR108": lambda p: shape(p.net.add_resize(p.x(1, 1, 4, 4)), scales=(2, 2)),
    "AR109": lambda p: shape(
        p.net.add_resize(p.x(2, 2, 4, 4, 4)), shape=(3,) * 5, resize_mode=trt.InterpolationMode.LINEAR
    ),
    "AR110": lambda p: shape(p.net.add_resize(p.x(1, 1, 4, 4)), shape=(1, 1, -3, 4)),
    "AR111": lambda p: shape(p.net.add_resize(p.x(1, 1, 64, 64)), shape=(1, 1, 65536, 65536)),
    "AR112": lambda p: shape(p.net.add_elementwise(p.x(2), p.x(3, name="z"), SUM)),
    "AR113": lambda p: shape(p.net.add_concatenation([p.x(2, 3), p.x(2, 4, name="z")])),
    "AR114": lambda p: shape(p.net.add_slice(p.x(4), (2,), (3,), (1,))),
    "AR115": lambda p: p.x(*(1,) * 9),
    "AR116": lambda p: shape(p.add_squeeze(p.x(2, 3), p.ints(0))),
    "AR117": lambda p: shape(p.net.add_scale(p.x(1, -1, 4, 5), CHANNEL, scale=ONES)),
    "AR118": lambda p: shape(normalization(p, 0b1100, 4), num_groups=4),
    "AR119": lambda p: shape(normalization(p, 0b1100, 5)),
    "AR120": lambda p: p.x(-2, 3),
    "AR121": lambda p: shape(p.add_squeeze(p.x(2, 1), p.x(1, dtype=trt.int32, name="axes"))),
    "AR122": lambda p: shape(p.net.add_elementwise(p.x(2), p.x(2, 2, name="z"), SUM)),
    "AR123": lambda p: p.context().set_input_shape("x", (2, 4)),
    "AR124": lambda p: shape(p.net.add_fill((2, 3), trt.FillOperation.LINSPACE, trt.float32)),
    "AR125": lambda p: shape(p.net.add_slice(p.x(3), (0,), (2,), (1 << 33,)), mode=trt.SampleMode.FILL),
    "AR126": lambda p: shape(p.net.add_convolution_nd(p.x(1, 1, 2), 1, (3,), np.ones(3, np.float32))),
    "AR130": lambda p: shape(p.net.add_matrix_multiply(p.x(2, 3), PLAIN, p.x(2, 3, name="z"), PLAIN)),
    "AR131": lambda p: shape(cached(p, p.x(1, 1, 2, 3))),
    "AR132": lambda p: shape(p.net.add_topk(p.x(4, 1), trt.TopKOperation.MAX, 5, 1)),
    "AR133": lambda p: shape(p.net.add_reverse_sequence(p.x(4, 1), p.ints(5))),
    "AR201": lambda p: shape(p.net.add_scale(p.x(1, 3, 4, 5), CHANNEL, scale=ONES, shift=HALVES)),
    "AR202": lambda p: shape(p.net.add_activation(p.x(2, dtype=trt.int32), trt.ActivationType.TANH)),
    "AR203": lambda p: shape(p.net.add_elementwise(p.x(2), p.x(2, dtype=trt.int32, name="z"), SUM)),
    "AR205": lambda p: shape(p.net.add_scale(p.x(1, 3, 4, 5), CHANNEL, scale=HALVES)),
    "AR206": lambda p: positions_of_averages(p),
    "AR301": lambda p: shape(p.add_shuffle(p.x(2, 3)), first_transpose=(0, 0)),
    "AR302": lambda p: shape(p.net.add_reduce(p.x(2), trt.ReduceOperation.SUM, 1 << 3, True)),
    "AR303": lambda p: shape(p.add_squeeze(p.x(2, 1), p.ints(4))),
    "AR304": lambda p: setattr(p.config, "builder_optimization_level", 9),
    "AR305": lambda p: shape(p.add_squeeze(p.x(1, 1), p.ints(0, 0))),
    "AR306": lambda p: bad_file(p, "nope"),
    "AR307": lambda p: trt.Weights(np.ones((4, 4), np.float32)[:, ::2]),
    "AR308": lambda p: shape(p.net.add_activation(p.x(2), trt.ActivationType.ELU), alpha=float("inf")),
    "AR309": lambda p: shape(normalization(p, 1 << 3, 2), num_groups=2),
    "AR310": lambda p: setattr(p.identity(2).get_output(0), "shape", (3,)),
    "AR311": lambda p: p.net.add_input("x", np.float32, (2,)),
    "AR312": lambda p: p.identity(2).set_input(4, p.x(2, name="z")),
    "AR313": lambda p: setattr(p.net.add_resize(p.x(1, 1, 4, 4)), "resize_mod", 1),
    "AR314": bad_file,
    "AR315": lambda p: undescribed(),
    "AR320": lambda p: shape(p.net.add_einsum([p.x(2, 3)], "ij-")),
    "AR331": lambda p: calibrated(p, None),
    "AR332": lambda p: calibrated(p, b"TRT-8601-MinMaxCalibration\nother: 3c010a14\n"),
    "AR333": ordered,
    "AR334": selected,
    "AR401": lambda p: p.build(),
    "AR402": lambda p: (p.x(2), p.x(2)),
    "AR403": lambda p: p.builder.create_network().add_identity(p.x(2)),
    "AR404": lambda p: p.net.mark_output(p.x(2)),
    "AR405": lambda p: setattr(p.x(2), "name", ""),
    "AR406": lambda p: p.net.add_concatenation([]),
    "AR407": lambda p: p.net.unmark_output(p.identity(2).get_output(0)),
    "AR408": cycle,
    "AR409": lambda p: p.build(cached(p, p.identity(1, 1, 4, 3).get_output(0))),
    "AR411": lambda p: looped(p, None).get_output(0).shape,
    "AR412": lambda p: endless(p),
    "AR413": lambda p: run(p, looped(p, 3, 2), np.ones(2, np.float32)),
    "AR414": lambda p: p.build(p.net.add_identity(looped(p, 3).get_input(0))),
    "AR415": lambda p: p.build(formatted(p.identity(2, 3))),
    "AR410": lambda p: (
        p.net.add_assertion(p.net.add_constant((1,), np.zeros(1, np.bool_)).get_output(0), "it holds"),
        p.build(p.identity(2)),
    ),
    "AR416": lambda p: p.parser().parse(b"no model at all"),
    "AR417": lambda p: p.parser().parse(model(helper.make_node("Relu", ["z"], ["y"]))),
    "AR418": lambda p: p.parser().parse(model(helper.make_node("Add", ["x", "w"], ["y"]), outside())),
    "AR904": lambda p: p.parser().parse(model(helper.make_node("Nothing", ["x"], ["y"]))),
    "AR501": lambda p: (
        p.config.add_optimization_profile(p.builder.create_optimization_profile()),
        p.build(p.identity(-1)),
    ),
    "AR502": lambda p: p.build(p.identity(-1), x=[(1,), (2, 2), (3,)]),
    "AR503": lambda p: p.build(p.identity(-1), x=[(1,), (4,), (3,)]),
    "AR504": lambda p: p.build(p.identity(-1, 3), x=[(1, 3), (2, 3), (2, 4)]),
    "AR505": lambda p: p.context().set_input_shape("x", (9, 3)),
    "AR506": lambda p: p.build(p.identity(2), q=[(1,), (2,), (3,)]),
    "AR507": lambda p: p.context().set_optimization_profile_async(3, 0),
    "AR601": lambda p: p.load(p.plan()[:200]),
    "AR602": lambda p: p.load(replaced(p.plan(), 200, b"~")),
    "AR603": lambda p: p.load(replaced(p.plan(), 8, struct.pack("<I", 99))),
    "AR604": lambda p: p.load(replaced(p.plan(), 16, struct.pack("<Q", 1 << 60))),
    "AR605": lambda p: p.load(sealed(p.plan(), b'{"name": 1}')),
    "AR606": lambda p: p.load(b"ftrt" + bytes(500)),
    "AR607": lambda p: p.load(lying(p.plan())),
    "AR608": changed_file,
    "AR701": lambda p: p.context((2, 3)).execute_async_v3(0),
    "AR702": lambda p: p.context((2, 3), x=0, y=A.copy()).execute_async_v3(0),
    "AR703": lambda p: p.context().set_tensor_address("x", np.ones((2, 3))),
    "AR704": lambda p: p.context((2, 3), x=A, y=np.ones((1, 3), np.float32)).execute_async_v3(0),
    "AR705": lambda p: p.context().set_tensor_address("x", np.ones((2, 6), np.float32)[:, ::2]),
    "AR706": lambda p: p.context().set_tensor_address("z", A),
    "AR707": lambda p: p.context().execute_async_v3(0),
    "AR708": lambda p: refused(p, lambda context: context.set_input_shape("x", (1, 3))),
    "AR709": lambda p: refused(p, lambda context: None),
    "AR710": named_sizes,
    "AR711": lambda p: [p.context((2, 3), x=a, y=a).execute_async_v3(0) for a in (A.copy(),)],
    "AR712": lambda p: p.context((2, 3), x=12345, y=A.copy()).execute_async_v3(0),
    "AR713": without_communicator,
    "AR801": beyond,
    "AR802": no_memory,
    "AR803": lambda p: p.builder.build_serialized_network_to_stream(
        (p.build(p.identity(2)), p.net)[1], p.config, Full()
    ),
    "AR804": stopped,
    "AR809": other_processor,
    "AR811": lambda p: SharedRanks(f"late-{uuid.uuid4().hex}", 0, 2, seconds=0.05),
    "AR821": registered_twice,
    "AR822": lambda p: registered(lambda registry: registry.register_creator(Nameless())),
    "AR823": lambda p: registered(lambda registry: registry.deregister_creator(Creator())),
    "AR824": lambda p: registered(lambda registry: registry.acquire_plugin_resource("x", Broken())),
    "AR825": written_beyond,
    "AR826": lambda p: registered(lambda registry: registry.load_library("libnvinfer_plugin.so")),
    "AR841": without_weights,
    "AR842": lambda p: p.refitter(trt.BuilderFlag.REFIT).set_named_weights("v", ONES),
    "AR843": lambda p: p.refitter(trt.BuilderFlag.REFIT).set_named_weights("w", np.ones(2, np.float32)),
    "AR844": lambda p: p.refitter(trt.BuilderFlag.STRIP_PLAN).refit_cuda_engine(),
    "AR845": other_weights,
    "AR901": lambda p: shape(
        p.net.add_deconvolution_nd(p.x(1, 3, 5, 4), 4, (3, 3), np.ones(108, np.float32)),
        stride_nd=(2**31 - 1, 2),
        dilation_nd=(2, 2),
    ),
}


def provoke(p, code):
    """The message, and whether it was raised; if so, the traceback shows the line."""
    try:
        PROVOKED[code](p)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        assert any(f.filename == __file__ for f in frames)
        p.log.lines.append(f"{error}")
        return str(error), True
    return next(line for line in p.log.lines if line.startswith(f"[{code}]")), False


@pytest.mark.parametrize("code", PROVOKED)
def test_message_says_where_got_wanted_what_to_do_and_the_line(code, log, tmp_path):
    message, is_raised = provoke(Program(log, tmp_path), code)
    match = MESSAGE.fullmatch(message)
    assert match, message
    assert match[1] == code
    assert min(len(match[part]) for part in ("where", "got", "wanted", "do")) > 0
    assert is_raised or LINE.search(match["where"]), message


@pytest.mark.parametrize("code", PROVOKED)
def test_message_is_the_golden_one(code, log, tmp_path, request):
    message = steady(provoke(Program(log, tmp_path), code)[0], tmp_path)
    if request.config.getoption("renew_messages"):
        renew(code, message)
    assert golden().get(code) == message


def test_golden_texts_are_those_of_codes_and_of_tests_that_exist():
    keys = golden().keys() - PROVOKED.keys()
    tests = {re.sub(r"(\[.*\])?( #\d+)?\Z", "", key) for key in keys}
    pairs = [test.partition("::")[::2] for test in tests]
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file, _ in pairs}
    assert [name for file, name in pairs if f"\ndef {name}(" not in texts[file]] == []


def searched(tree):
    """The texts that a test module searches in messages: those of `match=`, and those left of `in`."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="match", value=pattern) | ast.Compare(left=pattern, ops=[ast.In()]):
                yield from (n.value for n in ast.walk(pattern) if isinstance(n, ast.Constant))


@pytest.mark.static
def test_no_test_quotes_the_words_between_the_values_of_a_message():
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("test_*.py")
    }
    quoted = [
        (path.name, text)
        for path, tree in trees.items()
        for text in searched(tree)
        if isinstance(text, str) and re.search(r"\b(got|wanted) ", text)
    ]
    assert quoted == [], "compare values with `diagnostic` or `golden_text` (tests/messages.py)"


def test_every_code_is_provoked_or_out_of_reach():
    for code in CODES.keys() & OUT_OF_REACH.keys():
        print(f"{code} ({CODES[code].title}): {OUT_OF_REACH[code]}")
    assert not PROVOKED.keys() & OUT_OF_REACH.keys()
    assert PROVOKED.keys() <= CODES.keys() <= PROVOKED.keys() | OUT_OF_REACH.keys()


HINTS = {
    "trt.Logger()": lambda p: trt.Builder(trt.Logger),
    "write trt.Logger.WARNING": lambda p: trt.Logger("WARNING"),
    "write trt.float32": lambda p: p.net.add_input("x", np.float32, (2,)),
    "write trt.int32": lambda p: p.net.add_input("x", np.dtype("int32"), (2,)),
    "write trt.DataType(0)": lambda p: p.net.add_input("x", 0, (2,)),
    "write (3,)": lambda p: p.net.add_input("x", F, 3),
    "write trt.ActivationType.RELU": lambda p: p.net.add_activation(p.x(2), "relu"),
    "write trt.BuilderFlag.FP16": lambda p: p.config.set_flag("FP16"),
    "write 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)": lambda p: p.builder.create_network(
        trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    ),
    "write 1 << 1 | 1 << 2": lambda p: p.net.add_reduce(p.x(2, 3, 4), trt.ReduceOperation.SUM, (1, 2), True),
    "write pathlib.Path('net.plan')": lambda p: p.load("net.plan"),
    "the log has the reason": lambda p: p.load(None),
    "write layer.get_output(0)": lambda p: p.net.add_identity(p.identity(2)),
    "add_constant(array.shape, array)": lambda p: p.net.add_identity(ONES),
    "numpy.asarray(values, numpy.float32)": lambda p: p.net.add_constant((2,), [1, 2]),
    "write [tensor, ...]": lambda p: p.net.add_concatenation(p.x(2)),
    "add_reduce(input: ITensor, op: ReduceOperation, axes: int, keep_dims: bool)": lambda p: p.net.add_reduce(
        1
    ),
}


@pytest.mark.parametrize(("hint", "act"), HINTS.items(), ids=HINTS)
def test_the_error_for_a_wrong_argument_type_has_an_example(hint, act, log, tmp_path):
    with pytest.raises(TypeError) as raised:
        act(Program(log, tmp_path))
    assert str(raised.value).startswith("[AR311] ")
    assert hint in str(raised.value)


def test_errors_about_sizes_of_an_inference_have_names_and_the_line_of_the_layer(log, tmp_path):
    p = Program(log, tmp_path)
    layer = p.add_shuffle(p.x(-1, 4))
    layer.set_input(1, p.x(2, dtype=trt.int32, name="d"))
    profile = p.builder.create_optimization_profile()
    profile.set_shape("x", (1, 4), (3, 4), (8, 4))
    profile.set_shape_input("d", (-1, -1), (6, 2), (32, 32))
    p.config.add_optimization_profile(profile)
    engine = p.load(p.build(layer))
    with pytest.raises(trt.errors.ShapeError) as raised:
        engine.run(x=np.ones((3, 4), np.float32), d=np.int32([7, -1]))
    values = ("(test_messages.py:", 12, "x.shape[0] = 3", "d[0] = 7", "d[1] = -1", 7)
    assert re.match(diagnostic("AR103", *values), str(raised.value))


def test_the_cure_for_a_reshape_with_a_minus_1_does_not_suggest_one(log, tmp_path, golden_text):
    p = Program(log, tmp_path)
    shape(p.add_shuffle(p.x(3, 4)), reshape_dims=(7, -1))
    shape(p.add_shuffle(p.x(3, 4, name="z")), reshape_dims=(7, 2))
    for line in log.lines:
        golden_text(line)


@pytest.mark.parametrize(("dtype", "expected"), [(F, ["float32"]), (trt.bfloat16, ["bfloat16", "float32"])])
def test_types_that_weights_may_have_are_listed_once_each(dtype, expected, log, tmp_path):
    p = Program(log, tmp_path)
    shape(p.net.add_scale(p.x(1, 3, 4, 5, dtype=dtype), CHANNEL, scale=HALVES))
    assert re.search(diagnostic("AR205", "[Scale]", "float16", *expected), log.lines[0])
    assert all(log.lines[0].count(name) == 1 for name in ("float16", *expected) if name != "float16")


def test_terms_of_an_equation_are_counted_as_people_do(log, tmp_path, golden_text):
    p = Program(log, tmp_path)
    shape(p.net.add_einsum([p.x(2, 3)], "ij,jk"))
    golden_text(log.lines[0])
