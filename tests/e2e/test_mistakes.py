"""Users' mistakes: a code in the log and in the error recorder and a sentinel return value, or an
exception."""

import gc
import mmap

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.codes import CODES

F, ONE = trt.float32, np.ones(1, np.float32)


def x(net, *shape, dtype=F):
    return net.add_input("x", dtype, shape)


def scale(net, shape, **weights):
    return net.add_scale(x(net, *shape), trt.ScaleMode.CHANNEL, **weights)


def shuffle(net, shape, dims=None, first=None):
    layer = net.add_shuffle(x(net, *shape))
    if first:
        layer.first_transpose = first
    if dims:
        layer.reshape_dims = dims
    return layer


def resize(net, shape, to=None, mode=trt.InterpolationMode.LINEAR):
    layer = net.add_resize(x(net, *shape))
    layer.resize_mode = mode
    if to:
        layer.shape = to
    return layer


def normalization(net, axes, groups=1):
    other = [net.add_input(n, F, (1, 6 if groups == 1 else groups, 1, 1)) for n in "ab"]
    layer = net.add_normalization(x(net, 2, 6, 3, 3), *other, axes)
    layer.num_groups = groups
    return layer


MIXED = {"scale": np.ones(3, np.float32), "shift": np.ones(3, np.float16)}
BUILDS = {
    "rank below 4 for Scale": ("AR101", lambda n: scale(n, (3, 4, 5), scale=np.ones(3, np.float32))),
    "wrong coefficient count": ("AR102", lambda n: scale(n, (1, 3, 4, 5), scale=np.ones(4, np.float32))),
    "mixed weight types": ("AR201", lambda n: scale(n, (1, 3, 4, 5), **MIXED)),
    "bad permutation": ("AR301", lambda n: shuffle(n, (2, 3), first=(0, 0))),
    "volume mismatch": ("AR103", lambda n: shuffle(n, (2, 3), (2, 4))),
    "two -1": ("AR104", lambda n: shuffle(n, (2, 3), (-1, -1))),
    "-1 with zero volume": ("AR105", lambda n: shuffle(n, (2, 0), (-1, 0))),
    "0 out of range": ("AR106", lambda n: shuffle(n, (2, 3), (2, 3, 0))),
    "too many resized axes": ("AR109", lambda n: resize(n, (2, 2, 4, 4, 4), (3, 3, 3, 3, 3))),
    "too many for CUBIC": (
        "AR109",
        lambda n: resize(n, (2, 2, 4, 4, 4), (2, 2, 3, 3, 3), trt.InterpolationMode.CUBIC),
    ),
    "groups that do not divide": ("AR118", lambda n: normalization(n, 0b1100, 4)),
    "axes mask that misses": ("AR302", lambda n: normalization(n, 1 << 4)),
    "axes mask without axes": ("AR302", lambda n: normalization(n, 0)),
    "ranks that differ": (
        "AR122",
        lambda n: n.add_elementwise(x(n, 2), n.add_input("z", F, (2, 2)), trt.ElementWiseOperation.SUM),
    ),
    "types that differ": (
        "AR203",
        lambda n: n.add_elementwise(x(n, 2), n.add_input("z", trt.int32, (2,)), trt.ElementWiseOperation.SUM),
    ),
    "axis outside the rank": ("AR302", lambda n: n.add_reduce(x(n, 2), trt.ReduceOperation.SUM, 2, True)),
    "squeezed dimension": (
        "AR116",
        lambda n: n.add_squeeze(x(n, 2, 3), n.add_constant((1,), np.int32([0])).get_output(0)),
    ),
    "too many elements": ("AR111", lambda n: resize(n, (1, 1, 64, 64), (1, 1, 65536, 65536))),
}


@pytest.mark.parametrize(("code", "add"), BUILDS.values(), ids=BUILDS)
def test_mistake_in_a_layer_is_found_at_the_build(code, add, builder, log, recorder):
    net = builder.create_network()
    net.mark_output(add(net).get_output(0))
    log.lines.clear()
    recorder.errors.clear()
    assert builder.build_serialized_network(net, builder.create_builder_config()) is None
    assert f"[{code}]" in log.lines[-1]
    assert recorder.errors[-1] == (CODES[code].trt, log.lines[-1])


@pytest.mark.parametrize(("code", "add"), BUILDS.values(), ids=BUILDS)
def test_mistake_in_a_layer_is_raised_under_strict(code, add, builder):
    def build():
        net = builder.create_network()
        net.mark_output(add(net).get_output(0))
        builder.build_serialized_network(net, builder.create_builder_config())

    with trt.strict(), pytest.raises(trt.errors.AnyrtError) as raised:
        build()
    assert (raised.value.code, bool(raised.value.where)) == (code, True)


def test_mistake_names_the_line_of_the_program(net, log):
    layer = net.add_scale(x(net, 3, 4, 5), trt.ScaleMode.UNIFORM)
    assert layer.get_output(0).shape.rank == -1
    assert "test_mistakes.py:" in log.lines[0]


def test_nine_dimensions_are_a_value_error(net):
    with pytest.raises(ValueError, match="8"):
        net.add_input("x", F, (1,) * 9)


def test_strided_weights_are_rejected_at_once(net):
    with pytest.raises(ValueError, match="AR307"):
        trt.Weights(np.ones((4, 4), np.float32)[:, ::2])
    with pytest.raises(TypeError):
        net.add_constant((2,), np.ones(4, np.float32)[::2])


COUNT = 1 << 20


def unmapped():
    """Weights in memory that has been unmapped since."""
    memory = mmap.mmap(-1, 4 * COUNT)
    weights = trt.Weights(F, np.frombuffer(memory, np.float32).ctypes.data, COUNT)
    gc.collect()
    memory.close()
    return weights


def constant(n, weights):
    n.mark_output(n.add_constant((COUNT,), weights).get_output(0))


def twice(n, c):
    """An output with the name of an input."""
    y = n.add_identity(x(n, 2)).get_output(0)
    y.name = "x"
    n.mark_output(y)


def beyond(n, c):
    """Sums that four taps read each, so that they are stored: 64 KB."""
    layer = n.add_resize(n.add_reduce(x(n, 128, 128, 64), trt.ReduceOperation.SUM, 4, False).get_output(0))
    layer.resize_mode, layer.scales = trt.InterpolationMode.CUBIC, (1.5, 1.5)
    n.mark_output(layer.get_output(0))
    c.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 12)


def unranged(n, c):
    n.mark_output(n.add_identity(x(n, -1)).get_output(0))
    c.add_optimization_profile(n.builder.create_optimization_profile())


NETWORKS = {
    "output not marked": ("AR401", lambda n, c: x(n, 2)),
    "duplicate names": ("AR402", twice),
    "weights at an address of nothing": ("AR307", lambda n, c: constant(n, trt.Weights(F, 1 << 40, COUNT))),
    "weights freed": ("AR307", lambda n, c: constant(n, unmapped())),
    "coefficients freed": (
        "AR307",
        lambda n, c: n.mark_output(scale(n, (1, COUNT, 1, 1), scale=unmapped()).get_output(0)),
    ),
    "memory limit exceeded": ("AR801", beyond),
    "no range in the profile": ("AR501", unranged),
}


@pytest.mark.parametrize(("code", "describe"), NETWORKS.values(), ids=NETWORKS)
def test_mistake_in_a_network_is_found_at_the_build(code, describe, net, builder, log, recorder):
    config = builder.create_builder_config()
    describe(net, config)
    assert builder.build_serialized_network(net, config) is None
    assert f"[{code}]" in log.lines[-1]
    assert recorder.errors[-1] == (CODES[code].trt, log.lines[-1])
    assert builder.build_engine_with_config(net, config) is None
    with trt.strict(), pytest.raises(trt.errors.AnyrtError, match=code):
        builder.build_serialized_network(net, config)


def test_second_input_of_a_name_is_rejected_at_once(net, builder, log, recorder):
    assert net.add_input("x", F, (2,)) is not None
    assert net.add_input("x", F, (2,)) is None
    assert "[AR402]" in log.lines[-1]
    assert recorder.errors == [(CODES["AR402"].trt, log.lines[-1])]
    with trt.strict(), pytest.raises(trt.errors.GraphError, match="AR402"):
        net.add_input("x", F, (2,))


# ---- running ------------------------------------------------------------------------------------------


@pytest.fixture
def engine(net, engine_of):
    """y = x + x for 1 to 4 rows of three."""
    tensor = x(net, -1, 3)
    y = net.add_elementwise(tensor, tensor, trt.ElementWiseOperation.SUM).get_output(0)
    return engine_of(net, y, x=[(1, 3), (2, 3), (4, 3)])


A = np.ones((2, 3), np.float32)
RUNS = {
    "outside the profile": ("AR505", lambda c: c.set_input_shape("x", (5, 3))),
    "another fixed size": ("AR123", lambda c: c.set_input_shape("x", (2, 4))),
    "another rank": ("AR122", lambda c: c.set_input_shape("x", (2,))),
    "shape of an output": ("AR706", lambda c: c.set_input_shape("y", (2, 3))),
    "unknown name": ("AR706", lambda c: c.set_tensor_address("z", 64)),
    "no shape": ("AR707", lambda c: c.execute_async_v3(0)),
    "no address": ("AR701", lambda c: c.set_input_shape("x", A.shape) and c.execute_async_v3(0)),
    "address 0": (
        "AR702",
        lambda c: (
            c.set_input_shape("x", A.shape)
            and c.set_tensor_address("x", 0)
            and c.set_tensor_address("y", A)
            and c.execute_async_v3(0)
        ),
    ),
    "negative address": ("AR705", lambda c: c.set_tensor_address("x", -64)),
    "array of another type": ("AR703", lambda c: c.set_tensor_address("x", A.astype(np.float64))),
    "strided array": ("AR705", lambda c: c.set_tensor_address("x", np.ones((2, 6), np.float32)[:, ::2])),
    "array of another size": (
        "AR704",
        lambda c: (
            c.set_input_shape("x", A.shape)
            and c.set_tensor_address("x", A)
            and c.set_tensor_address("y", np.ones((1, 3), np.float32))
            and c.execute_async_v3(0)
        ),
    ),
    "a number that is no address": ("AR703", lambda c: c.set_tensor_address("x", 1.5)),
    "no array": ("AR703", lambda c: c.set_tensor_address("x", "text")),
    "too few addresses": ("AR701", lambda c: c.execute_v2([1])),
}


@pytest.mark.parametrize(("code", "act"), RUNS.values(), ids=RUNS)
def test_mistake_of_an_inference_is_reported(code, act, engine, log, recorder):
    context = engine.create_execution_context()
    context.error_recorder = recorder
    assert act(context) is False
    assert f"[{code}]" in log.lines[-1]
    assert recorder.errors[-1] == (CODES[code].trt, log.lines[-1])
    with trt.strict(), pytest.raises(trt.errors.AnyrtError, match=code):
        act(engine.create_execution_context())


CALLS = {
    "AR703": {"x": A.astype(np.float64)},
    "AR701": {},
    "AR706": {"x": A, "z": A},
    "AR505": {"x": np.ones((9, 3), np.float32)},
    "AR122": {"x": np.ones(3, np.float32)},
}


@pytest.mark.parametrize(("code", "arrays"), CALLS.items(), ids=CALLS)
def test_mistake_of_a_call_is_raised(code, arrays, engine):
    with pytest.raises(trt.errors.AnyrtError, match=code):
        engine.run(**arrays)
    assert np.array_equal(engine.run(x=A)["y"], 2 * A)


def test_padding_that_takes_more_than_there_is_names_its_layer_at_the_call():
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    net, config = builder.create_network(), builder.create_builder_config()
    layer = net.add_padding_nd(x(net, 1, 1, -1, 3), (-2, 0), (-1, 0))
    layer.name = "crop"
    net.mark_output(layer.get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 1, 1, 3), (1, 1, 4, 3), (1, 1, 8, 3))
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(net, config)
    with pytest.raises(trt.errors.ShapeError, match=r"\[AR120\] crop"):
        engine.run(x=np.ones((1, 1, 2, 3), np.float32))
