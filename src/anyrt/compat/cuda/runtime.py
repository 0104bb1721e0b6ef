"""Stand-in for `cuda.bindings.runtime` (and `cuda.cudart`): the runtime API over host memory.

Every function returns a tuple whose first element is a `cudaError_t`; on failure the other elements are None.

>>> err, pointer = cudaMalloc(64)
>>> err, cudaMemset(pointer, 7, 64)[0].name, cudaMemset(pointer, 7, 65)[0].name
(<cudaError_t.cudaSuccess: 0>, 'cudaSuccess', 'cudaErrorInvalidValue')
"""

from __future__ import annotations

from functools import partial
from typing import SupportsIndex

from anyrt.compat.cuda import driver
from anyrt.compat.cuda.runtime_memory import *  # noqa: F403  # a program sees one module
from anyrt.compat.cuda.runtime_types import *  # noqa: F403
from anyrt.compat.cuda.runtime_types import (
    code,
    code_and_two,
    code_and_value,
    cudaDeviceProp,
    cudaError_t,
    cudaEvent_t,
    cudaEventDefault,
    cudaEventDisableTiming,
    cudaGraph_t,
    cudaGraphExec_t,
    cudaGraphExecUpdateResultInfo,
    cudaStream_t,
    cudaStreamCaptureStatus,
    ends,
)
from anyrt.compat.host import device as host
from anyrt.compat.host.answers import words
from anyrt.compat.host.device import DEVICE, Pointer


@code
def _succeed(*args: object) -> None:
    """Return success. Work is always complete, and memory in use stays allocated."""


cudaDeviceSynchronize = cudaDeviceReset = _succeed
cudaSetDevice = code(DEVICE.check_device)
cudaDeviceGetAttribute = code_and_value(DEVICE.attribute)

cudaFree = code(DEVICE.release)
cudaFreeHost = code(partial(DEVICE.release, on_device=False))
cudaMemset = cudaMemsetAsync = code(DEVICE.fill)

cudaStreamDestroy = code(DEVICE.close_stream)
cudaStreamSynchronize = cudaStreamQuery = code(DEVICE.finish_stream)
cudaStreamBeginCapture = code(DEVICE.begin_capture)
cudaStreamWaitEvent = code(DEVICE.wait)
cudaGraphLaunch = code(DEVICE.launch)
cudaGraphUpload = code(DEVICE.check_graph)
cudaGraphDestroy = cudaGraphExecDestroy = code(DEVICE.close_graph)
cudaEventDestroy = code(DEVICE.close_event)
cudaEventRecord = cudaEventRecordWithFlags = code(DEVICE.record)
cudaEventSynchronize = cudaEventQuery = code(DEVICE.check_event)
cudaEventElapsedTime = code_and_value(DEVICE.elapsed_ms)


@code_and_value
def cudaGetErrorName(error: cudaError_t) -> bytes:
    """The name of a code."""
    return cudaError_t(error).name.encode()


@code_and_value
def cudaGetErrorString(error: cudaError_t) -> bytes:
    """The description of a code, from the driver API, which uses the same numbers."""
    known = int(error) in driver.CUresult.__members__.values()
    return words(driver.CUresult(error).name if known else cudaError_t(error).name, "CUDA_ERROR_")


@code_and_value
def cudaRuntimeGetVersion() -> int:
    """The version that is reported: CUDA 12."""
    return host.CUDA_VERSION


cudaDriverGetVersion = cudaRuntimeGetVersion


@code_and_value
def cudaGetDeviceCount() -> int:
    """The number of devices: 1."""
    return 1


@code_and_value
def cudaGetDevice() -> int:
    """Device 0."""
    return 0


@code_and_value
def cudaGetDeviceProperties(device: int) -> cudaDeviceProp:
    """The properties of a device that programs print."""
    DEVICE.check_device(device)
    major, minor = host.COMPUTE_CAPABILITY
    return cudaDeviceProp(host.NAME.encode(), host.total_memory(), major, minor, host.ATTRIBUTES[16])


@code_and_two
def cudaMemGetInfo() -> tuple[int, int]:
    """The free and the total memory in bytes."""
    return host.free_memory(), host.total_memory()


@code_and_value
def cudaMalloc(size: int, hStream: SupportsIndex | None = None) -> int:
    """Allocate device memory; address 0 for 0 bytes."""
    DEVICE.check_stream(hStream)
    return DEVICE.allocate(size) if size else 0


cudaMallocAsync = cudaMalloc


@code_and_value
def cudaMallocManaged(size: int, flags: int) -> int:
    """Allocate device memory, which the host can access, too."""
    return DEVICE.allocate(size)


@code_and_value
def cudaMallocHost(size: int, flags: int = 0) -> int:
    """Allocate host memory; address 0 for 0 bytes."""
    return DEVICE.allocate(size, on_device=False) if size else 0


cudaHostAlloc = cudaMallocHost


@code
def cudaFreeAsync(devPtr: Pointer, hStream: SupportsIndex | None) -> None:
    """Free device memory."""
    DEVICE.check_stream(hStream)
    DEVICE.release(devPtr)


@code
def cudaMemcpy(
    dst: Pointer, src: Pointer, count: int, kind: SupportsIndex, stream: SupportsIndex | None = None
) -> None:
    """Copy bytes synchronously; `kind` says which ends are on the device."""
    DEVICE.copy(dst, src, count, stream, *ends(kind))


cudaMemcpyAsync = cudaMemcpy


@code_and_value
def cudaStreamCreate(*args: int) -> cudaStream_t:
    """Create a stream; flags and priority have no effect."""
    return cudaStream_t(DEVICE.open_stream())


cudaStreamCreateWithFlags = cudaStreamCreateWithPriority = cudaStreamCreate


@code_and_value
def cudaEventCreate(flags: int = cudaEventDefault) -> cudaEvent_t:
    """Create an event."""
    return cudaEvent_t(DEVICE.open_event(timed=not flags & cudaEventDisableTiming))


cudaEventCreateWithFlags = cudaEventCreate


@code_and_value
def cudaStreamIsCapturing(stream: SupportsIndex) -> cudaStreamCaptureStatus:
    """Whether a stream is captured."""
    return cudaStreamCaptureStatus(DEVICE.is_captured(stream))


@code_and_value
def cudaStreamEndCapture(stream: SupportsIndex) -> cudaGraph_t:
    """End the capture of a stream and return its graph."""
    return cudaGraph_t(DEVICE.end_capture(stream))


@code_and_value
def cudaGraphInstantiate(graph: SupportsIndex, *settings: object) -> cudaGraphExec_t:
    """Instantiate a graph for launches; the settings of CUDA 11 and 12 have no effect."""
    return cudaGraphExec_t(DEVICE.instantiate(graph))


cudaGraphInstantiateWithFlags = cudaGraphInstantiate


@code_and_value
def cudaGraphExecUpdate(exec: SupportsIndex, graph: SupportsIndex) -> cudaGraphExecUpdateResultInfo:
    """Replace the steps of an instantiated graph by those of another graph."""
    DEVICE.update_graph(exec, graph)
    return cudaGraphExecUpdateResultInfo()
