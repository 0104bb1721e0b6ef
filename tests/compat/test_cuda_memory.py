"""Memory of CUDA: the program's, pitches, pools and limits; functions of the host, peers, and errors."""

import ctypes

import numpy as np
import pytest

from anyrt.compat.cuda import driver, runtime
from anyrt.compat.host.device import DEVICE, DeviceFault, write
from anyrt.core.errors import NotSupportedError
from tests.messages import diagnostic

OK, GOOD = runtime.cudaError_t.cudaSuccess, driver.CUresult.CUDA_SUCCESS
INVALID, NO_DEVICE = runtime.cudaError_t.cudaErrorInvalidValue, runtime.cudaError_t.cudaErrorInvalidDevice
KIND = runtime.cudaMemcpyKind
REFUSED = [
    *((driver, f"cu{n}") for n in ("LinkCreate", "LaunchKernelEx", "LaunchCooperativeKernel")),
    (driver, "cuModuleGetGlobal"),
]


def test_memory_of_the_program_is_registered_once_and_left():
    array = np.arange(4, dtype=np.int32)
    at = array.ctypes.data
    assert runtime.cudaHostRegister(at, 16, runtime.cudaHostRegisterMapped) == (OK,)
    assert runtime.cudaHostRegister(at, 16, 0) == (INVALID,)
    assert runtime.cudaHostGetDevicePointer(at, 0) == (OK, at)
    assert runtime.cudaMemset(at, 1, 17) == (INVALID,)
    assert runtime.cudaMemset(at, 1, 16) == (OK,)
    assert runtime.cudaHostUnregister(at) == (OK,)
    assert runtime.cudaHostUnregister(at) == (INVALID,)
    assert runtime.cudaHostGetDevicePointer(at, 0) == (INVALID, None)
    assert array.tolist() == [0x01010101] * 4


def test_addresses_are_known_by_what_made_them():
    (_, device), (_, host), own = runtime.cudaMalloc(8), runtime.cudaMallocHost(8), np.zeros(1)
    messages = [runtime.cudaPointerGetAttributes(p)[1] for p in (device + 4, host, own)]
    assert [t.type.name.removeprefix("cudaMemoryType") for t in messages] == [
        "Device",
        "Host",
        "Unregistered",
    ]
    assert [(t.devicePointer, t.hostPointer) for t in messages] == [
        (device + 4, 0),
        (host, host),
        (0, own.ctypes.data),
    ]
    assert driver.cuMemGetAddressRange(device + 4) == (GOOD, device, 8)
    assert driver.cuMemGetAddressRange(own) == (driver.CUresult.CUDA_ERROR_INVALID_VALUE, None, None)


def test_driver_reports_the_kind_of_an_address():
    (_, device), (_, host) = driver.cuMemAlloc(8), driver.cuMemAllocHost(8)
    ask = [driver.CUpointer_attribute[f"CU_POINTER_ATTRIBUTE_{n}"] for n in ("MEMORY_TYPE", "DEVICE_POINTER")]
    kinds = driver.CUmemorytype
    messages = [driver.cuPointerGetAttribute(a, p)[1] for a in ask for p in (device, host)]
    assert messages == [kinds.CU_MEMORYTYPE_DEVICE, kinds.CU_MEMORYTYPE_HOST, device, host]
    assert driver.cuPointerGetAttribute(3, host) == driver.cuMemHostGetDevicePointer(host, 0) == (GOOD, host)
    assert driver.cuPointerGetAttribute(9, host) == (GOOD, 0)
    assert driver.cuPointerGetAttribute(1, host) == (driver.CUresult.CUDA_ERROR_NOT_SUPPORTED, None)


def test_rows_are_copied_and_filled_by_their_pitch():
    _, device, pitch = runtime.cudaMallocPitch(6, 3)
    there, back = np.arange(18, dtype=np.uint8).reshape(3, 6), np.zeros((3, 8), np.uint8)
    assert pitch % 512 == 0
    assert runtime.cudaMemcpy2D(device, pitch, there, 6, 6, 3, KIND.cudaMemcpyHostToDevice) == (OK,)
    assert runtime.cudaMemset2D(device + 1, pitch, 99, 2, 3) == (OK,)
    assert runtime.cudaMemcpy2DAsync(back, 8, device, pitch, 6, 3, KIND.cudaMemcpyDeviceToHost, 0) == (OK,)
    there[:, 1:3] = 99
    assert (back[:, :6].tolist(), back[:, 6:].max()) == (there.tolist(), 0)
    assert runtime.cudaMemcpy2D(device, 5, there, 6, 6, 3, KIND.cudaMemcpyHostToDevice) == (INVALID,)


def test_functions_of_the_host_are_called_with_their_argument():
    called, kind = [], ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    function = kind(called.append)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert runtime.cudaLaunchHostFunc(0, address, 4096) == (OK,)
    assert driver.cuLaunchHostFunc(0, address, 0) == (GOOD,)
    assert called == [4096, None]


def test_pools_and_limits_keep_their_settings():
    _, pool = runtime.cudaDeviceGetDefaultMemPool(0)
    threshold = runtime.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold
    assert runtime.cudaMemPoolSetAttribute(pool, threshold, 1 << 30) == (OK,)
    assert runtime.cudaMemPoolGetAttribute(pool, threshold) == (OK, 1 << 30)
    _, memory = runtime.cudaMallocFromPoolAsync(8, pool, 0)
    assert runtime.cudaFreeAsync(memory, 0) == runtime.cudaMemPoolTrimTo(pool, 0) == (OK,)
    limit = runtime.cudaLimit.cudaLimitMallocHeapSize
    assert runtime.cudaDeviceSetLimit(limit, 5) == (OK,)
    assert runtime.cudaDeviceGetLimit(limit) == (OK, 5)
    assert driver.cuCtxGetLimit(limit) == (GOOD, 5)


def test_pools_are_made_of_what_programs_fill_in():
    asked = runtime.cudaMemPoolProps()
    asked.allocType = runtime.cudaMemAllocationType.cudaMemAllocationTypePinned
    asked.handleTypes = runtime.cudaMemAllocationHandleType.cudaMemHandleTypeNone
    asked.location.type, asked.location.id = runtime.cudaMemLocationType.cudaMemLocationTypeDevice, 0
    assert runtime.cudaMemPoolProps().location.type.name == "cudaMemLocationTypeInvalid"
    _, pool = runtime.cudaMemPoolCreate(asked)
    threshold, most = runtime.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold, driver.cuuint64_t(2**64 - 1)
    assert runtime.cudaMemPoolSetAttribute(pool, threshold, most) == (OK,)
    assert runtime.cudaMemPoolGetAttribute(pool, threshold) == (OK, 2**64 - 1)
    _, memory = runtime.cudaMallocFromPoolAsync(8, pool, 0)
    assert runtime.cudaFreeAsync(memory, 0) == runtime.cudaMemPoolDestroy(pool) == (OK,)


def test_the_device_has_no_peer_and_no_bus():
    assert runtime.cudaDeviceCanAccessPeer(0, 0) == (OK, 0)
    assert driver.cuDeviceCanAccessPeer(0, 1)[0] is driver.CUresult.CUDA_ERROR_INVALID_DEVICE
    assert runtime.cudaDeviceGetPCIBusId(32, 0) == driver.cuDeviceGetPCIBusId(32, 0) == (0, b"0000:00:00.0")
    assert runtime.cudaDeviceGetPCIBusId(32, 1) == (NO_DEVICE, None)
    assert runtime.cudaDeviceGetStreamPriorityRange() == driver.cuCtxGetStreamPriorityRange() == (0, 0, 0)
    assert driver.cuDeviceComputeCapability(0) == (GOOD, 8, 0)
    assert driver.cuDeviceGetUuid(0)[1].bytes == bytes(16)
    assert driver.cuDevicePrimaryCtxGetState(0) == (GOOD, 0, 1)


def test_copies_from_the_device_to_itself_name_it_twice():
    (_, a), (_, b) = runtime.cudaMalloc(2), runtime.cudaMalloc(2)
    runtime.cudaMemset(a, 5, 2)
    assert runtime.cudaMemcpyPeer(b, 0, a, 0, 2) == (OK,)
    assert ctypes.string_at(b, 2) == b"\5\5"
    assert runtime.cudaMemcpyPeerAsync(b, 1, a, 0, 2, 0) == (NO_DEVICE,)


def test_driver_fills_half_words_and_manages_memory():
    (_, memory), (_, rows, pitch) = driver.cuMemAllocManaged(4, 1), driver.cuMemAllocPitch(3, 2, 4)
    assert driver.cuMemsetD16(memory, 0x0102, 2) == (GOOD,)
    assert ctypes.string_at(int(memory), 4) == b"\2\1" * 2
    assert driver.cuMemsetD8(rows, 0, 2 * pitch) == (GOOD,)
    assert driver.cuStreamGetPriority(driver.cuStreamCreateWithPriority(1, -1)[1]) == (GOOD, 0)


@pytest.mark.parametrize(("module", "name"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_code_for_gpus_is_rejected_by_name(module, name):
    with pytest.raises(NotSupportedError, match=diagnostic("AR901", name, "GPU", "CPU")):
        getattr(module, name)(b"image", 0)


@pytest.mark.parametrize("way", ["from", "to"])
def test_host_addresses_that_lead_nowhere_are_rejected(way):
    host, (_, block) = np.zeros(64, np.uint8), runtime.cudaMalloc(64)
    values = (block, 12345) if way == "from" else (12345, block)
    assert runtime.cudaMemcpy(*values, 64, KIND.cudaMemcpyDefault) == (INVALID,)
    assert runtime.cudaMemcpy(host.ctypes.data, host.ctypes.data, 64, KIND.cudaMemcpyDefault) == (OK,)
    assert runtime.cudaHostRegister(12345, 64, 0) == (INVALID,)
    runtime.cudaFree(block)


def test_arrays_at_addresses_that_lead_nowhere_are_rejected():
    with pytest.raises(DeviceFault, match="INVALID_VALUE"):
        DEVICE.array(12345, 4096)
    host = np.zeros(8, np.uint8)
    assert np.shares_memory(DEVICE.array(host.ctypes.data, 8), host)
    with pytest.raises(DeviceFault, match="INVALID_VALUE"):
        write(12345, b"12345678")
    write(host.ctypes.data, b"12345678")
    assert host.tobytes() == b"12345678"
