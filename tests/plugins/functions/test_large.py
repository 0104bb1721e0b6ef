"""Plug-ins made from functions: many of them, in loops, several contexts, empty tensors, other processes."""

import ctypes
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from tests.messages import diagnostic

T, D = trtp.Tensor, trtp.TensorDesc
SEEN = []


@trtp.register("large::scaled", lazy_register=True)
def scaled_desc(x: D, factor: float) -> D:
    return x.like()


@trtp.impl("large::scaled")
def scaled_impl(x, factor: float, outputs, stream):
    SEEN.append(x.data_ptr)
    np.multiply(np.asarray(x), factor, out=np.asarray(outputs[0]))


def chain(log, count, **flags):
    """x times 2 to the power of `count`."""
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    for name, value in flags.items():
        setattr(config, name, value)
    t = network.add_input("x", trt.float32, (3,))
    for _ in range(count):
        t = network.add_plugin(trtp.op.large.scaled(t, factor=2.0)).get_output(0)
    t.name = "y"
    network.mark_output(t)
    return builder.build_serialized_network(network, config)


def load(log, plan):
    return trt.Runtime(log).deserialize_cuda_engine(plan)


@pytest.mark.parametrize("count", [1, 2, 50])
def test_a_chain_of_plug_ins_calls_each(log, count):
    SEEN.clear()
    result = load(log, chain(log, count)).run(x=np.ones(3, np.float32))["y"]
    assert (result.tolist(), len(SEEN)) == ([2.0**count] * 3, count)


def test_twice_as_many_plug_ins_take_twice_as_long_to_build(log):
    chain(log, 20)
    took = {}
    for count in (60, 120):
        begin = time.process_time()
        chain(log, count)
        took[count] = time.process_time() - begin
    assert took[120] < 4 * took[60] + 0.2


def test_a_plug_in_works_in_every_iteration_of_a_loop(log):
    builder = trt.Builder(log)
    network = builder.create_network()
    loop = network.add_loop()
    five = network.add_constant((), np.array(5, np.int32)).get_output(0)
    loop.add_trip_limit(five, trt.TripLimit.COUNT)
    state = loop.add_recurrence(network.add_input("x", trt.float32, (2,)))
    turn = network.add_plugin(trtp.op.large.scaled(state.get_output(0), factor=3.0))
    state.set_input(1, turn.get_output(0))
    last = loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)
    last.name = "y"
    network.mark_output(last)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    assert load(log, plan).run(x=np.float32([1, 2]))["y"].tolist() == [243, 486]


def test_contexts_in_threads_have_tensors_of_their_own(log):
    engine, wrong = load(log, chain(log, 3)), {}

    def work(start):
        context = engine.create_execution_context()
        x, y = np.full(3, start, np.float32), np.zeros(3, np.float32)
        context.set_tensor_address("x", x.ctypes.data)
        context.set_tensor_address("y", y.ctypes.data)
        for _ in range(200):
            if not context.execute_async_v3(0) or y.tolist() != [8 * start] * 3:
                wrong[start] = y.copy()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert wrong == {}


def test_an_empty_tensor_is_passed_as_an_empty_array(build):
    @trtp.register("large::doubled", lazy_register=True)
    def doubled(x: D) -> D:
        y = x.like()
        y.shape_expr[0] = y.shape_expr[0] * 2
        return y

    @trtp.impl("large::doubled")
    def doubled_impl(x, outputs, stream):
        SEEN.append((tuple(x.shape), np.asarray(outputs[0]).shape))
        np.asarray(outputs[0])[:] = np.concatenate([np.asarray(x)] * 2)

    engine = build(lambda x: trtp.op.large.doubled(x), least=0, x=(-1, 2))
    assert engine.run(x=np.zeros((0, 2), np.float32))["y0"].shape == (0, 2)
    assert engine.run(x=np.ones((2, 2), np.float32))["y0"].tolist() == [[1, 1]] * 4


def test_a_plan_with_unregistered_functions_raises_ar823(log, tmp_path):
    (tmp_path / "plan").write_bytes(bytes(chain(log, 1)))
    program = f"""
import pathlib, anyrt as trt
trt.Runtime(trt.Logger()).deserialize_cuda_engine(pathlib.Path({str(tmp_path / "plan")!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "[AR823]" in done.stdout
    assert "'scaled', version '1', namespace 'large'" in done.stdout


def test_annotations_as_text_are_evaluated(build):
    def described(x: "D", n: "int") -> "trtp.TensorDesc":
        return x.like()

    trtp.register("large::text", lazy_register=True)(described)

    @trtp.impl("large::text")
    def computed(x: "T", n: "int", outputs: "tuple[T, ...]", stream: "int") -> None:
        np.asarray(outputs[0])[:] = n

    assert build(lambda x: trtp.op.large.text(x, n=3), x=(1,)).run(x=np.zeros(1, np.float32))["y0"] == 3


def test_an_array_of_the_tensor_writes_to_its_memory(build):
    @trtp.register("large::packed", lazy_register=True)
    def packed(x: D) -> D:
        return x.like()

    @trtp.impl("large::packed")
    def packed_impl(x, outputs, stream):
        np.from_dlpack(outputs[0])[:] = np.array(x, copy=True) + 1
        SEEN[:] = [np.asarray(x, np.float64).dtype, x.ndim, x.numel(), np.asarray(x).flags.writeable]

    engine = build(lambda x: trtp.op.large.packed(x), x=(2, 3))
    assert np.array_equal(engine.run(x=np.ones((2, 3), np.float32))["y0"], np.full((2, 3), 2))
    assert [np.float64, 2, 6, False] == SEEN


def test_a_new_shape_in_the_same_memory_is_passed_on(build):
    engine = build(lambda x: trtp.op.large.scaled(x, factor=2.0), x=(-1, -1))
    context, x, y = engine.create_execution_context(), np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y0", y.ctypes.data)
    for shape in [(2, 3), (3, 2), (1, 4), (6, 1)]:
        y[:] = -1
        context.set_input_shape("x", shape)
        assert context.execute_async_v3(0)
        count = shape[0] * shape[1]
        assert y.tolist() == [*(2.0 * k for k in range(count)), *[-1] * (6 - count)]


@trtp.register("large::beyond", lazy_register=True)
def beyond_desc(x: D) -> D:
    return x.like()


@trtp.impl("large::beyond")
def beyond_impl(x, outputs, stream):
    ctypes.memset(outputs[0].data_ptr, 1, 4 * outputs[0].numel() + 4)


def test_a_checked_build_reports_a_write_behind_an_output(build):
    engine = build(lambda x: trtp.op.large.beyond(x), settings={"checked": True}, x=(4,))
    with pytest.raises(trt.errors.PluginError, match=diagnostic("AR825", 4, 0, 16, "Quick.enqueue")):
        engine.run(x=np.zeros(4, np.float32))


@pytest.mark.parametrize(
    "settings", [{"checked": True}, {"verify": "full"}, {"builder_optimization_level": 5}]
)
def test_build_settings_do_not_change_the_result(build, rng, settings):
    x = rng.standard_normal((5, 3), np.float32)
    engine = build(lambda x: trtp.op.large.scaled(x, factor=3.0), settings=settings, x=(-1, 3))
    assert np.array_equal(engine.run(x=x)["y0"], x * 3)


def test_functions_without_kernels_load_no_compiler():
    program = "import sys, anyrt.plugin; print([m for m in sys.modules if 'llvm' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
