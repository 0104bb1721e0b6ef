"""Less common functions of `cuda.bindings.runtime`: pitched memory, pools, settings of the device.

>>> cudaDeviceCanAccessPeer(0, 0), cudaDeviceGetStreamPriorityRange()[1:]
((<cudaError_t.cudaSuccess: 0>, 0), (0, 0))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import SupportsIndex

from anyrt.compat.cuda.driver_types import CUmemoryPool
from anyrt.compat.cuda.runtime_types import code, code_and_two, code_and_value, cudaMemcpyKind, ends
from anyrt.compat.host.device import BUS, DEVICE, Pointer, span_of


class cudaMemoryType(IntEnum):
    """The kind of memory at an address."""

    cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged = range(4)


class cudaLimit(IntEnum):
    """Limits of a device, which are stored and have no effect."""

    cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize = range(3)
    cudaLimitDevRuntimeSyncDepth, cudaLimitDevRuntimePendingLaunchCount = range(3, 5)
    cudaLimitMaxL2FetchGranularity, cudaLimitPersistingL2CacheSize = range(5, 7)


class cudaMemPoolAttr(IntEnum):
    """Settings of a memory pool, which are stored and have no effect: memory is freed at once."""

    cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic = 1, 2
    cudaMemPoolReuseAllowInternalDependencies, cudaMemPoolAttrReleaseThreshold = 3, 4
    cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrReservedMemHigh = 5, 6
    cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh = 7, 8


class cudaMemAllocationType(IntEnum):
    """The kind of memory of a pool: there is only one."""

    cudaMemAllocationTypeInvalid, cudaMemAllocationTypePinned = 0, 1
    cudaMemAllocationTypeMax = 0x7FFFFFFF


class cudaMemAllocationHandleType(IntEnum):
    """The handle type for sharing memory of a pool with other processes, which has no effect."""

    cudaMemHandleTypeNone, cudaMemHandleTypePosixFileDescriptor, cudaMemHandleTypeWin32 = 0, 1, 2
    cudaMemHandleTypeWin32Kmt, cudaMemHandleTypeFabric = 4, 8


class cudaMemLocationType(IntEnum):
    """The kind of location of memory."""

    cudaMemLocationTypeInvalid, cudaMemLocationTypeDevice, cudaMemLocationTypeHost = range(3)
    cudaMemLocationTypeHostNuma, cudaMemLocationTypeHostNumaCurrent = 3, 4


@dataclass(slots=True)
class cudaMemLocation:
    """A location of memory, whose fields programs set."""

    type: cudaMemLocationType = cudaMemLocationType.cudaMemLocationTypeInvalid
    id: int = 0


@dataclass(slots=True)
class cudaMemPoolProps:
    """The requested properties of a pool, which have no effect: there is only one pool."""

    allocType: cudaMemAllocationType = cudaMemAllocationType.cudaMemAllocationTypeInvalid
    handleTypes: cudaMemAllocationHandleType = cudaMemAllocationHandleType.cudaMemHandleTypeNone
    location: cudaMemLocation = field(default_factory=cudaMemLocation)
    win32SecurityAttributes: int = 0
    maxSize: int = 0
    usage: int = 0
    reserved: bytes = b""


class cudaMemPool_t(CUmemoryPool):
    """The memory pool; there is only one."""


@dataclass(frozen=True, slots=True)
class cudaPointerAttributes:
    """The attributes of an address."""

    type: cudaMemoryType
    device: int
    devicePointer: int
    hostPointer: int


cudaHostRegisterDefault, cudaHostRegisterPortable, cudaHostRegisterMapped = 0, 1, 2
cudaEventRecordDefault, cudaEventWaitDefault = 0, 0
cudaDeviceScheduleAuto, cudaDeviceScheduleSpin, cudaDeviceScheduleYield = 0, 1, 2
cudaDeviceScheduleBlockingSync, cudaDeviceMapHost = 4, 8
cudaCpuDeviceId, cudaInvalidDeviceId = -1, -2
_POOL = cudaMemPool_t(0x20)

cudaHostRegister = code(DEVICE.adopt)
cudaHostUnregister = code(DEVICE.disown)
cudaLaunchHostFunc = code(DEVICE.call_back)


@code
def _nothing(*args: object) -> None:
    """Return success, without an effect: all memory is in one place, and no work is profiled or scheduled."""


cudaMemPrefetchAsync = cudaMemAdvise = cudaSetDeviceFlags = cudaInitDevice = _nothing
cudaProfilerStart = cudaProfilerStop = cudaMemPoolTrimTo = cudaMemPoolDestroy = _nothing
cudaDeviceSetLimit = code(partial(DEVICE.keep, "limit"))
cudaMemPoolSetAttribute = code(lambda memPool, attr, value: DEVICE.keep("pool", attr, value))


@code_and_value
def cudaDeviceGetLimit(limit: SupportsIndex) -> int:
    """A limit that was set, or 0."""
    return DEVICE.kept("limit", limit)


@code_and_value
def cudaMemPoolGetAttribute(memPool: SupportsIndex, attr: SupportsIndex) -> int:
    """A setting that was set, or 0."""
    return DEVICE.kept("pool", attr)


@code_and_value
def cudaGetDeviceFlags() -> int:
    """The flags of the device: none."""
    return 0


@code_and_value
def cudaHostGetDevicePointer(pHost: Pointer, flags: int) -> int:
    """The device address of host memory: the same address."""
    return DEVICE.own(pHost).address


@code_and_value
def cudaPointerGetAttributes(ptr: Pointer) -> cudaPointerAttributes:
    """The attributes of an address; memory outside all allocations is unregistered memory of the program."""
    address, block = span_of(ptr).address, DEVICE.find(ptr)
    if block is None:
        return cudaPointerAttributes(cudaMemoryType.cudaMemoryTypeUnregistered, -2, 0, address)
    kind = cudaMemoryType.cudaMemoryTypeDevice if block.on_device else cudaMemoryType.cudaMemoryTypeHost
    return cudaPointerAttributes(kind, 0, address, 0 if block.on_device else address)


@code_and_two
def cudaDeviceGetStreamPriorityRange() -> tuple[int, int]:
    """The range of priorities: 0 to 0, as on devices without priorities."""
    return 0, 0


@code_and_value
def cudaStreamGetPriority(hStream: SupportsIndex) -> int:
    """The priority of a stream: 0."""
    DEVICE.check_stream(hStream)
    return 0


cudaStreamGetFlags = cudaStreamGetPriority


@code_and_value
def cudaDeviceCanAccessPeer(device: SupportsIndex, peerDevice: SupportsIndex) -> int:
    """False: there is no other device."""
    DEVICE.check_device(device)
    DEVICE.check_device(peerDevice)
    return 0


@code_and_value
def cudaDeviceGetPCIBusId(length: int, device: SupportsIndex) -> bytes:
    """A PCI address that does not exist, truncated to `length` bytes."""
    DEVICE.check_device(device)
    return BUS.encode()[:length]


@code_and_value
def cudaDeviceGetDefaultMemPool(device: SupportsIndex) -> cudaMemPool_t:
    """The pool."""
    DEVICE.check_device(device)
    return _POOL


cudaDeviceGetMemPool = cudaDeviceGetDefaultMemPool


@code_and_value
def cudaMemPoolCreate(poolProps: object) -> cudaMemPool_t:
    """The pool."""
    return _POOL


@code_and_value
def cudaMallocFromPoolAsync(size: int, memPool: SupportsIndex, stream: SupportsIndex | None) -> int:
    """Allocate device memory."""
    DEVICE.check_stream(stream)
    return DEVICE.allocate(size)


@code_and_two
def cudaMallocPitch(width: int, height: int) -> tuple[int, int]:
    """Allocate device memory for rows; returns the address and the bytes between the starts of two rows."""
    pitch = -(-width // 512) * 512
    return DEVICE.allocate(pitch * height), pitch


@code
def cudaMemcpyPeer(
    dst: Pointer,
    dstDevice: SupportsIndex,
    src: Pointer,
    srcDevice: SupportsIndex,
    count: int,
    stream: SupportsIndex | None = None,
) -> None:
    """Copy bytes from the device to itself."""
    DEVICE.check_device(dstDevice)
    DEVICE.check_device(srcDevice)
    DEVICE.copy(dst, src, count, stream, to_device=True, from_device=True)


cudaMemcpyPeerAsync = cudaMemcpyPeer


@code
def cudaMemcpy2D(
    dst: Pointer,
    dpitch: int,
    src: Pointer,
    spitch: int,
    width: int,
    height: int,
    kind: cudaMemcpyKind,
    stream: SupportsIndex | None = None,
) -> None:
    """Copy rows of `width` bytes, `dpitch` and `spitch` bytes apart."""
    DEVICE.copy_rows(dst, dpitch, src, spitch, width, height, stream, *ends(kind))


cudaMemcpy2DAsync = cudaMemcpy2D


@code
def cudaMemset2D(
    devPtr: Pointer, pitch: int, value: int, width: int, height: int, stream: SupportsIndex | None = None
) -> None:
    """Fill rows of `width` bytes, `pitch` bytes apart."""
    start = span_of(devPtr).address
    for row in range(height):
        DEVICE.fill(start + row * pitch, value, width, stream)


cudaMemset2DAsync = cudaMemset2D
