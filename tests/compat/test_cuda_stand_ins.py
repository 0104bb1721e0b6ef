"""The stand-ins for cuda-python: calling conventions, codes, and copies that stay inside their
allocations."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from anyrt.compat.cuda import driver, nvrtc, runtime
from anyrt.compat.cuda.runtime import cudaError_t, cudaMemcpyKind

OK, INVALID = cudaError_t.cudaSuccess, cudaError_t.cudaErrorInvalidValue
HOST_TO_DEVICE, DEVICE_TO_HOST = cudaMemcpyKind.cudaMemcpyHostToDevice, cudaMemcpyKind.cudaMemcpyDeviceToHost


def test_bytes_go_to_the_device_and_back_by_address_and_by_buffer():
    there, back = np.arange(6, dtype=np.float32), bytearray(24)
    err, pointer = runtime.cudaMalloc(24)
    copies = [
        runtime.cudaMemcpy(pointer, there.ctypes.data, 24, HOST_TO_DEVICE),
        runtime.cudaMemcpyAsync(back, pointer, 24, DEVICE_TO_HOST, runtime.cudaStream_t(0)),
    ]
    assert (err, copies) == (OK, [(OK,), (OK,)])
    assert np.frombuffer(back, np.float32).tolist() == [0, 1, 2, 3, 4, 5]


def test_device_memory_is_aligned_and_usable_as_host_memory():
    _, pointer = runtime.cudaMalloc(100)
    runtime.cudaMemset(pointer, 7, 100)
    assert pointer % 256 == 0
    assert ctypes.string_at(pointer, 100) == b"\7" * 100


@pytest.mark.parametrize("offset", [0, 40, 63])
def test_copy_past_the_end_of_an_allocation_is_rejected(offset: int):
    _, pointer = runtime.cudaMalloc(64)
    host = np.zeros(128, np.uint8)
    assert runtime.cudaMemcpy(pointer + offset, host, 65 - offset, HOST_TO_DEVICE) == (INVALID,)
    assert runtime.cudaMemcpy(pointer + offset, host, 64 - offset, HOST_TO_DEVICE) == (OK,)


def test_copy_past_the_end_of_an_array_is_rejected():
    _, pointer = runtime.cudaMalloc(64)
    assert runtime.cudaMemcpy(pointer, np.zeros(63, np.uint8), 64, HOST_TO_DEVICE) == (INVALID,)
    assert runtime.cudaMemcpy(bytes(64), pointer, 64, DEVICE_TO_HOST) == (INVALID,)
    assert runtime.cudaMemcpy(np.zeros((64, 2), np.uint8)[:, 0], pointer, 64, DEVICE_TO_HOST) == (INVALID,)


def test_host_array_is_no_device_memory():
    array = np.zeros(8, np.uint8)
    assert runtime.cudaMemcpy(array.ctypes.data, array, 8, HOST_TO_DEVICE) == (INVALID,)
    assert runtime.cudaMemset(array.ctypes.data, 0, 8) == (INVALID,)
    assert runtime.cudaMemcpy(0, array, 8, HOST_TO_DEVICE) == (INVALID,)


def test_memory_is_freed_once_and_by_the_right_function():
    (_, device), (_, host) = runtime.cudaMalloc(8), runtime.cudaMallocHost(8)
    assert [runtime.cudaFreeHost(device), runtime.cudaFree(host)] == [(INVALID,), (INVALID,)]
    assert [runtime.cudaFree(device), runtime.cudaFreeHost(host)] == [(OK,), (OK,)]
    assert [runtime.cudaFree(device), runtime.cudaFree(0x1234)] == [(INVALID,), (INVALID,)]
    assert runtime.cudaFree(0) == (OK,)


def test_unpayable_allocation_gives_the_memory_code_and_no_pointer():
    assert runtime.cudaMalloc(1 << 60) == (cudaError_t.cudaErrorMemoryAllocation, None)
    assert driver.cuMemAlloc(1 << 60) == (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
    assert driver.cuMemAlloc(0) == (driver.CUresult.CUDA_ERROR_INVALID_VALUE, None)


def test_last_error_is_kept_until_read():
    runtime.cudaGetLastError()
    runtime.cudaFree(0x1234)
    runtime.cudaMalloc(8)
    assert [runtime.cudaPeekAtLastError(), runtime.cudaGetLastError(), runtime.cudaGetLastError()] == [
        (INVALID,), (INVALID,), (OK,),
    ]  # fmt: skip


def test_streams_and_events_exist_until_destroyed():
    gone = cudaError_t.cudaErrorInvalidResourceHandle
    _, stream = runtime.cudaStreamCreate()
    _, event = runtime.cudaEventCreate()
    assert [runtime.cudaEventRecord(event, stream), runtime.cudaStreamSynchronize(stream)] == [(OK,), (OK,)]
    assert [runtime.cudaStreamDestroy(stream), runtime.cudaEventDestroy(event)] == [(OK,), (OK,)]
    assert [runtime.cudaStreamSynchronize(stream), runtime.cudaEventSynchronize(event)] == [(gone,), (gone,)]


def test_elapsed_time_needs_two_recorded_events_with_timing():
    (_, first), (_, last) = runtime.cudaEventCreate(), runtime.cudaEventCreate()
    _, untimed = runtime.cudaEventCreateWithFlags(runtime.cudaEventDisableTiming)
    for event in (first, untimed):
        runtime.cudaEventRecord(event, 0)
    invalid = (cudaError_t.cudaErrorInvalidResourceHandle, None)
    assert [runtime.cudaEventElapsedTime(first, e) for e in (last, untimed)] == [invalid, invalid]
    runtime.cudaEventRecord(last, 0)
    err, ms = runtime.cudaEventElapsedTime(first, last)
    assert err == OK
    assert 0 <= ms < 1e4


def test_driver_copies_sets_and_frees():
    _, pointer = driver.cuMemAlloc(16)
    back = np.zeros(4, np.uint32)
    _, stream = driver.cuStreamCreate(0)
    codes = [
        driver.cuMemsetD32(pointer, 0xDEADBEEF, 4),
        driver.cuMemcpyDtoHAsync(back, pointer, 16, stream),
        driver.cuStreamSynchronize(stream),
        driver.cuMemFree(pointer),
        driver.cuMemcpyDtoH(back, pointer, 16),
    ]
    assert [int(code) for (code,) in codes] == [0, 0, 0, 0, 1]
    assert back.tolist() == [0xDEADBEEF] * 4


def test_device_copies_within_the_device_only_between_device_memory():
    (_, a), (_, b) = driver.cuMemAlloc(4), driver.cuMemAlloc(4)
    driver.cuMemcpyHtoD(a, b"abcd", 4)
    assert int(driver.cuMemcpyDtoD(b, a, 4)[0]) == 0
    assert ctypes.string_at(int(b), 4) == b"abcd"
    assert int(driver.cuMemcpyDtoD(b, np.zeros(4, np.uint8), 4)[0]) == 1


def test_there_is_one_device_with_properties():
    _, props = runtime.cudaGetDeviceProperties(0)
    _, device = driver.cuDeviceGet(0)
    major = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    assert (props.name, props.major) == (b"AnyRT host memory", 8)
    assert driver.cuDeviceGetAttribute(major, device) == (driver.CUresult.CUDA_SUCCESS, 8)
    assert runtime.cudaGetDeviceCount() == (OK, 1)
    assert runtime.cudaSetDevice(1) == (cudaError_t.cudaErrorInvalidDevice,)
    free, total = runtime.cudaMemGetInfo()[1:]
    assert 0 < free <= total


def test_codes_have_names_and_texts():
    assert runtime.cudaGetErrorName(INVALID) == (OK, b"cudaErrorInvalidValue")
    assert runtime.cudaGetErrorString(INVALID) == (OK, b"invalid value")
    assert driver.cuGetErrorName(driver.CUresult.CUDA_ERROR_INVALID_VALUE)[1] == b"CUDA_ERROR_INVALID_VALUE"
    assert (
        nvrtc.nvrtcGetErrorString(nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION)[1] == b"NVRTC_ERROR_COMPILATION"
    )


def test_context_is_made_by_both_forms_of_the_call():
    _, device = driver.cuDeviceGet(0)
    assert driver.cuCtxCreate(0, device) == driver.cuCtxCreate(None, 0, device)
    assert driver.cuInit(0) == (driver.CUresult.CUDA_SUCCESS,)


def test_objects_that_a_program_leaves_behind_may_free_their_arrays():
    code = "import numpy as np\nfrom anyrt.compat.cuda import runtime as r\nclass Held:\n"
    code += " a = np.zeros(8)\n def __del__(self, free=r.cudaFreeHost): print(free(self.a)[0].name)\n"
    code += "held = Held(); held.self = held"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("cudaErrorInvalidValue\n", "")
