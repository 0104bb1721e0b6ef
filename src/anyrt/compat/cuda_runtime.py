"""Stand-in for `cuda.bindings.runtime` (and `cuda.cudart`): the runtime API over host memory.

Every function gives a tuple whose first element is a `cudaError_t`; on failure the other elements are None.

>>> err, pointer = cudaMalloc(64)
>>> err, cudaMemset(pointer, 7, 64)[0].name, cudaMemset(pointer, 7, 65)[0].name
(<cudaError_t.cudaSuccess: 0>, 'cudaSuccess', 'cudaErrorInvalidValue')
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import SupportsIndex

from anyrt.compat import cuda_driver as driver
from anyrt.compat import device as host
from anyrt.compat.answers import Answer, Answering, words
from anyrt.compat.device import DEVICE, DeviceFault, Fault, Pointer


class cudaError_t(IntEnum):
    """Result codes of the runtime API, as far as this stand-in gives them."""

    cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorInitializationError = range(4)
    cudaErrorInsufficientDriver, cudaErrorNoDevice, cudaErrorInvalidDevice = 35, 100, 101
    cudaErrorInvalidResourceHandle, cudaErrorNotReady, cudaErrorUnknown = 400, 600, 999


class cudaMemcpyKind(IntEnum):
    """Which ends of a copy are on the device."""

    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost = range(3)
    cudaMemcpyDeviceToDevice, cudaMemcpyDefault = range(3, 5)


class cudaDeviceAttr(IntEnum):
    """Device attributes that programs ask for."""

    cudaDevAttrMaxThreadsPerBlock, cudaDevAttrMaxSharedMemoryPerBlock, cudaDevAttrWarpSize = 1, 8, 10
    cudaDevAttrClockRate, cudaDevAttrMultiProcessorCount, cudaDevAttrIntegrated = 13, 16, 18
    cudaDevAttrL2CacheSize, cudaDevAttrUnifiedAddressing = 38, 41
    cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor = 75, 76


class cudaStream_t(driver.CUstream):
    """A stream."""


class cudaEvent_t(driver.CUevent):
    """An event."""


@dataclass(frozen=True, slots=True)
class cudaDeviceProp:
    """What programs print about a device."""

    name: bytes
    totalGlobalMem: int
    major: int
    minor: int
    multiProcessorCount: int
    warpSize: int = host.ATTRIBUTES[10]
    maxThreadsPerBlock: int = host.ATTRIBUTES[1]
    sharedMemPerBlock: int = host.ATTRIBUTES[8]
    l2CacheSize: int = host.ATTRIBUTES[38]
    memoryBusWidth: int = host.ATTRIBUTES[37]
    integrated: int = host.ATTRIBUTES[18]
    unifiedAddressing: int = host.ATTRIBUTES[41]


cudaStreamDefault, cudaStreamNonBlocking = 0, 1
cudaStreamLegacy, cudaStreamPerThread = 1, 2
cudaEventDefault, cudaEventBlockingSync, cudaEventDisableTiming, cudaEventInterprocess = 0, 1, 2, 4
cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped, cudaHostAllocWriteCombined = 0, 1, 2, 4
cudaMemAttachGlobal, cudaMemAttachHost = 1, 2

_CODES = {
    None: cudaError_t.cudaSuccess,
    Fault.INVALID_VALUE: cudaError_t.cudaErrorInvalidValue,
    Fault.OUT_OF_MEMORY: cudaError_t.cudaErrorMemoryAllocation,
    Fault.INVALID_DEVICE: cudaError_t.cudaErrorInvalidDevice,
    Fault.INVALID_HANDLE: cudaError_t.cudaErrorInvalidResourceHandle,
}
# Each thread has its own last error, as the runtime API documents.
_last = threading.local()


def _note(code: IntEnum) -> None:
    _last.code = code


_code, _code_and_value, _code_and_two = (Answering(_CODES, n, _note) for n in range(3))


def cudaPeekAtLastError() -> Answer:
    """The thread's last error."""
    return (getattr(_last, "code", cudaError_t.cudaSuccess),)


def cudaGetLastError() -> Answer:
    """The thread's last error, which is then forgotten."""
    answer = cudaPeekAtLastError()
    _last.code = cudaError_t.cudaSuccess
    return answer


@_code
def _succeed(*args: object) -> None:
    """For calls that have nothing to do: work has always ended, and memory that is in use stays."""


cudaDeviceSynchronize = cudaDeviceReset = _succeed
cudaSetDevice = _code(DEVICE.check_device)
cudaDeviceGetAttribute = _code_and_value(DEVICE.attribute)

cudaFree = _code(DEVICE.release)
cudaFreeHost = _code(partial(DEVICE.release, on_device=False))
cudaMemset = cudaMemsetAsync = _code(DEVICE.fill)

cudaStreamDestroy = _code(DEVICE.close_stream)
cudaStreamSynchronize = cudaStreamQuery = _code(DEVICE.check_stream)
cudaStreamWaitEvent = _code(DEVICE.wait)
cudaEventDestroy = _code(DEVICE.close_event)
cudaEventRecord = _code(DEVICE.record)
cudaEventSynchronize = cudaEventQuery = _code(DEVICE.check_event)
cudaEventElapsedTime = _code_and_value(DEVICE.elapsed_ms)


@_code_and_value
def cudaGetErrorName(error: cudaError_t) -> bytes:
    """The name of a code."""
    return cudaError_t(error).name.encode()


@_code_and_value
def cudaGetErrorString(error: cudaError_t) -> bytes:
    """The name of a code in words, from the driver API, which numbers these codes alike."""
    known = int(error) in driver.CUresult.__members__.values()
    return words(driver.CUresult(error).name if known else cudaError_t(error).name, "CUDA_ERROR_")


@_code_and_value
def cudaRuntimeGetVersion() -> int:
    """A version of CUDA 12."""
    return host.CUDA_VERSION


cudaDriverGetVersion = cudaRuntimeGetVersion


@_code_and_value
def cudaGetDeviceCount() -> int:
    """One device."""
    return 1


@_code_and_value
def cudaGetDevice() -> int:
    """Device 0."""
    return 0


@_code_and_value
def cudaGetDeviceProperties(device: int) -> cudaDeviceProp:
    """What programs print about a device."""
    DEVICE.check_device(device)
    major, minor = host.COMPUTE_CAPABILITY
    return cudaDeviceProp(host.NAME.encode(), host.total_memory(), major, minor, host.ATTRIBUTES[16])


@_code_and_two
def cudaMemGetInfo() -> tuple[int, int]:
    """Free and total bytes."""
    return host.free_memory(), host.total_memory()


@_code_and_value
def cudaMalloc(size: int, hStream: SupportsIndex | None = None) -> int:
    """New device memory; address 0 for no bytes."""
    DEVICE.check_stream(hStream)
    return DEVICE.allocate(size) if size else 0


cudaMallocAsync = cudaMalloc


@_code_and_value
def cudaMallocManaged(size: int, flags: int) -> int:
    """New device memory, which the host can use as well."""
    return DEVICE.allocate(size)


@_code_and_value
def cudaMallocHost(size: int, flags: int = 0) -> int:
    """New host memory; address 0 for no bytes."""
    return DEVICE.allocate(size, on_device=False) if size else 0


cudaHostAlloc = cudaMallocHost


@_code
def cudaFreeAsync(devPtr: Pointer, hStream: SupportsIndex | None) -> None:
    """Give device memory back."""
    DEVICE.check_stream(hStream)
    DEVICE.release(devPtr)


@_code
def cudaMemcpy(
    dst: Pointer, src: Pointer, count: int, kind: SupportsIndex, stream: SupportsIndex | None = None
) -> None:
    """Copy bytes, at once; `kind` says which ends are on the device."""
    if int(kind) not in range(5):
        raise DeviceFault(Fault.INVALID_VALUE)
    to_device = int(kind) in (cudaMemcpyKind.cudaMemcpyHostToDevice, cudaMemcpyKind.cudaMemcpyDeviceToDevice)
    from_device = int(kind) in (
        cudaMemcpyKind.cudaMemcpyDeviceToHost,
        cudaMemcpyKind.cudaMemcpyDeviceToDevice,
    )
    DEVICE.copy(dst, src, count, stream, to_device, from_device)


cudaMemcpyAsync = cudaMemcpy


@_code_and_value
def cudaStreamCreate(*args: int) -> cudaStream_t:
    """A new stream; flags and priority mean nothing here."""
    return cudaStream_t(DEVICE.open_stream())


cudaStreamCreateWithFlags = cudaStreamCreateWithPriority = cudaStreamCreate


@_code_and_value
def cudaEventCreate(flags: int = cudaEventDefault) -> cudaEvent_t:
    """A new event."""
    return cudaEvent_t(DEVICE.open_event(timed=not flags & cudaEventDisableTiming))


cudaEventCreateWithFlags = cudaEventCreate
