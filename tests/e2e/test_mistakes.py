"""Mistakes of users: a code in the log and in the error recorder and a quiet answer, or an exception."""

import hashlib
import json
import struct

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
    "neither shape nor scales": ("AR107", lambda n: resize(n, (1, 1, 4, 4))),
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


def test_weights_that_are_strided_or_gone_are_refused(net, builder, log):
    with pytest.raises(ValueError, match="AR307"):
        trt.Weights(np.ones((4, 4), np.float32)[:, ::2])
    with pytest.raises(TypeError):
        net.add_constant((2,), np.ones(4, np.float32)[::2])
    lost = trt.Weights(F, 1 << 40, 1024)
    net.mark_output(net.add_constant((1024,), lost).get_output(0))
    assert builder.build_serialized_network(net, builder.create_builder_config()) is None
    assert "AR307" in log.lines[-1]


def test_network_without_outputs_and_with_equal_names(builder, log):
    config = builder.create_builder_config()
    net = builder.create_network()
    assert net.add_input("x", F, (2,)) is not None
    assert net.add_input("x", F, (2,)) is None
    assert builder.build_serialized_network(net, config) is None
    y = net.add_identity(net.get_input(0)).get_output(0)
    y.name = "x"
    net.mark_output(y)
    assert builder.build_serialized_network(net, config) is None
    assert [line[1:6] for line in log.lines] == ["AR402", "AR401", "AR402"]


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
def test_mistake_of_a_run_is_told(code, act, engine, log, recorder):
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
        engine(**arrays)
    assert np.array_equal(engine(x=A)["y"], 2 * A)


# ---- plans --------------------------------------------------------------------------------------------


def sealed(plan, header):
    """The plan with another header and a checksum that fits: preamble, checksum, header, constants."""
    start = -(-(128 + len(header)) // 64) * 64
    old = struct.unpack_from("<QQQQ", plan, 16)
    fields = (len(header), start, old[2], start + old[2])
    preamble = plan[:16] + struct.pack("<QQQQ", *fields) + bytes(16)
    check = hashlib.sha256(preamble + header).digest()
    body = preamble + check + bytes(32) + header
    return body + bytes(start - len(body)) + plan[old[1] :]


def changed(plan, at):
    return plan[:at] + bytes([plan[at] ^ 1]) + plan[at + 1 :]


PLANS = {
    "truncated": ("AR601", lambda p: p[: len(p) // 2]),
    "cut by a byte": ("AR601", lambda p: p[:-1]),
    "empty": ("AR601", lambda p: b""),
    "a byte of the header changed": ("AR602", lambda p: changed(p, 200)),
    "a byte of the constants changed": ("AR602", lambda p: changed(p, len(p) - 1)),
    "a newer format": ("AR603", lambda p: p[:8] + struct.pack("<I", 99) + p[12:]),
    "a header that lies about sizes": ("AR604", lambda p: p[:16] + struct.pack("<Q", 1 << 60) + p[24:]),
    "constants that lie about sizes": ("AR604", lambda p: p[:32] + struct.pack("<Q", 1 << 60) + p[40:]),
    "hostile depth": ("AR605", lambda p: sealed(p, b"[" * 100_000 + b"]" * 100_000)),
    "another document": ("AR605", lambda p: sealed(p, b'{"name": 1}')),
    "another file": ("AR606", lambda p: b"\x7fELF" + p[4:]),
}


@pytest.fixture
def plan(net, plan_of):
    constant = net.add_constant((2, 3), np.ones(6, np.float32)).get_output(0)
    tensor = x(net, -1, 3)
    y = net.add_elementwise(tensor, constant, trt.ElementWiseOperation.SUM).get_output(0)
    return bytes(plan_of(net, y, x=[(1, 3), (2, 3), (2, 3)]))


@pytest.mark.parametrize(("code", "spoil"), PLANS.values(), ids=PLANS)
def test_bad_plan_is_refused(code, spoil, plan, log, recorder):
    runtime = trt.Runtime(log)
    runtime.error_recorder = recorder
    assert runtime.deserialize_cuda_engine(plan) is not None
    assert runtime.deserialize_cuda_engine(spoil(plan)) is None
    assert f"[{code}]" in log.lines[-1]
    assert recorder.errors == [(CODES[code].trt, log.lines[-1])]
    with trt.strict(), pytest.raises(trt.errors.PlanError, match=code):
        runtime.deserialize_cuda_engine(spoil(plan))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("settings", [["threads", "many"]]),
        ("settings", [["threads", "99999"]]),
        ("settings", [["memory_limit", "-"]]),
    ],
)
def test_bad_setting_in_a_plan_is_a_named_error(field, value, plan, log):
    start = struct.unpack_from("<Q", plan, 16)[0]
    header = {**json.loads(plan[128 : 128 + start]), field: value}
    engine = trt.Runtime(log).deserialize_cuda_engine(sealed(plan, json.dumps(header).encode()))
    assert engine is None or engine.create_execution_context() is None
    assert log.lines[-1][1:6] in ("AR605", "AR304")


LIES = {
    "type of an output": ("bindings", lambda v: [v[0], [*v[1][:1], "int8", *v[1][2:]]]),
    "shape of an output": ("bindings", lambda v: [v[0], [*v[1][:2], ["1", "1"], *v[1][3:]]]),
    "an output left out": ("bindings", lambda v: v[:1]),
    "range of a size": ("symbols", lambda v: [[*v[0][:5], 1 << 40]]),
    "a condition left out": ("requirements", lambda v: []),
    "a profile left out": ("profiles", lambda v: []),
}


@pytest.mark.parametrize(("field", "change"), LIES.values(), ids=LIES)
def test_plan_that_contradicts_its_graph_is_refused(field, change, net, plan_of, log):
    a, b = net.add_input("a", F, (-1, 3)), net.add_input("b", F, (2, 3))
    y = net.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0)
    plan = bytes(plan_of(net, y, a=[(1, 3), (2, 3), (2, 3)]))
    header = json.loads(plan[128 : 128 + struct.unpack_from("<Q", plan, 16)[0]])
    header[field] = [*header[field][:-2], *change(header[field][-2:])]
    assert trt.Runtime(log).deserialize_cuda_engine(sealed(plan, json.dumps(header).encode())) is None
    assert "AR607" in log.lines[-1]


def shape_values(net, builder, log, change=lambda details: details):
    """An engine with a shape output, after a change of what its plan says of the output."""
    sizes = net.add_shape(x(net, -1, 3)).get_output(0)
    sizes.name = "s\nt"
    net.mark_output_for_shapes(sizes)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 3), (2, 3), (4, 3))
    config = builder.create_builder_config()
    config.add_optimization_profile(profile)
    plan = bytes(builder.build_serialized_network(net, config))
    header = json.loads(plan[128 : 128 + struct.unpack_from("<Q", plan, 16)[0]])
    header["layers"][0][4] = [[k, change(v) if k == "shape values" else v] for k, v in header["layers"][0][4]]
    return trt.Runtime(log).deserialize_cuda_engine(sealed(plan, json.dumps(header).encode()))


def test_values_of_a_shape_output_are_written_where_they_fit(net, builder, log):
    context = shape_values(net, builder, log).create_execution_context()
    out = np.zeros(2, np.int64)
    assert context.set_tensor_address("s\nt", out)
    assert context.set_input_shape("x", (4, 3))
    assert (context.infer_shapes(), out.tolist()) == ([], [4, 3])


@pytest.mark.parametrize("lie", ["[]", "[1]", '["s\\nt"]', '["s\\nt","1","1","1"]', '["s\\nt","1","q"]', "["])
def test_more_values_than_a_shape_output_has_are_refused(lie, net, builder, log):
    assert shape_values(net, builder, log, lambda _: lie) is None
    assert log.lines[-1][1:6] in ("AR605", "AR607")
