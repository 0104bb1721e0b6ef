"""Features of plug-ins of version 3: formats, tactics, shape inputs, shared resources, aliased outputs."""

import ctypes
import gc
import time
from functools import partial

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import PluginError
from tests.plugins.samples import at, built


class Base(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuildV2, trt.IPluginV3OneRuntime):
    """A plug-in with one input and an output like it; `compute(x, y)` computes it on arrays."""

    def __init__(self, *state):
        for base in (trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuildV2, trt.IPluginV3OneRuntime):
            base.__init__(self)
        self.plugin_name, self.plugin_version, self.plugin_namespace = type(self).__name__, "1", ""
        self.num_outputs, self.state = 1, state

    def get_capability_interface(self, type):
        return self

    def clone(self):
        instance = type(self)(*self.state)
        instance.__dict__.update(self.__dict__)
        return instance

    def get_output_data_types(self, input_types):
        return [input_types[0]]

    def get_output_shapes(self, inputs, shape_inputs, builder):
        return [inputs[0]]

    def supports_format_combination(self, pos, in_out, num_inputs):
        return in_out[pos].desc.format == trt.TensorFormat.LINEAR

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection([])

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        self.compute(at(inputs[0], input_desc[0]), at(outputs[0], output_desc[0]))


def register(registry, make):
    """A creator whose plug-ins `make` returns."""
    plugin = make()

    class Creator(trt.IPluginCreatorV3One):
        def __init__(self):
            trt.IPluginCreatorV3One.__init__(self)
            self.name, self.plugin_version = plugin.plugin_name, "1"

        def create_plugin(self, name, fc, phase):
            return make()

    registry.register_creator(Creator(), "")


def one(make):
    return lambda network, x: network.add_plugin_v3([x], [], make()).get_output(0)


LONG = {"CHW2": 2, "HWC8": 8, "CHW4": 4, "CHW16": 16, "CHW32": 32, "HWC": 1, "HWC16": 16, "DHWC8": 8}
LONG |= {"CDHW32": 32, "DHWC": 1}


class ByChannel(Base):
    """Channel c times c + 1, in memory of one format; computes the addresses in its vectors itself."""

    def supports_format_combination(self, pos, in_out, num_inputs):
        return in_out[pos].desc.format == self.state[0]

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        name, dims = self.state[0].name, [*input_desc[0].dims]
        assert input_desc[0].format == output_desc[0].format == self.state[0]
        space = 3 if "D" in name else 2
        batch, channels, places = dims[: -space - 1], dims[-space - 1], dims[-space:]
        long = LONG[name]
        vectors = -(-channels // long)
        outer = [*batch, *places, vectors, long] if "WC" in name else [*batch, vectors, *places, long]
        if "WC" in name and long == 1:
            outer = [*batch, *places, channels, 1]
        count, dtype = int(np.prod(outer)), np.dtype(trt.nptype(input_desc[0].type))
        x, y = (
            np.frombuffer((ctypes.c_uint8 * (count * dtype.itemsize)).from_address(a), dtype).reshape(outer)
            for a in (inputs[0], outputs[0])
        )
        factors = np.arange(1, vectors * long + 1).reshape(-1, long)
        factors = factors if "WC" in name else factors.reshape(-1, *[1] * space, long)
        y[...] = x * factors.astype(dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(("CHW4", t) for t in (trt.float16, trt.int8)),
        *(("CHW32", t) for t in (trt.float32, trt.float16, trt.int8)),
        *((name, trt.float16) for name in ("CHW2", "HWC8", "CHW16", "HWC", "HWC16")),
        ("HWC", trt.float32),
        ("DHWC8", trt.float16),
        ("CDHW32", trt.float16),
        ("DHWC", trt.float32),
    ],
)
@pytest.mark.parametrize("channels", [3, 33])
def test_a_plugin_receives_memory_in_its_format(name, dtype, channels, registry, log):
    make = partial(ByChannel, trt.TensorFormat[name])
    register(registry, make)
    shape = (2, channels, 2, 3, 4) if "D" in name else (2, channels, 3, 4)
    x = np.random.default_rng(0).integers(0, 4, shape).astype(trt.nptype(dtype))
    with trt.strict():
        result = built(log, one(make), shape, dtype=dtype, strong=True).run(x=x)["y"]
    factors = np.arange(1, channels + 1).reshape(-1, *[1] * (x.ndim - 2)).astype(x.dtype)
    assert np.array_equal(result, x * factors)


def test_a_vectorized_format_supports_dynamic_shapes(registry, log):
    make = partial(ByChannel, trt.TensorFormat.CHW32)
    register(registry, make)

    def describe(network, x):
        y = network.add_unary(x, trt.UnaryOperation.NEG).get_output(0)
        return network.add_unary(one(make)(network, y), trt.UnaryOperation.ABS).get_output(0)

    engine = built(log, describe, (1, 1, 1, 1), (2, 5, 4, 4), (2, 40, 4, 4))
    for shape in ((2, 40, 3, 1), (1, 1, 1, 1), (2, 33, 4, 4)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        want = abs(x) * np.arange(1, shape[1] + 1, dtype=np.float32).reshape(-1, 1, 1)
        assert np.array_equal(engine.run(x=x)["y"], want)


class Slow(Base):
    """Adds the number of its tactic, of which 7 is the fastest; counts the calls of each."""

    ran = ()

    def get_valid_tactics(self):
        return [3, 7, 9]

    def set_tactic(self, tactic):
        self.tactic = tactic

    def compute(self, x, y):
        Slow.ran += (self.tactic,)
        time.sleep(0 if self.tactic == 7 else 0.02)
        y[...] = x + self.tactic


@pytest.mark.parametrize("timing_id", ["", "slow of 12"])
def test_the_fastest_tactic_is_selected_and_cached_by_its_timing_id(timing_id, registry, log):
    def make():
        plugin = Slow()
        plugin.timing_cache_id = timing_id
        return plugin

    register(registry, make)
    builder, counts = trt.Builder(log), []
    cache = builder.create_builder_config().create_timing_cache(b"")
    for _ in range(2):
        network, config = builder.create_network(), builder.create_builder_config()
        config.set_timing_cache(cache, False)
        x = network.add_input("x", trt.float32, (3, 4))
        y = network.add_plugin_v3([x], [], make()).get_output(0)
        network.mark_output(y)
        y.name, Slow.ran = "y", ()
        engine = builder.build_engine_with_config(network, config)
        counts.append(len(Slow.ran))
        assert engine.run(x=np.zeros((3, 4), np.float32))["y"].max() == 7
    assert counts == ([9, 0] if timing_id else [9, 9])


class Tiled(Base):
    """x, tiled along each axis by the elements of the shape input."""

    def get_output_shapes(self, inputs, shape_inputs, builder):
        product = trt.DimensionOperation.PROD
        assert [len(s) for s in shape_inputs] == [2]
        pairs = zip(inputs[0], shape_inputs[0], strict=True)
        return [trt.DimsExprs([builder.operation(product, *p) for p in pairs])]

    def compute(self, x, y):
        y[...] = np.tile(x, np.array(y.shape) // np.maximum(x.shape, 1))


def test_a_shape_input_determines_the_shape_of_an_output(registry, log):
    register(registry, Tiled)
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    x, times = network.add_input("x", trt.float32, (2, 3)), network.add_input("times", trt.int64, (2,))
    profile = builder.create_optimization_profile()
    profile.set_shape_input("times", (0, 1), (2, 2), (4, 5))
    config.add_optimization_profile(profile)
    y = network.add_plugin_v3([x], [times], Tiled()).get_output(0)
    y.name = "y"
    network.mark_output(y)
    engine = builder.build_engine_with_config(network, config)
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    for reps in ((2, 2), (4, 5), (0, 3), (1, 1)):
        assert np.array_equal(engine.run(x=x, times=np.int64(reps))["y"], np.tile(x, reps))


def test_a_constant_shape_input_results_in_a_static_shape(registry, log):
    register(registry, Tiled)

    def describe(network, x):
        times = network.add_constant((2,), np.int32([3, 2])).get_output(0)
        y = network.add_plugin_v3([x], [times], Tiled()).get_output(0)
        assert tuple(y.shape) == (6, 4)
        return y

    x = np.float32([[1, 2], [3, 4]])
    assert np.array_equal(built(log, describe, (2, 2)).run(x=x)["y"], np.tile(x, (3, 2)))


class Table(trt.IPluginResource):
    """A table that plug-ins share; `alive` counts its copies."""

    alive = 0

    def __init__(self, numbers=None):
        trt.IPluginResource.__init__(self)
        self.numbers = numbers

    def clone(self):
        Table.alive += 1
        return Table(np.float32([10, 20, 30]))

    def release(self):
        Table.alive -= 1


class Looks(Base):
    """The elements of the shared table at indices; acquires the table for each context."""

    table = None

    def attach_to_context(self, context):
        result = self.clone()
        result.table = trt.get_plugin_registry().acquire_plugin_resource("table", Table())
        return result

    def destroy(self):
        if self.table is not None:
            trt.get_plugin_registry().release_plugin_resource("table")
            self.table = None

    def compute(self, x, y):
        y[...] = self.table.numbers[x.astype(int)]


def test_contexts_share_a_resource_and_the_last_one_frees_it(registry, log):
    register(registry, Looks)
    engine = built(log, lambda n, x: one(Looks)(n, one(Looks)(n, x)), (3,))
    assert Table.alive == 0
    contexts = [engine.create_execution_context() for _ in range(2)]
    assert (Table.alive, registry._resources["table"][1]) == (1, 2 * len(contexts))
    contexts.pop()
    assert (Table.alive, registry._resources["table"][1]) == (1, 2)
    contexts.clear()
    assert (Table.alive, "table" in registry._resources) == (0, False)
    with trt.strict(), pytest.raises(PluginError, match="AR823"):
        registry.release_plugin_resource("table")


def test_a_plugin_uses_the_resource_of_its_context(registry, log):
    register(registry, Looks)
    engine = built(log, one(Looks), (3,))
    assert engine.run(x=np.float32([2, 0, 1]))["y"].tolist() == [30, 10, 20]
    assert Table.alive == 1
    del engine
    gc.collect()
    assert Table.alive == 0


class Facts(Base):
    """Four outputs: signs as int8, isfinite as bool, the sum as int64, and x.T / 2 as float16."""

    def __init__(self):
        Base.__init__(self)
        self.num_outputs = 4

    def get_output_data_types(self, input_types):
        return [trt.int8, trt.bool, trt.int64, trt.float16]

    def get_output_shapes(self, inputs, shape_inputs, builder):
        return [inputs[0], inputs[0], trt.DimsExprs(0), trt.DimsExprs([inputs[0][1], inputs[0][0]])]

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        x = at(inputs[0], input_desc[0])
        for desc, address, value in zip(output_desc, outputs, facts(x), strict=True):
            at(address, desc)[...] = value


def facts(x):
    finite = np.isfinite(x)
    return np.sign(x), finite, x[finite].sum(), x.T / 2


def test_outputs_have_different_types_and_shapes(registry, log):
    register(registry, Facts)

    def describe(network, x):
        layer = network.add_plugin_v3([x], [], Facts())
        return [layer.get_output(k) for k in range(4)]

    engine = built(log, describe, (1, 1), (2, 3), (5, 9))
    for shape in ((2, 3), (5, 9), (1, 1)):
        x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.float32)
        actual = engine.run(x=x)
        types = [actual[name].dtype.name for name in ("y", "y1", "y2", "y3")]
        assert types == ["int8", "bool", "int64", "float16"]
        for name, want in zip(("y", "y1", "y2", "y3"), facts(x), strict=True):
            assert np.array_equal(actual[name], want)


class InPlace(Base):
    """x + 1, computed in place."""

    def get_aliased_input(self, output_index):
        return self.state[0]

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        assert inputs[0] == outputs[0]
        y = at(outputs[0], output_desc[0])
        y += 1


def test_a_chain_in_place_does_not_change_inputs(registry, log):
    register(registry, partial(InPlace, 0))

    def chain(network, x):
        return [x := one(partial(InPlace, 0))(network, x) for _ in range(20)][-1]

    engine = built(log, chain, (0, 2), (3, 2), (4, 2))
    for n in (3, 0, 4):
        x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
        before = x.copy()
        assert np.array_equal(engine.run(x=x)["y"], before + 20)
        assert np.array_equal(x, before)


def test_an_alias_of_a_missing_input_is_reported(registry, log):
    register(registry, partial(InPlace, 1))
    with trt.strict(), pytest.raises(PluginError, match=r"AR822.*input 1 from InPlace.get_aliased_input"):
        built(log, one(partial(InPlace, 1)))
