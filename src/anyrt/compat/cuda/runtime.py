"""Stand-in for `cuda.bindings.runtime` (and `cuda.cudart`): the runtime API over host memory.

Every function gives a tuple whose first element is a `cudaError_t`; on failure the other elements are None.

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
    """For calls that have nothing to do: work has always ended, and memory that is in use stays."""


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
    """The name of a code in words, from the driver API, which numbers these codes alike."""
    known = int(error) in driver.CUresult.__members__.values()
    return words(driver.CUresult(error).name if known else cudaError_t(error).name, "CUDA_ERROR_")


@code_and_value
def cudaRuntimeGetVersion() -> int:
    """A version of CUDA 12."""
    return host.CUDA_VERSION


cudaDriverGetVersion = cudaRuntimeGetVersion


@code_and_value
def cudaGetDeviceCount() -> int:
    """One device."""
    return 1


@code_and_value
def cudaGetDevice() -> int:
    """Device 0."""
    return 0


@code_and_value
def cudaGetDeviceProperties(device: int) -> cudaDeviceProp:
    """What programs print about a device."""
    DEVICE.check_device(device)
    major, minor = host.COMPUTE_CAPABILITY
    return cudaDeviceProp(host.NAME.encode(), host.total_memory(), major, minor, host.ATTRIBUTES[16])


@code_and_two
def cudaMemGetInfo() -> tuple[int, int]:
    """Free and total bytes."""
    return host.free_memory(), host.total_memory()


@code_and_value
def cudaMalloc(size: int, hStream: SupportsIndex | None = None) -> int:
    """New device memory; address 0 for no bytes."""
    DEVICE.check_stream(hStream)
    return DEVICE.allocate(size) if size else 0


cudaMallocAsync = cudaMalloc


@code_and_value
def cudaMallocManaged(size: int, flags: int) -> int:
    """New device memory, which the host can use as well."""
    return DEVICE.allocate(size)


@code_and_value
def cudaMallocHost(size: int, flags: int = 0) -> int:
    """New host memory; address 0 for no bytes."""
    return DEVICE.allocate(size, on_device=False) if size else 0


cudaHostAlloc = cudaMallocHost


@code
def cudaFreeAsync(devPtr: Pointer, hStream: SupportsIndex | None) -> None:
    """Give device memory back."""
    DEVICE.check_stream(hStream)
    DEVICE.release(devPtr)


@code
def cudaMemcpy(
    dst: Pointer, src: Pointer, count: int, kind: SupportsIndex, stream: SupportsIndex | None = None
) -> None:
    """Copy bytes, at once; `kind` says which ends are on the device."""
    DEVICE.copy(dst, src, count, stream, *ends(kind))


cudaMemcpyAsync = cudaMemcpy


@code_and_value
def cudaStreamCreate(*args: int) -> cudaStream_t:
    """A new stream; flags and priority mean nothing here."""
    return cudaStream_t(DEVICE.open_stream())


cudaStreamCreateWithFlags = cudaStreamCreateWithPriority = cudaStreamCreate


@code_and_value
def cudaEventCreate(flags: int = cudaEventDefault) -> cudaEvent_t:
    """A new event."""
    return cudaEvent_t(DEVICE.open_event(timed=not flags & cudaEventDisableTiming))


cudaEventCreateWithFlags = cudaEventCreate


@code_and_value
def cudaStreamIsCapturing(stream: SupportsIndex) -> cudaStreamCaptureStatus:
    """Whether a stream is captured."""
    return cudaStreamCaptureStatus(DEVICE.is_captured(stream))


@code_and_value
def cudaStreamEndCapture(stream: SupportsIndex) -> cudaGraph_t:
    """A graph of what was done on a stream since its capture began."""
    return cudaGraph_t(DEVICE.end_capture(stream))


@code_and_value
def cudaGraphInstantiate(graph: SupportsIndex, *settings: object) -> cudaGraphExec_t:
    """A graph that can be launched; the settings of CUDA 11 and 12 mean nothing here."""
    return cudaGraphExec_t(DEVICE.instantiate(graph))


cudaGraphInstantiateWithFlags = cudaGraphInstantiate


@code_and_value
def cudaGraphExecUpdate(exec: SupportsIndex, graph: SupportsIndex) -> cudaGraphExecUpdateResultInfo:
    """Have a graph that can be launched do what another does."""
    DEVICE.update_graph(exec, graph)
    return cudaGraphExecUpdateResultInfo()
