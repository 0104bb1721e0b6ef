"""Stand-in for `cuda.bindings.driver` (and `cuda.cuda`): the driver API over host memory.

Every function gives a tuple whose first element is a `CUresult`; on failure the other elements are None.

>>> err, pointer = cuMemAlloc(64)
>>> err.name, cuMemFree(pointer)[0].name, cuMemFree(pointer)[0].name
('CUDA_SUCCESS', 'CUDA_SUCCESS', 'CUDA_ERROR_INVALID_VALUE')
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import SupportsIndex

from anyrt.compat import device as host
from anyrt.compat.answers import Answering, words
from anyrt.compat.device import DEVICE, Fault, Pointer


class CUresult(IntEnum):
    """Result codes of the driver API, as far as this stand-in gives them."""

    CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_INITIALIZED = range(4)
    CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE = 100, 101
    CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE = 201, 400
    CUDA_ERROR_NOT_READY, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_NOT_SUPPORTED = 600, 719, 801
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 900, 903
    CUDA_ERROR_UNKNOWN = 999


class CUdevice_attribute(IntEnum):
    """Device attributes that programs ask for."""

    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 75, 76


class CUctx_flags(IntEnum):
    """Scheduling flags of a context, which mean nothing here."""

    CU_CTX_SCHED_AUTO, CU_CTX_SCHED_SPIN, CU_CTX_SCHED_YIELD = range(3)
    CU_CTX_SCHED_BLOCKING_SYNC, CU_CTX_MAP_HOST = 4, 8


class CUstream_flags(IntEnum):
    """Flags of a stream."""

    CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING = range(2)


class CUstreamCaptureMode(IntEnum):
    """How strict a capture is, which makes no difference here."""

    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = range(2)
    CU_STREAM_CAPTURE_MODE_RELAXED = 2


class CUstreamCaptureStatus(IntEnum):
    """Whether a stream is captured."""

    CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE = range(2)
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2


class CUevent_flags(IntEnum):
    """Flags of an event."""

    CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING = range(3)
    CU_EVENT_INTERPROCESS = 4


class _Handle:
    """A number with a type; 0 is "none"."""

    def __init__(self, init_value: SupportsIndex = 0) -> None:
        self._value = int(init_value)

    def __int__(self) -> int:
        return self._value

    def __index__(self) -> int:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handle | int) and self._value == int(other)

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._value:#x}>"


class CUdevice(_Handle):
    """A device by number."""


class CUdeviceptr(_Handle):
    """An address of device memory."""


class CUcontext(_Handle):
    """A context; there is one."""


class CUstream(_Handle):
    """A stream."""


class CUevent(_Handle):
    """An event."""


class CUgraph(_Handle):
    """A graph: what was captured."""


class CUgraphExec(_Handle):
    """A graph that can be launched."""


CU_STREAM_LEGACY, CU_STREAM_PER_THREAD = 1, 2
_CONTEXT = CUcontext(0x10)
_CODES = {
    None: CUresult.CUDA_SUCCESS,
    Fault.INVALID_VALUE: CUresult.CUDA_ERROR_INVALID_VALUE,
    Fault.OUT_OF_MEMORY: CUresult.CUDA_ERROR_OUT_OF_MEMORY,
    Fault.INVALID_DEVICE: CUresult.CUDA_ERROR_INVALID_DEVICE,
    Fault.INVALID_HANDLE: CUresult.CUDA_ERROR_INVALID_HANDLE,
    Fault.IS_CAPTURED: CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    Fault.IS_NOT_CAPTURED: CUresult.CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
    Fault.LAUNCH_FAILED: CUresult.CUDA_ERROR_LAUNCH_FAILED,
    Fault.NOT_SUPPORTED: CUresult.CUDA_ERROR_NOT_SUPPORTED,
}
_code, _code_and_value, _code_and_two = (Answering(_CODES, n) for n in range(3))


@_code
def _succeed(*args: object) -> None:
    """For calls with nothing to do: the context exists and is current, and work has always ended."""


cuInit = cuCtxDestroy = cuCtxPushCurrent = cuCtxSetCurrent = cuCtxSynchronize = _succeed
cuDevicePrimaryCtxRelease = _code(DEVICE.check_device)
cuDeviceGetAttribute = _code_and_value(DEVICE.attribute)

cuMemFree = _code(DEVICE.release)
cuMemFreeHost = _code(partial(DEVICE.release, on_device=False))
cuMemcpy = _code(DEVICE.copy)
cuMemcpyHtoD = cuMemcpyHtoDAsync = _code(partial(DEVICE.copy, to_device=True))
cuMemcpyDtoH = cuMemcpyDtoHAsync = _code(partial(DEVICE.copy, from_device=True))
cuMemcpyDtoD = cuMemcpyDtoDAsync = _code(partial(DEVICE.copy, to_device=True, from_device=True))
cuMemsetD8 = cuMemsetD8Async = _code(DEVICE.fill)
cuMemsetD32 = _code(partial(DEVICE.fill, width=4))

cuStreamDestroy = _code(DEVICE.close_stream)
cuStreamSynchronize = cuStreamQuery = _code(DEVICE.finish_stream)
cuStreamBeginCapture = _code(DEVICE.begin_capture)
cuEventDestroy = _code(DEVICE.close_event)
cuEventRecord = _code(DEVICE.record)
cuEventSynchronize = cuEventQuery = _code(DEVICE.check_event)
cuEventElapsedTime = _code_and_value(DEVICE.elapsed_ms)
cuStreamWaitEvent = _code(DEVICE.wait)
cuGraphLaunch = _code(DEVICE.launch)
cuGraphUpload = _code(DEVICE.check_graph)
cuGraphDestroy = cuGraphExecDestroy = _code(DEVICE.close_graph)


@_code_and_value
def cuDriverGetVersion() -> int:
    """A version of CUDA 12."""
    return host.CUDA_VERSION


@_code_and_value
def cuGetErrorName(error: CUresult) -> bytes:
    """The name of a code."""
    return CUresult(error).name.encode()


@_code_and_value
def cuGetErrorString(error: CUresult) -> bytes:
    """The name of a code in words."""
    return words(CUresult(error).name, "CUDA_ERROR_")


@_code_and_value
def cuDeviceGetCount() -> int:
    """One device."""
    return 1


@_code_and_value
def cuDeviceGet(ordinal: int) -> CUdevice:
    """Device 0."""
    DEVICE.check_device(ordinal)
    return CUdevice(ordinal)


@_code_and_value
def cuDeviceGetName(length: int, dev: SupportsIndex) -> bytes:
    """The device's name, cut to `length` bytes."""
    DEVICE.check_device(dev)
    return host.NAME.encode()[:length]


@_code_and_value
def cuDeviceTotalMem(dev: SupportsIndex) -> int:
    """Bytes of memory in this machine."""
    DEVICE.check_device(dev)
    return host.total_memory()


@_code_and_value
def cuCtxCreate(*args: object) -> CUcontext:
    """The context, from (flags, device) or, as in CUDA 13, (parameters, flags, device)."""
    if len(args) not in (2, 3):
        raise TypeError(f"cuCtxCreate takes 2 or 3 arguments, got {len(args)}")
    return _CONTEXT


@_code_and_value
def cuDevicePrimaryCtxRetain(dev: SupportsIndex) -> CUcontext:
    """The context."""
    DEVICE.check_device(dev)
    return _CONTEXT


@_code_and_value
def cuCtxGetCurrent() -> CUcontext:
    """The context."""
    return _CONTEXT


cuCtxPopCurrent = cuCtxGetCurrent


@_code_and_value
def cuCtxGetDevice() -> CUdevice:
    """Device 0."""
    return CUdevice(0)


@_code_and_two
def cuMemGetInfo() -> tuple[int, int]:
    """Free and total bytes."""
    return host.free_memory(), host.total_memory()


@_code_and_value
def cuMemAlloc(bytesize: int, hStream: SupportsIndex | None = None) -> CUdeviceptr:
    """New device memory."""
    DEVICE.check_stream(hStream)
    return CUdeviceptr(DEVICE.allocate(bytesize))


cuMemAllocAsync = cuMemAlloc


@_code
def cuMemFreeAsync(dptr: Pointer, hStream: SupportsIndex | None) -> None:
    """Give device memory back."""
    DEVICE.check_stream(hStream)
    DEVICE.release(dptr)


@_code_and_value
def cuMemAllocHost(bytesize: int, Flags: int = 0) -> int:
    """New host memory."""
    return DEVICE.allocate(bytesize, on_device=False)


cuMemHostAlloc = cuMemAllocHost


@_code_and_value
def cuStreamCreate(Flags: int) -> CUstream:
    """A new stream."""
    return CUstream(DEVICE.open_stream())


@_code_and_value
def cuEventCreate(Flags: int) -> CUevent:
    """A new event."""
    return CUevent(DEVICE.open_event(timed=not Flags & CUevent_flags.CU_EVENT_DISABLE_TIMING))


@_code_and_value
def cuStreamIsCapturing(hStream: SupportsIndex) -> CUstreamCaptureStatus:
    """Whether a stream is captured."""
    return CUstreamCaptureStatus(DEVICE.is_captured(hStream))


@_code_and_value
def cuStreamEndCapture(hStream: SupportsIndex) -> CUgraph:
    """A graph of what was done on a stream since its capture began."""
    return CUgraph(DEVICE.end_capture(hStream))


@_code_and_value
def cuGraphInstantiate(hGraph: SupportsIndex, *settings: object) -> CUgraphExec:
    """A graph that can be launched."""
    return CUgraphExec(DEVICE.instantiate(hGraph))


cuGraphInstantiateWithFlags = cuGraphInstantiate
