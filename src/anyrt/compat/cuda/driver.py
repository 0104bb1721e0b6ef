"""Stand-in for `cuda.bindings.driver` (and `cuda.cuda`): the driver API over host memory.

Every function returns a tuple whose first element is a `CUresult`; on failure the other elements are None.

>>> err, pointer = cuMemAlloc(64)
>>> err.name, cuMemFree(pointer)[0].name, cuMemFree(pointer)[0].name
('CUDA_SUCCESS', 'CUDA_SUCCESS', 'CUDA_ERROR_INVALID_VALUE')
"""

from __future__ import annotations

from functools import partial
from typing import SupportsIndex

from anyrt.compat.cuda.driver_kernels import *  # noqa: F403  # a program sees one module
from anyrt.compat.cuda.driver_memory import *  # noqa: F403
from anyrt.compat.cuda.driver_types import *  # noqa: F403
from anyrt.compat.cuda.driver_types import (
    CUcontext,
    CUdevice,
    CUdeviceptr,
    CUevent,
    CUevent_flags,
    CUgraph,
    CUgraphExec,
    CUresult,
    CUstream,
    CUstreamCaptureStatus,
    code,
    code_and_two,
    code_and_value,
)
from anyrt.compat.host import device as host
from anyrt.compat.host.answers import words
from anyrt.compat.host.device import DEVICE, Pointer

_CONTEXT = CUcontext(0x10)


@code
def _succeed(*args: object) -> None:
    """Return success. The context always exists and is current, and work is always complete."""


cuInit = cuCtxDestroy = cuCtxDetach = cuCtxPushCurrent = cuCtxSetCurrent = cuCtxSynchronize = _succeed
cuDevicePrimaryCtxRelease = code(DEVICE.check_device)
cuDeviceGetAttribute = code_and_value(DEVICE.attribute)

cuMemFree = code(DEVICE.release)
cuMemFreeHost = code(partial(DEVICE.release, on_device=False))
cuMemcpy = cuMemcpyAsync = code(DEVICE.copy)
cuMemcpyHtoD = cuMemcpyHtoDAsync = code(partial(DEVICE.copy, to_device=True))
cuMemcpyDtoH = cuMemcpyDtoHAsync = code(partial(DEVICE.copy, from_device=True))
cuMemcpyDtoD = cuMemcpyDtoDAsync = code(partial(DEVICE.copy, to_device=True, from_device=True))
cuMemsetD8 = cuMemsetD8Async = code(DEVICE.fill)
cuMemsetD16 = cuMemsetD16Async = code(partial(DEVICE.fill, width=2))
cuMemsetD32 = cuMemsetD32Async = code(partial(DEVICE.fill, width=4))

cuStreamDestroy = code(DEVICE.close_stream)
cuStreamSynchronize = cuStreamQuery = code(DEVICE.finish_stream)
cuStreamBeginCapture = code(DEVICE.begin_capture)
cuEventDestroy = code(DEVICE.close_event)
cuEventRecord = cuEventRecordWithFlags = code(DEVICE.record)
cuEventSynchronize = cuEventQuery = code(DEVICE.check_event)
cuEventElapsedTime = code_and_value(DEVICE.elapsed_ms)
cuStreamWaitEvent = code(DEVICE.wait)
cuGraphLaunch = code(DEVICE.launch)
cuGraphUpload = code(DEVICE.check_graph)
cuGraphDestroy = cuGraphExecDestroy = code(DEVICE.close_graph)


@code_and_value
def cuDriverGetVersion() -> int:
    """The driver version that is reported: CUDA 12."""
    return host.CUDA_VERSION


@code_and_value
def cuGetErrorName(error: CUresult) -> bytes:
    """The name of a code."""
    return CUresult(error).name.encode()


@code_and_value
def cuGetErrorString(error: CUresult) -> bytes:
    """The description of a code: its name in words."""
    return words(CUresult(error).name, "CUDA_ERROR_")


@code_and_value
def cuDeviceGetCount() -> int:
    """The number of devices: 1."""
    return 1


@code_and_value
def cuDeviceGet(ordinal: int) -> CUdevice:
    """Device 0."""
    DEVICE.check_device(ordinal)
    return CUdevice(ordinal)


@code_and_value
def cuDeviceGetName(length: int, dev: SupportsIndex) -> bytes:
    """The device's name, truncated to `length` bytes."""
    DEVICE.check_device(dev)
    return host.NAME.encode()[:length]


@code_and_value
def cuDeviceTotalMem(dev: SupportsIndex) -> int:
    """The memory of this machine in bytes."""
    DEVICE.check_device(dev)
    return host.total_memory()


@code_and_value
def cuCtxCreate(*args: object) -> CUcontext:
    """The context. Arguments: (flags, device) or, as in CUDA 13, (parameters, flags, device)."""
    if len(args) not in (2, 3):
        raise TypeError(f"cuCtxCreate takes 2 or 3 arguments, got {len(args)}")
    return _CONTEXT


@code_and_value
def cuDevicePrimaryCtxRetain(dev: SupportsIndex) -> CUcontext:
    """The context."""
    DEVICE.check_device(dev)
    return _CONTEXT


@code_and_value
def cuCtxGetCurrent() -> CUcontext:
    """The context."""
    return _CONTEXT


cuCtxPopCurrent = cuCtxGetCurrent


@code_and_value
def cuCtxGetDevice() -> CUdevice:
    """Device 0."""
    return CUdevice(0)


@code_and_two
def cuMemGetInfo() -> tuple[int, int]:
    """The free and the total memory in bytes."""
    return host.free_memory(), host.total_memory()


@code_and_value
def cuMemAlloc(bytesize: int, hStream: SupportsIndex | None = None) -> CUdeviceptr:
    """Allocate device memory."""
    DEVICE.check_stream(hStream)
    return CUdeviceptr(DEVICE.allocate(bytesize))


cuMemAllocAsync = cuMemAlloc


@code
def cuMemFreeAsync(dptr: Pointer, hStream: SupportsIndex | None) -> None:
    """Free device memory."""
    DEVICE.check_stream(hStream)
    DEVICE.release(dptr)


@code_and_value
def cuMemAllocHost(bytesize: int, Flags: int = 0) -> int:
    """Allocate host memory."""
    return DEVICE.allocate(bytesize, on_device=False)


cuMemHostAlloc = cuMemAllocHost


@code_and_value
def cuStreamCreate(Flags: int, priority: int = 0) -> CUstream:
    """Create a stream."""
    return CUstream(DEVICE.open_stream())


cuStreamCreateWithPriority = cuStreamCreate


@code_and_value
def cuEventCreate(Flags: int) -> CUevent:
    """Create an event."""
    return CUevent(DEVICE.open_event(timed=not Flags & CUevent_flags.CU_EVENT_DISABLE_TIMING))


@code_and_value
def cuStreamIsCapturing(hStream: SupportsIndex) -> CUstreamCaptureStatus:
    """Whether a stream is captured."""
    return CUstreamCaptureStatus(DEVICE.is_captured(hStream))


@code_and_value
def cuStreamEndCapture(hStream: SupportsIndex) -> CUgraph:
    """End the capture of a stream and return its graph."""
    return CUgraph(DEVICE.end_capture(hStream))


@code_and_value
def cuGraphInstantiate(hGraph: SupportsIndex, *settings: object) -> CUgraphExec:
    """Instantiate a graph for launches."""
    return CUgraphExec(DEVICE.instantiate(hGraph))


cuGraphInstantiateWithFlags = cuGraphInstantiate
