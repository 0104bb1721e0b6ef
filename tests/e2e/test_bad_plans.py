"""Damaged and malicious plans: an error code in the log and in the error recorder, and no engine."""

import hashlib
import json
import re
import struct

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.codes import CODES
from tests.messages import diagnostic

F = trt.float32


def x(net, *shape, dtype=F):
    return net.add_input("x", dtype, shape)


def sealed(plan, header):
    """The plan with another header and a valid checksum: preamble, checksum, header, constants."""
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
def test_bad_plan_is_rejected(code, spoil, plan, log, recorder):
    runtime = trt.Runtime(log)
    runtime.error_recorder = recorder
    assert runtime.deserialize_cuda_engine(plan) is not None
    assert runtime.deserialize_cuda_engine(spoil(plan)) is None
    assert f"[{code}]" in log.lines[-1]
    assert recorder.errors == [(CODES[code].trt, log.lines[-1])]
    with trt.strict(), pytest.raises(trt.errors.PlanError, match=code):
        runtime.deserialize_cuda_engine(spoil(plan))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_an_empty_array_is_no_plan(shape, log):
    assert trt.Runtime(log).deserialize_cuda_engine(np.zeros(shape, np.uint8)) is None
    assert "AR807" not in log.lines[-1]


def test_plan_with_any_byte_changed_or_cut_at_any_length_is_rejected(plan, log):
    runtime = trt.Runtime(log)
    for at in range(len(plan)):
        assert runtime.deserialize_cuda_engine(changed(plan, at)) is None, at
        assert runtime.deserialize_cuda_engine(plan[:at]) is None, at
    assert {line[1:6] for line in log.lines} <= {f"AR60{n}" for n in range(1, 7)}
    assert len(log.lines) == 2 * len(plan)


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
def test_plan_that_contradicts_its_graph_is_rejected(field, change, net, plan_of, log):
    a, b = net.add_input("a", F, (-1, 3)), net.add_input("b", F, (2, 3))
    y = net.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0)
    plan = bytes(plan_of(net, y, a=[(1, 3), (2, 3), (2, 3)]))
    header = json.loads(plan[128 : 128 + struct.unpack_from("<Q", plan, 16)[0]])
    header[field] = [*header[field][:-2], *change(header[field][-2:])]
    assert trt.Runtime(log).deserialize_cuda_engine(sealed(plan, json.dumps(header).encode())) is None
    assert "AR607" in log.lines[-1]


@pytest.mark.parametrize(("format", "code"), [("HWC", "AR607"), ("CHW4", "AR605"), ("DHWC", "AR607")])
def test_plan_with_another_format_than_its_graph_is_rejected(format, code, net, plan_of, log):
    plan = bytes(plan_of(net, net.add_identity(x(net, 1, 2, 3, 4)).get_output(0)))
    header = json.loads(plan[128 : 128 + struct.unpack_from("<Q", plan, 16)[0]])
    header["bindings"][0][6] = format
    assert trt.Runtime(log).deserialize_cuda_engine(sealed(plan, json.dumps(header).encode())) is None
    assert log.lines[-1].startswith((f"[{code}] bindings[0][6]", f"[{code}] plan, binding 'x'"))


def test_plan_that_hides_an_update_is_rejected(net, plan_of, log):
    cache, new = net.add_input("cache", F, (1, 1, 4, 2)), net.add_input("new", F, (1, 1, 1, 2))
    at = net.add_input("at", trt.int32, (1,))
    y = net.add_kv_cache_update(cache, new, at, trt.KVCacheMode.LINEAR).get_output(0)
    plan = bytes(plan_of(net, y))
    header = json.loads(plan[128 : 128 + struct.unpack_from("<Q", plan, 16)[0]])
    header["layers"][0][4] = [[k, v] for k, v in header["layers"][0][4] if v != "cache"]
    assert trt.Runtime(log).deserialize_cuda_engine(sealed(plan, json.dumps(header).encode())) is None
    assert re.search(diagnostic("AR607", "plan, layers", "y", "cache"), log.lines[-1])


def shape_values(net, builder, log, change=lambda details: details):
    """An engine with a shape output, after a change of the output's entry in the plan."""
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
def test_more_values_than_a_shape_output_has_are_rejected(lie, net, builder, log):
    assert shape_values(net, builder, log, lambda _: lie) is None
    assert log.lines[-1][1:6] in ("AR605", "AR607")
