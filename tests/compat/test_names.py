"""Every function of the stand-ins has its documented effect; `test_numbers.py` tests the numbers."""

import ctypes

import numpy as np
import pytest

from anyrt.compat.cuda import driver, nvrtc, runtime
from anyrt.compat.host import device as host
from anyrt.compat.pycuda import autoinit, gpuarray
from anyrt.compat.pycuda import driver as pycuda

OK, GOOD = runtime.cudaError_t.cudaSuccess, driver.CUresult.CUDA_SUCCESS
GONE = runtime.cudaError_t.cudaErrorInvalidResourceHandle
NO_HANDLE = driver.CUresult.CUDA_ERROR_INVALID_HANDLE
NO_DEVICE = driver.CUresult.CUDA_ERROR_INVALID_DEVICE


# ---- the driver --------------------------------------------------------------------------------------------


def test_driver_fills_bytes_and_words():
    _, pointer = driver.cuMemAlloc(8)
    assert driver.cuMemsetD8(pointer, 0x1FF, 8) == (GOOD,)
    assert driver.cuMemsetD8Async(pointer, 7, 2, driver.CUstream(0)) == (GOOD,)
    assert ctypes.string_at(int(pointer), 8) == b"\7\7" + b"\xff" * 6
    assert driver.cuMemsetD8(pointer, 0, 9) == (driver.CUresult.CUDA_ERROR_INVALID_VALUE,)


def test_driver_copies_in_any_direction_when_none_is_named():
    _, pointer = driver.cuMemAlloc(4)
    back = bytearray(4)
    assert driver.cuMemcpy(pointer, b"abcd", 4) == driver.cuMemcpy(back, pointer, 4) == (GOOD,)
    assert back == b"abcd"
    assert driver.cuMemcpy(b"abcd", pointer, 4) == (driver.CUresult.CUDA_ERROR_INVALID_VALUE,)


@pytest.mark.parametrize("copy", [driver.cuMemcpyHtoDAsync, driver.cuMemcpyHtoD])
def test_driver_copies_to_the_device_and_onwards(copy):
    (_, a), (_, b) = driver.cuMemAlloc(2), driver.cuMemAlloc(2)
    assert copy(a, b"xy", 2, 0) == driver.cuMemcpyDtoDAsync(b, a, 2, 0) == (GOOD,)
    assert ctypes.string_at(int(b), 2) == b"xy"


@pytest.mark.parametrize("allocate", [driver.cuMemAllocHost, driver.cuMemHostAlloc])
def test_driver_gives_host_memory_that_only_its_own_function_frees(allocate):
    _, address = allocate(16)
    ctypes.memset(address, 1, 16)
    assert driver.cuMemFree(address) == (driver.CUresult.CUDA_ERROR_INVALID_VALUE,)
    assert driver.cuMemFreeHost(address) == (GOOD,)
    assert driver.cuMemFreeHost(address) == (driver.CUresult.CUDA_ERROR_INVALID_VALUE,)


def test_driver_allocates_and_frees_on_streams_that_exist():
    assert driver.cuMemAllocAsync(8, driver.CUstream(0x77)) == (NO_HANDLE, None)
    _, pointer = driver.cuMemAllocAsync(8, driver.CUstream(0))
    assert driver.cuMemFreeAsync(pointer, driver.CUstream(0x77)) == (NO_HANDLE,)
    assert driver.cuMemFreeAsync(pointer, driver.CUstream(driver.CU_STREAM_LEGACY)) == (GOOD,)
    assert driver.cuMemFreeAsync(pointer, None) == (driver.CUresult.CUDA_ERROR_INVALID_VALUE,)


def test_streams_of_the_driver_are_done_until_they_are_gone():
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    _, event = driver.cuEventCreate(0)
    assert driver.cuStreamQuery(stream) == driver.cuStreamWaitEvent(stream, event, 0) == (GOOD,)
    assert driver.cuStreamDestroy(stream) == (GOOD,)
    assert driver.cuStreamQuery(stream) == driver.cuStreamWaitEvent(stream, event, 0) == (NO_HANDLE,)
    assert driver.cuStreamDestroy(driver.CUstream(0)) == (NO_HANDLE,)


def test_events_of_the_driver_are_recorded_timed_and_destroyed():
    (_, first), (_, last) = driver.cuEventCreate(0), driver.cuEventCreate(0)
    _, untimed = driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
    for event in (first, last, untimed):
        assert driver.cuEventRecord(event, 0) == driver.cuEventQuery(event) == (GOOD,)
    err, milliseconds = driver.cuEventElapsedTime(first, last)
    assert (err, milliseconds >= 0) == (GOOD, True)
    assert driver.cuEventElapsedTime(first, untimed) == (NO_HANDLE, None)
    assert driver.cuEventDestroy(last) == (GOOD,)
    assert driver.cuEventSynchronize(last) == driver.cuEventQuery(last) == (NO_HANDLE,)


def test_the_driver_reports_one_device():
    assert driver.cuDeviceGetCount() == (GOOD, 1)
    assert driver.cuDeviceGet(1) == (NO_DEVICE, None)
    _, device = driver.cuDeviceGet(0)
    assert (device, repr(device)) == (driver.CUdevice(0), "<CUdevice 0x0>")
    assert driver.cuDeviceGetName(5, device) == (GOOD, b"AnyRT")
    assert driver.cuDeviceTotalMem(device) == (GOOD, host.total_memory())
    assert driver.cuDriverGetVersion() == (GOOD, 12080)
    err, free, total = driver.cuMemGetInfo()
    assert (err, 0 < free <= total == host.total_memory()) == (GOOD, True)


def test_the_one_context_is_current():
    _, context = driver.cuCtxCreate(driver.CUctx_flags.CU_CTX_SCHED_AUTO, driver.CUdevice(0))
    assert isinstance(context, driver.CUcontext)
    for ask in (driver.cuCtxGetCurrent, driver.cuCtxPopCurrent):
        assert ask() == (GOOD, context)
    assert driver.cuDevicePrimaryCtxRetain(driver.CUdevice(0)) == (GOOD, context)
    assert driver.cuDevicePrimaryCtxRetain(driver.CUdevice(1)) == (NO_DEVICE, None)
    assert driver.cuDevicePrimaryCtxRelease(driver.CUdevice(0)) == (GOOD,)
    assert driver.cuDevicePrimaryCtxRelease(driver.CUdevice(1)) == (NO_DEVICE,)
    assert driver.cuCtxGetDevice() == (GOOD, driver.CUdevice(0))
    for call in (driver.cuCtxPushCurrent, driver.cuCtxSetCurrent, driver.cuCtxDestroy):
        assert call(context) == (GOOD,)
    assert driver.cuCtxSynchronize() == (GOOD,)


def test_handles_are_numbers_with_a_type():
    pointer = driver.CUdeviceptr(4096)
    assert (int(pointer), hex(pointer), repr(pointer)) == (4096, "0x1000", "<CUdeviceptr 0x1000>")
    assert {pointer, driver.CUdeviceptr(4096)} == {pointer}
    assert (driver.CUstream(), driver.CUevent(5) == 5, driver.CUstream(1) == driver.CUstream(2)) == (
        driver.CUstream(0),
        True,
        False,
    )


def test_codes_of_the_driver_have_texts():
    assert driver.cuGetErrorString(NO_DEVICE) == (GOOD, b"invalid device")
    assert driver.cuGetErrorName(NO_DEVICE) == (GOOD, b"CUDA_ERROR_INVALID_DEVICE")


# ---- the runtime -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allocate", [runtime.cudaMallocHost, runtime.cudaHostAlloc])
def test_runtime_gives_host_memory(allocate):
    _, address = allocate(16, runtime.cudaHostAllocPortable)
    ctypes.memset(address, 1, 16)
    assert runtime.cudaFree(address) == (runtime.cudaError_t.cudaErrorInvalidValue,)
    assert runtime.cudaFreeHost(address) == (OK,)


def test_managed_memory_is_device_memory_that_the_host_uses():
    _, address = runtime.cudaMallocManaged(4, runtime.cudaMemAttachGlobal)
    ctypes.memmove(address, b"abcd", 4)
    back = bytearray(4)
    kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
    assert runtime.cudaMemcpy(back, address, 4, kind) == runtime.cudaFree(address) == (OK,)
    assert back == b"abcd"


def test_runtime_allocates_fills_and_frees_on_streams_that_exist():
    assert runtime.cudaMallocAsync(8, 0x77) == (GONE, None)
    _, pointer = runtime.cudaMallocAsync(8, runtime.cudaStreamPerThread)
    assert runtime.cudaMemsetAsync(pointer, 3, 8, 0x77) == (GONE,)
    assert runtime.cudaMemsetAsync(pointer, 3, 8, runtime.cudaStreamLegacy) == (OK,)
    assert ctypes.string_at(pointer, 8) == b"\3" * 8
    assert runtime.cudaFreeAsync(pointer, 0x77) == (GONE,)
    assert runtime.cudaFreeAsync(pointer, 0) == (OK,)
    assert runtime.cudaFree(pointer) == (runtime.cudaError_t.cudaErrorInvalidValue,)


KIND = runtime.cudaMemcpyKind


@pytest.mark.parametrize(
    ("kind", "works"),
    [
        (KIND.cudaMemcpyHostToHost, True),
        (KIND.cudaMemcpyDefault, True),
        (KIND.cudaMemcpyHostToDevice, False),
        (KIND.cudaMemcpyDeviceToHost, False),
        (KIND.cudaMemcpyDeviceToDevice, False),
        (5, False),
    ],
)
def test_the_kind_of_a_copy_says_which_ends_must_be_device_memory(kind, works):
    to, source = np.zeros(2, np.uint8), np.array([1, 2], np.uint8)
    code = OK if works else runtime.cudaError_t.cudaErrorInvalidValue
    assert runtime.cudaMemcpy(to, source, 2, kind) == (code,)
    assert to.tolist() == ([1, 2] if works else [0, 0])


@pytest.mark.parametrize(
    "create",
    [
        runtime.cudaStreamCreate,
        lambda: runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking),
        lambda: runtime.cudaStreamCreateWithPriority(runtime.cudaStreamDefault, -1),
    ],
)
def test_streams_of_the_runtime_are_done_until_they_are_gone(create):
    (_, stream), (_, event) = create(), runtime.cudaEventCreate()
    assert isinstance(stream, runtime.cudaStream_t)
    assert isinstance(event, runtime.cudaEvent_t)
    assert runtime.cudaStreamQuery(stream) == runtime.cudaStreamWaitEvent(stream, event, 0) == (OK,)
    assert runtime.cudaEventQuery(event) == (OK,)
    assert (runtime.cudaStreamDestroy(stream), runtime.cudaEventDestroy(event)) == ((OK,), (OK,))
    assert runtime.cudaStreamQuery(stream) == runtime.cudaEventQuery(event) == (GONE,)


def test_the_runtime_reports_its_device():
    _, props = runtime.cudaGetDeviceProperties(0)
    result = (props.major, props.minor, props.multiProcessorCount, props.totalGlobalMem)
    attributes = [
        runtime.cudaDeviceGetAttribute(a, 0)[1]
        for a in (
            runtime.cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor,
            runtime.cudaDeviceAttr.cudaDevAttrComputeCapabilityMinor,
            runtime.cudaDeviceAttr.cudaDevAttrMultiProcessorCount,
        )
    ]
    assert result == (*attributes, host.total_memory())
    assert (props.warpSize, props.maxThreadsPerBlock, props.sharedMemPerBlock) == (32, 1024, 49152)
    assert (props.l2CacheSize, props.memoryBusWidth, props.integrated, props.unifiedAddressing) == (
        1 << 20,
        64,
        1,
        1,
    )
    assert runtime.cudaGetDeviceProperties(1) == (runtime.cudaError_t.cudaErrorInvalidDevice, None)
    assert runtime.cudaDeviceGetAttribute(1, 1) == (runtime.cudaError_t.cudaErrorInvalidDevice, None)


def test_the_runtime_has_one_device_and_a_version():
    assert runtime.cudaGetDevice() == (OK, 0)
    assert runtime.cudaRuntimeGetVersion() == runtime.cudaDriverGetVersion() == (OK, 12080)
    assert runtime.cudaDeviceSynchronize() == runtime.cudaDeviceReset() == (OK,)


def test_every_code_of_the_runtime_compiler_has_a_text():
    for code in nvrtc.nvrtcResult:
        text = (nvrtc.nvrtcResult.NVRTC_SUCCESS, code.name.encode())
        assert nvrtc.nvrtcGetErrorString(code) == text


# ---- pycuda ------------------------------------------------------------------------------------------------


def test_pycuda_reports_its_device():
    assert pycuda.init() is None
    assert (pycuda.get_version(), pycuda.get_driver_version()) == ((12, 8, 0), 12080)
    device = autoinit.device
    assert device.total_memory() == pycuda.mem_get_info()[1] == host.total_memory()
    assert device.get_attribute(pycuda.device_attribute.WARP_SIZE) == 32
    assert isinstance(device.retain_primary_context(), pycuda.Context)
    assert isinstance(autoinit.context.get_current(), pycuda.Context)
    assert autoinit.context.get_device().name() == "AnyRT host memory"
    assert autoinit.context.detach() is pycuda.Context.synchronize() is None


def test_streams_and_events_of_pycuda_are_done():
    stream = pycuda.Stream()
    event = pycuda.Event(pycuda.event_flags.DISABLE_TIMING).record(stream)
    stream.wait_for_event(event)
    assert (stream.is_done(), event.query(), event.synchronize()) == (True, True, event)
    assert runtime.cudaStreamQuery(stream) == (OK,)
    with pytest.raises(pycuda.LogicError, match="invalid resource handle"):
        event.time_since(pycuda.Event().record())


def test_handles_of_pycuda_end_with_their_objects():
    stream, event = pycuda.Stream(), pycuda.Event()
    handles = (stream.handle, event.handle)
    del stream, event
    assert runtime.cudaStreamQuery(handles[0]) == runtime.cudaEventQuery(handles[1]) == (GONE,)


def test_memory_like_an_array_holds_and_gives_back_such_an_array():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    there = pycuda.mem_alloc_like(array)
    assert isinstance(there, pycuda.DeviceAllocation)
    pycuda.memcpy_htod(there, array)
    other = pycuda.mem_alloc(12)
    pycuda.memcpy_dtod_async(other, there, 12, pycuda.Stream())
    back = pycuda.from_device_like(other, array)
    assert (back.dtype, back.tolist()) == (np.int16, array.tolist())
    with pytest.raises(pycuda.LogicError):
        pycuda.memcpy_dtod_async(other, there, 13)


def test_memory_is_filled_on_a_stream():
    there = pycuda.mem_alloc(8)
    pycuda.memset_d32_async(there, 0x01020304, 2, pycuda.Stream())
    pycuda.memset_d8_async(there, 9, 1, None)
    assert pycuda.from_device(there, 2, np.uint32).tolist() == [0x01020309, 0x01020304]


def test_page_locked_arrays_are_arrays():
    flags = pycuda.host_alloc_flags.DEVICEMAP
    zeros = pycuda.pagelocked_zeros((2, 3), np.float16, "F", flags)
    assert (zeros.tolist(), zeros.flags.f_contiguous, zeros.dtype) == ([[0] * 3] * 2, True, np.float16)
    assert pycuda.pagelocked_empty_like(zeros).shape == (2, 3)
    assert pycuda.pagelocked_zeros_like(np.ones(2)).tolist() == [0, 0]


def test_gpuarrays_are_made_filled_and_read():
    x = gpuarray.to_gpu_async(np.ones((2, 2), np.float32)[::-1], stream=pycuda.Stream())
    assert isinstance(x, gpuarray.GPUArray)
    assert (x.fill(3) is x, x.get().tolist()) == (True, [[3, 3], [3, 3]])
    y, out = gpuarray.empty_like(x), np.zeros((2, 2), np.float32)
    assert (y.shape, y.dtype, y.size, y.ptr != x.ptr) == ((2, 2), np.float32, 4, True)
    y.set(np.float32([[1, 2], [3, 4]]))
    assert y.get(out) is out
    assert out.tolist() == [[1, 2], [3, 4]]
    assert gpuarray.zeros(3, np.int8).get().tolist() == [0, 0, 0]
