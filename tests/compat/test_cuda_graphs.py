"""CUDA graphs: calls on a captured stream are recorded, and repeated at each launch."""

import ctypes

import numpy as np
import pytest

import anyrt as trt
from anyrt.compat.ctypes import libcudart
from anyrt.compat.cuda import driver, runtime
from anyrt.compat.cuda.runtime import cudaError_t, cudaMemcpyKind, cudaStreamCaptureStatus
from anyrt.core.errors import NotSupportedError
from tests.messages import diagnostic

OK = (cudaError_t.cudaSuccess,)


@pytest.fixture
def stream():
    return runtime.cudaStreamCreate()[1]


@pytest.fixture(scope="module")
def engine():
    """y = 2 x for vectors of 1 to 8 elements."""
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (-1,))
    y = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    y.name = "y"
    network.mark_output(y)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1,), (4,), (8,))
    config.add_optimization_profile(profile)
    return trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))


def set_to(context, x, y):
    context.set_input_shape("x", x.shape)
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)


def captured(stream, work):
    """The executable graph of the calls that `work` makes on the stream."""
    assert runtime.cudaStreamBeginCapture(stream, 0) == OK
    assert work()
    return runtime.cudaGraphInstantiate(runtime.cudaStreamEndCapture(stream)[1], 0)[1]


def test_each_launch_copies_and_runs_what_was_captured(engine, stream):
    context, there, y = engine.create_execution_context(), runtime.cudaMalloc(16)[1], np.zeros(4, np.float32)
    x = np.ctypeslib.as_array((ctypes.c_float * 4).from_address(there))
    set_to(context, x, y)
    host, kind = np.zeros(4, np.float32), cudaMemcpyKind.cudaMemcpyHostToDevice

    def work():
        copied = runtime.cudaMemcpyAsync(there, host, 16, kind, stream)
        return copied == OK and context.execute_async_v3(stream)

    graph, before, seen = captured(stream, work), y.tolist(), []
    for host[:] in (1, 5):
        seen += [runtime.cudaGraphLaunch(graph, stream), y.tolist()]
    assert (before, seen) == ([0] * 4, [OK, [2] * 4, OK, [10] * 4])


def test_graph_keeps_shapes_and_addresses_that_its_context_had(engine, stream):
    context = engine.create_execution_context()
    (x, y), other = np.ones((2, 3), np.float32), np.full((2, 8), 7, np.float32)
    set_to(context, x, y)
    graph = captured(stream, lambda: context.execute_async_v3(stream))
    set_to(context, *other)
    x[:] = 4
    assert runtime.cudaGraphLaunch(graph, stream) == OK
    assert (y.tolist(), other.min()) == ([8] * 3, 7)
    assert context.execute_async_v3(stream)
    assert other[1].tolist() == [14] * 8


def test_other_streams_run_at_once_unless_they_wait_for_the_captured_one(engine, stream):
    context, (_, other), (_, event) = (
        engine.create_execution_context(),
        runtime.cudaStreamCreate(),
        runtime.cudaEventCreate(),
    )
    x, y = np.ones((2, 2), np.float32)
    set_to(context, x, y)
    runtime.cudaStreamBeginCapture(stream, 0)
    seen = [context.execute_async_v3(other), y.tolist()]
    assert runtime.cudaEventRecord(event, stream) == runtime.cudaStreamWaitEvent(other, event, 0) == OK
    x[:] = 3
    seen += [context.execute_async_v3(other), y.tolist()]
    _, graph = runtime.cudaStreamEndCapture(stream)
    seen += [runtime.cudaGraphLaunch(graph, stream), y.tolist(), runtime.cudaStreamIsCapturing(other)[1]]
    none = cudaStreamCaptureStatus.cudaStreamCaptureStatusNone
    assert seen == [True, [2] * 2, True, [2] * 2, OK, [6] * 2, none]


def test_mistakes_of_captures_have_codes(stream):
    assert runtime.cudaStreamEndCapture(stream) == (cudaError_t.cudaErrorStreamCaptureUnmatched, None)
    assert runtime.cudaStreamBeginCapture(0, 0) == (cudaError_t.cudaErrorInvalidValue,)
    assert runtime.cudaStreamBeginCapture(stream, 7) == (cudaError_t.cudaErrorInvalidValue,)
    assert runtime.cudaStreamBeginCapture(stream, 1) == OK
    assert runtime.cudaStreamIsCapturing(stream)[1].name == "cudaStreamCaptureStatusActive"
    for call in (lambda: runtime.cudaStreamBeginCapture(stream, 0), lambda: runtime.cudaStreamQuery(stream)):
        assert call() == (cudaError_t.cudaErrorStreamCaptureUnsupported,)
    _, graph = runtime.cudaStreamEndCapture(stream)
    assert runtime.cudaGraphDestroy(graph) == runtime.cudaStreamSynchronize(stream) == OK
    assert runtime.cudaGraphLaunch(graph, stream) == (cudaError_t.cudaErrorInvalidValue,)


def test_run_without_an_address_or_a_shape_is_not_captured(engine, stream):
    context = engine.create_execution_context()
    runtime.cudaStreamBeginCapture(stream, 0)
    assert not context.execute_async_v3(stream)
    context.set_output_allocator("y", trt.IOutputAllocator())
    context.set_tensor_address("x", np.ones(2, np.float32))
    with pytest.raises(
        NotSupportedError, match=diagnostic("AR901", "stream capture", "y", "set_tensor_address")
    ):
        context.execute_async_v3(stream)
    assert runtime.cudaGraphUpload(runtime.cudaStreamEndCapture(stream)[1], stream) == OK


def test_graph_that_is_updated_does_what_the_other_does(stream):
    there = runtime.cudaMalloc(4)[1]
    one, two = (captured(stream, lambda n=n: runtime.cudaMemsetAsync(there, n, 4, stream)) for n in (1, 2))
    err, reported = runtime.cudaGraphExecUpdate(one, two)
    assert ((err,), reported.result.name) == (OK, "cudaGraphExecUpdateSuccess")
    runtime.cudaGraphLaunch(one, stream)
    assert ctypes.string_at(there, 4) == b"\2" * 4


def test_graph_may_be_part_of_another(stream):
    there = runtime.cudaMalloc(4)[1]
    inner = captured(stream, lambda: runtime.cudaMemsetAsync(there, 3, 4, stream))
    outer = captured(stream, lambda: runtime.cudaGraphLaunch(inner, stream))
    runtime.cudaMemset(there, 0, 4)
    runtime.cudaGraphLaunch(outer, stream)
    assert ctypes.string_at(there, 4) == b"\3" * 4


def test_driver_captures_as_the_runtime_does():
    (_, there), (_, stream) = driver.cuMemAlloc(2), driver.cuStreamCreate(0)
    driver.cuMemsetD8(there, 0, 2)
    driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    driver.cuMemsetD8Async(there, 9, 2, stream)
    assert driver.cuStreamIsCapturing(stream)[1].name == "CU_STREAM_CAPTURE_STATUS_ACTIVE"
    _, graph = driver.cuStreamEndCapture(stream)
    _, ready = driver.cuGraphInstantiate(graph, 0)
    assert ctypes.string_at(int(there), 2) == b"\0\0"
    assert driver.cuGraphLaunch(ready, stream)[0] is driver.CUresult.CUDA_SUCCESS
    assert ctypes.string_at(int(there), 2) == b"\t\t"


def test_c_functions_capture():
    there, (_, stream) = runtime.cudaMalloc(2)[1], runtime.cudaStreamCreate()
    graph, ready, active = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(-1)
    names = ("StreamBeginCapture", "StreamIsCapturing", "StreamEndCapture", "GraphInstantiate")
    c = {
        n: libcudart.function(f"cuda{n}") for n in (*names, "GraphLaunch", "MemsetAsync", "GraphExecDestroy")
    }
    codes = [
        c["StreamBeginCapture"](int(stream), 0),
        c["StreamIsCapturing"](int(stream), ctypes.byref(active)),
        c["MemsetAsync"](there, 7, 2, int(stream)),
        c["StreamEndCapture"](int(stream), ctypes.byref(graph)),
        c["GraphInstantiate"](ctypes.byref(ready), graph, 0),
        c["GraphLaunch"](ready, int(stream)),
        c["GraphExecDestroy"](ready),
    ]
    assert (codes, active.value, ctypes.string_at(there, 2)) == ([0] * 7, 1, b"\7\7")
