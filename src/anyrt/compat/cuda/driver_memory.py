"""Less common functions of `cuda.bindings.driver`; those that need a GPU raise AR901.

>>> cuDeviceComputeCapability(0), cuCtxGetApiVersion(None)[1]
((<CUresult.CUDA_SUCCESS: 0>, 8, 0), 12080)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import SupportsIndex

from anyrt.compat.cuda.driver_types import CUdeviceptr, code, code_and_two, code_and_value
from anyrt.compat.host import device as host
from anyrt.compat.host.device import DEVICE, DeviceFault, Fault, Pointer


class CUmemorytype(IntEnum):
    """The kind of memory at an address."""

    CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_UNIFIED = range(1, 5)


class CUpointer_attribute(IntEnum):
    """Attributes of an address."""

    CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 1, 2
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER = 3, 4
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9


class CUmemAttach_flags(IntEnum):
    """The first user of managed memory, which has no effect."""

    CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST, CU_MEM_ATTACH_SINGLE = 1, 2, 4


@dataclass(frozen=True, slots=True)
class CUuuid:
    """The UUID of a device."""

    bytes: bytes


CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP = 1, 2
CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_WRITECOMBINED = 1, 2, 4

cuMemHostRegister = code(DEVICE.adopt)
cuMemHostUnregister = code(DEVICE.disown)
cuLaunchHostFunc = code(DEVICE.call_back)


@code
def _nothing(*args: object) -> None:
    """Return success, without an effect."""


cuProfilerStart = cuProfilerStop = cuDevicePrimaryCtxReset = cuDevicePrimaryCtxSetFlags = _nothing
cuCtxSetLimit = code(partial(DEVICE.keep, "limit"))


@code_and_value
def cuCtxGetLimit(limit: SupportsIndex) -> int:
    """A limit that was set, or 0."""
    return DEVICE.kept("limit", limit)


@code_and_value
def cuCtxGetApiVersion(ctx: SupportsIndex | None) -> int:
    """The version that is reported: CUDA 12."""
    return host.CUDA_VERSION


@code_and_value
def cuCtxGetFlags() -> int:
    """The flags of the context: none."""
    return 0


@code_and_two
def cuCtxGetStreamPriorityRange() -> tuple[int, int]:
    """The range of priorities: 0 to 0, as on devices without priorities."""
    return 0, 0


@code_and_two
def cuDevicePrimaryCtxGetState(dev: SupportsIndex) -> tuple[int, int]:
    """The state of the primary context: no flags, active."""
    DEVICE.check_device(dev)
    return 0, 1


@code_and_two
def cuDeviceComputeCapability(dev: SupportsIndex) -> tuple[int, int]:
    """The compute capability: major and minor number."""
    DEVICE.check_device(dev)
    return host.COMPUTE_CAPABILITY


@code_and_value
def cuDeviceGetUuid(dev: SupportsIndex) -> CUuuid:
    """The UUID of the device: zeros."""
    DEVICE.check_device(dev)
    return CUuuid(bytes(16))


@code_and_value
def cuDeviceGetPCIBusId(length: int, dev: SupportsIndex) -> bytes:
    """A PCI address that does not exist, truncated to `length` bytes."""
    DEVICE.check_device(dev)
    return host.BUS.encode()[:length]


@code_and_value
def cuDeviceCanAccessPeer(dev: SupportsIndex, peerDev: SupportsIndex) -> int:
    """False: there is no other device."""
    DEVICE.check_device(dev)
    DEVICE.check_device(peerDev)
    return 0


@code_and_value
def cuStreamGetPriority(hStream: SupportsIndex) -> int:
    """The priority of a stream: 0."""
    DEVICE.check_stream(hStream)
    return 0


cuStreamGetFlags = cuStreamGetPriority


@code_and_value
def cuMemHostGetDevicePointer(p: Pointer, Flags: int) -> CUdeviceptr:
    """The device address of host memory: the same address."""
    return CUdeviceptr(DEVICE.own(p).address)


@code_and_value
def cuMemAllocManaged(bytesize: int, flags: int) -> CUdeviceptr:
    """Allocate device memory, which the host can access, too."""
    return CUdeviceptr(DEVICE.allocate(bytesize))


@code_and_two
def cuMemAllocPitch(WidthInBytes: int, Height: int, ElementSizeBytes: int) -> tuple[CUdeviceptr, int]:
    """Allocate device memory for rows; returns the address and the bytes between the starts of two rows."""
    pitch = -(-WidthInBytes // 512) * 512
    return CUdeviceptr(DEVICE.allocate(pitch * Height)), pitch


@code_and_two
def cuMemGetAddressRange(dptr: Pointer) -> tuple[CUdeviceptr, int]:
    """The start and the size of an allocation."""
    block = DEVICE.find(dptr)
    if block is None:
        raise DeviceFault(Fault.INVALID_VALUE)
    return CUdeviceptr(block.address), block.nbytes


@code_and_value
def cuPointerGetAttribute(attribute: CUpointer_attribute, ptr: Pointer) -> object:
    """An attribute of an address in an allocation."""
    block, address = DEVICE.find(ptr), DEVICE.own(ptr).address
    match int(attribute):
        case CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            on_device = block is not None and block.on_device
            return CUmemorytype.CU_MEMORYTYPE_DEVICE if on_device else CUmemorytype.CU_MEMORYTYPE_HOST
        case CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            return CUdeviceptr(address)
        case CUpointer_attribute.CU_POINTER_ATTRIBUTE_HOST_POINTER:
            return address
        case CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            return 0
    raise DeviceFault(Fault.NOT_SUPPORTED)
