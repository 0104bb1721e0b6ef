"""The types of `cuda.bindings.runtime`: codes, flags, handles, structures; and the decorator of its
functions.

>>> cudaStream_t(16), cudaMemcpyKind.cudaMemcpyDefault
(<cudaStream_t 0x10>, <cudaMemcpyKind.cudaMemcpyDefault: 4>)
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import IntEnum
from typing import SupportsIndex

from anyrt.compat.cuda import driver
from anyrt.compat.host import device as host
from anyrt.compat.host.answers import Answer, Answering
from anyrt.compat.host.device import DeviceFault, Fault


class cudaError_t(IntEnum):
    """Result codes of the runtime API that this stand-in returns."""

    cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorInitializationError = range(4)
    cudaErrorInsufficientDriver, cudaErrorNoDevice, cudaErrorInvalidDevice = 35, 100, 101
    cudaErrorInvalidResourceHandle, cudaErrorNotReady = 400, 600
    cudaErrorLaunchFailure, cudaErrorNotSupported = 719, 801
    cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureUnmatched = 900, 903
    cudaErrorUnknown = 999


class cudaMemcpyKind(IntEnum):
    """Which ends of a copy are on the device."""

    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost = range(3)
    cudaMemcpyDeviceToDevice, cudaMemcpyDefault = range(3, 5)


def ends(kind: SupportsIndex) -> tuple[bool, bool]:
    """Whether a copy goes to the device, and whether it comes from there."""
    known = cudaMemcpyKind.__members__.values()
    if int(kind) not in known:
        raise DeviceFault(Fault.INVALID_VALUE)
    both = cudaMemcpyKind.cudaMemcpyDeviceToDevice
    return int(kind) in (cudaMemcpyKind.cudaMemcpyHostToDevice, both), int(kind) in (
        cudaMemcpyKind.cudaMemcpyDeviceToHost,
        both,
    )


class cudaDeviceAttr(IntEnum):
    """Device attributes that programs read."""

    cudaDevAttrMaxThreadsPerBlock, cudaDevAttrMaxSharedMemoryPerBlock, cudaDevAttrWarpSize = 1, 8, 10
    cudaDevAttrClockRate, cudaDevAttrMultiProcessorCount, cudaDevAttrIntegrated = 13, 16, 18
    cudaDevAttrL2CacheSize, cudaDevAttrUnifiedAddressing = 38, 41
    cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor = 75, 76


class cudaStreamCaptureMode(IntEnum):
    """The mode of a capture, which has no effect."""

    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed = range(3)


class cudaStreamCaptureStatus(IntEnum):
    """Whether a stream is captured."""

    cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive = range(2)
    cudaStreamCaptureStatusInvalidated = 2


class cudaGraphExecUpdateResult(IntEnum):
    """Whether the update of a graph succeeded: always."""

    cudaGraphExecUpdateSuccess, cudaGraphExecUpdateError = range(2)


class cudaStream_t(driver.CUstream):
    """A stream."""


class cudaEvent_t(driver.CUevent):
    """An event."""


class cudaGraph_t(driver.CUgraph):
    """A graph of captured work."""


class cudaGraphExec_t(driver.CUgraphExec):
    """An instantiated graph, which can be launched."""


@dataclass(frozen=True, slots=True)
class cudaGraphExecUpdateResultInfo:
    """The result of `cudaGraphExecUpdate`."""

    result: cudaGraphExecUpdateResult = cudaGraphExecUpdateResult.cudaGraphExecUpdateSuccess


@dataclass(frozen=True, slots=True)
class cudaDeviceProp:
    """The properties of a device that programs print."""

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
    clockRate: int = host.ATTRIBUTES[13]
    memoryClockRate: int = host.ATTRIBUTES[36]
    concurrentKernels: int = host.ATTRIBUTES[31]
    managedMemory: int = host.ATTRIBUTES[83]
    maxThreadsDim: tuple[int, int, int] = (1024, 1024, 64)
    maxGridSize: tuple[int, int, int] = ((1 << 31) - 1, 65535, 65535)
    maxThreadsPerMultiProcessor: int = host.ATTRIBUTES[1]
    regsPerBlock: int = 65536
    regsPerMultiprocessor: int = 65536
    sharedMemPerMultiprocessor: int = host.ATTRIBUTES[8]
    sharedMemPerBlockOptin: int = host.ATTRIBUTES[8]
    totalConstMem: int = 64 << 10
    memPitch: int = (1 << 31) - 1
    textureAlignment: int = 512
    asyncEngineCount: int = 1
    canMapHostMemory: int = 1
    ECCEnabled: int = 0
    computeMode: int = 0
    isMultiGpuBoard: int = 0
    pciBusID: int = 0
    pciDeviceID: int = 0
    pciDomainID: int = 0
    uuid: bytes = bytes(16)


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
    Fault.IS_CAPTURED: cudaError_t.cudaErrorStreamCaptureUnsupported,
    Fault.IS_NOT_CAPTURED: cudaError_t.cudaErrorStreamCaptureUnmatched,
    Fault.LAUNCH_FAILED: cudaError_t.cudaErrorLaunchFailure,
    Fault.NOT_SUPPORTED: cudaError_t.cudaErrorNotSupported,
}
# Each thread has its own last error, as the runtime API documents.
_last = threading.local()


def _note(code: IntEnum) -> None:
    _last.code = code


code, code_and_value, code_and_two = (Answering(_CODES, n, _note) for n in range(3))


def cudaPeekAtLastError() -> Answer:
    """The thread's last error."""
    return (getattr(_last, "code", cudaError_t.cudaSuccess),)


def cudaGetLastError() -> Answer:
    """The thread's last error, which this call resets."""
    answer = cudaPeekAtLastError()
    _last.code = cudaError_t.cudaSuccess
    return answer
