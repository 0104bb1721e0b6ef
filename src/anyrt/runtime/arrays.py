"""The address of a user's object: an int, a NumPy array, or any object with DLPack."""

from __future__ import annotations

import ctypes
import operator
from typing import (
    TYPE_CHECKING,
    NamedTuple,
    Protocol,
    SupportsIndex,
    SupportsInt,
    TypeAlias,
    runtime_checkable,
)

import numpy as np
import numpy.typing as npt

from anyrt.core.dtype import bits, is_packed, numpy_dtype, short_name
from anyrt.core.errors import BindingError
from anyrt.plan.plan import Binding

if TYPE_CHECKING:
    from typing_extensions import CapsuleType  # in types from Python 3.13

Array: TypeAlias = npt.NDArray[np.generic]


@runtime_checkable
class DLPack(Protocol):
    """An array of another library."""

    def __dlpack__(self, *, stream: None = None) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


Bindable: TypeAlias = "SupportsIndex | SupportsInt | Array | DLPack"

# Kinds of DLPack devices whose memory the processor reads: CPU, page-locked, managed.
_READABLE = frozenset({1, 3, 13})
FARTHEST = 2**62 - 1  # the largest magnitude of a value that determines sizes; twice that still is an int64


class Bound(NamedTuple):
    """Memory of a tensor; `shape` and `nbytes` are None for a bare address; `owner` keeps it alive."""

    address: int
    shape: tuple[int, ...] | None = None
    nbytes: int | None = None
    owner: object = None


UNBOUND = Bound(0)


def bind(binding: Binding, value: Bindable) -> Bound:
    """The memory of `value` for `binding`; BindingError if it does not fit."""
    if type(value) is int:  # first, since asking for a protocol takes microseconds
        return Bound(_checked(binding, value))
    if isinstance(value, np.ndarray):
        return _bind_array(binding, value)
    if isinstance(value, DLPack):
        return _bind_array(binding, import_dlpack(binding, value), foreign=value)
    return Bound(_address(binding, value))


def _address(binding: Binding, value: SupportsIndex | SupportsInt) -> int:
    if isinstance(value, SupportsIndex):
        return _checked(binding, operator.index(value))
    if isinstance(value, SupportsInt) and not isinstance(value, float | np.floating):  # pointers of others
        return _checked(binding, int(value))
    wanted = "an address, a NumPy array or a DLPack object"
    do = "pass a NumPy array"
    raise BindingError("AR703", binding.name, got=type(value).__name__, wanted=wanted, do=do)


def _checked(binding: Binding, address: int) -> int:
    if not 0 <= address < 1 << 63:
        got, do = f"address {address}", "pass array.ctypes.data, or the array itself"
        raise BindingError("AR705", binding.name, got=got, wanted="a host address", do=do)
    return address


def import_dlpack(binding: Binding, value: DLPack) -> Array:
    """The memory of another library's array as a NumPy array."""
    kind = value.__dlpack_device__()[0]
    if kind not in _READABLE:
        do = "copy it to the host first"
        raise BindingError(
            "AR705", binding.name, got=f"memory of DLPack device {kind}", wanted="host memory", do=do
        )
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        do = "bind its address as an int"
        raise BindingError(
            "AR703",
            binding.name,
            got=f"an array that NumPy refuses ({error})",
            wanted="a DLPack array",
            do=do,
        ) from None


def refuse_masked(binding: Binding, array: Array) -> None:
    """Masked elements are read or written, too, which would go unnoticed."""
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        do = "pass array.filled(value)" if binding.is_input else "pass array.data"
        raise BindingError("AR703", binding.name, got="a masked array", wanted="a plain NumPy array", do=do)


def _bind_array(binding: Binding, array: Array, foreign: object = None) -> Bound:
    refuse_masked(binding, array)
    check_dtype(binding, array)
    if not array.flags.c_contiguous:
        do = "use numpy.ascontiguousarray" if binding.is_input else "allocate it with numpy.empty"
        raise BindingError("AR705", binding.name, got="a strided array", wanted="C-contiguous memory", do=do)
    if not array.flags.aligned:
        got, do = "an array between two elements", "pass array.copy()"
        raise BindingError("AR705", binding.name, got=got, wanted="aligned memory", do=do)
    # NumPy treats DLPack memory as read-only unless the other library declares it writable.
    if not binding.is_input and foreign is None and not array.flags.writeable:
        raise BindingError(
            "AR705",
            binding.name,
            got="a read-only array",
            wanted="a writable array for an output",
            do="allocate it with numpy.empty",
        )
    packed = is_packed(binding.dtype)
    return Bound(array.ctypes.data, None if packed else array.shape, array.nbytes, (array, foreign))


def check_dtype(binding: Binding, array: Array) -> None:
    """The array's element type against the tensor's; packed types travel as uint8 with two or four elements
    each."""
    if is_packed(binding.dtype):
        if array.dtype != np.uint8:
            each = "two" if bits(binding.dtype) == 4 else "four"
            wanted = f"uint8 with {each} {short_name(binding.dtype)} in each"
            got, do = f"an array of {array.dtype}", f"put the first of {each} in the lowest bits of a byte"
            raise BindingError("AR703", binding.name, got=got, wanted=wanted, do=do)
    elif array.dtype != numpy_dtype(binding.dtype):
        do = f"convert it with astype({short_name(binding.dtype)!r})"
        wanted = short_name(binding.dtype)
        raise BindingError("AR703", binding.name, got=f"an array of {array.dtype}", wanted=wanted, do=do)


def read_values(binding: Binding, address: int, count: int) -> tuple[int, ...]:
    """The current elements of a shape tensor in host memory. Beyond `FARTHEST` they are equivalent: ends of
    slices, which then are those of the tensor."""
    dtype = numpy_dtype(binding.dtype)
    content = ctypes.string_at(address, count * dtype.itemsize)
    return tuple(max(-FARTHEST, min(int(x), FARTHEST)) for x in np.frombuffer(content, dtype))


_first_byte = ctypes.c_char.from_buffer
_address_of = ctypes.addressof


def address_of(array: Array) -> int:
    """Where a contiguous array begins: `array.ctypes.data`, eight times as fast if it can be written."""
    try:
        return _address_of(_first_byte(array))  # type: ignore[arg-type]  # NumPy says only from 3.12 that it is a buffer
    except (TypeError, ValueError):  # read-only, empty, or of a type without a buffer format
        return int(array.ctypes.data)
