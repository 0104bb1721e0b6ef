"""The tensors that an `impl` function receives: a description, and an address in memory of the CPU.

NumPy and PyTorch use that memory without a copy: `numpy.asarray(t)`, `torch.as_tensor(t)`.

>>> memory = np.arange(6, dtype=np.float32)
>>> desc = PluginTensorDesc()
>>> desc.dims, desc.type = (2, 3), DataType.FLOAT
>>> t = tensor(desc, memory.ctypes.data)
>>> np.asarray(t)[1] = 9
>>> memory.tolist(), t.numel(), t.strides
([0.0, 1.0, 2.0, 9.0, 9.0, 9.0], 6, (3, 1))
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import WrongValue, wrong_type
from anyrt.api.plugins.desc import PluginTensorDesc
from anyrt.api.plugins.functions.shape import Shape
from anyrt.core.dtype import is_packed, numpy_dtype, short_name
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import ArgumentError, BindingError, MissingName, ShapeError
from anyrt.core.formats import order, padded, splits

if TYPE_CHECKING:
    from typing_extensions import CapsuleType  # in types from Python 3.13

Array = npt.NDArray[np.generic]

# Element types that NumPy cannot export by DLPack, with DLPack's type codes.
_DLPACK: Final = {DataType.BF16: 4, DataType.FP8: 10, DataType.FP8E5M2: 12}
_CODE_AT: Final = 20  # offset of the type code in a DLTensor, in bytes
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class _Exports(Protocol):
    def __dlpack__(self, *, max_version: tuple[int, int] | None) -> CapsuleType: ...


class Tensor(Fixed):
    """A tensor with the address of its memory, `data_ptr`. The attributes of an inference's tensors are
    read-only, and so is the memory of inputs."""

    __slots__ = (
        *("__weakref__", "_aliased_to", "_data_ptr", "_desc", "_dtype", "_format", "_frozen", "_read_only"),
        *("_scale", "_shape", "_stream", "_strides"),
    )

    def __init__(self) -> None:
        self._frozen = False
        self._data_ptr: int | None = None
        self._desc: PluginTensorDesc | None = None
        self._shape: Shape | None = None
        self._strides: tuple[int, ...] | None = None
        self._dtype: DataType | None = None
        self._format: TensorFormat | None = None
        self._scale: float | None = None
        self._stream: int | None = None
        self._read_only = False
        self._aliased_to: Tensor | None = None

    @property
    def data_ptr(self) -> int:
        """The address of its first byte."""
        return self._data_ptr  # type: ignore[return-value]  # None until it was set, as in TensorRT

    @data_ptr.setter
    def data_ptr(self, value: int) -> None:
        self._change("data_ptr")
        self._data_ptr = value

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return self._dtype  # type: ignore[return-value]  # as above

    @dtype.setter
    def dtype(self, value: DataType) -> None:
        self._change("dtype")
        self._dtype = value

    @property
    def shape(self) -> Shape:
        """The dimensions; −1 for a data-dependent one."""
        if self._shape is None and self._desc is not None:
            self._shape = Shape(self._desc)
        return self._shape  # type: ignore[return-value]  # as above

    @shape.setter
    def shape(self, value: Shape) -> None:
        self._change("shape")
        self._shape = value

    @property
    def format(self) -> TensorFormat:
        """The memory format."""
        return self._format  # type: ignore[return-value]  # as above

    @format.setter
    def format(self, value: TensorFormat) -> None:
        self._change("format")
        self._format = value

    @property
    def scale(self) -> float:
        """The scale of an INT8 tensor."""
        return self._scale  # type: ignore[return-value]  # as above

    @scale.setter
    def scale(self, value: float) -> None:
        self._change("scale")
        self._scale = value

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in elements; BindingError AR703 for a format whose channels are not contiguous,
        ValueError if `is_data_dependent`."""
        if self._strides is None:
            return _strides(self)
        return self._strides

    @strides.setter
    def strides(self, value: tuple[int, ...]) -> None:
        self._change("strides")
        self._strides = value

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def is_data_dependent(self) -> bool:
        """Whether this call of the plug-in determines a dimension: write to the result of
        `aliased(shape)`."""
        return self.shape.is_dynamic

    @property
    def is_aliased(self) -> bool:
        """Whether it shares its memory with another tensor, `get_aliased()`."""
        return self._aliased_to is not None

    def get_aliased(self) -> Tensor | None:
        """The other tensor in the same memory; None if there is none."""
        return self._aliased_to

    def numel(self) -> int:
        """The number of elements; ValueError if `is_data_dependent`."""
        return self.shape.numel()

    def aliased(self, shape: Shape | tuple[int, ...] | PluginTensorDesc | None = None) -> Tensor:
        """A tensor of the same memory with another shape (default: the same shape). ValueError if the shape
        has more elements."""
        if shape is not None and not isinstance(shape, Shape | PluginTensorDesc | tuple):
            raise WrongValue(wrong_type("Tensor.aliased", shape, "a tuple of ints or a Shape"))
        alias = Tensor()
        for name in ("_data_ptr", "_dtype", "_format", "_scale", "_stream", "_read_only"):
            setattr(alias, name, getattr(self, name))
        sizes = self.shape if shape is None else shape
        alias._shape = Shape(sizes if isinstance(sizes, PluginTensorDesc) else tuple(sizes))
        alias._aliased_to = self
        known = not self.is_data_dependent and not alias.is_data_dependent
        if known and alias.numel() > self.numel():
            got, wanted = f"{alias.numel()} elements", f"at most {self.numel()}"
            raise WrongValue(ShapeError("AR108", "Tensor.aliased", got, wanted, "use a smaller shape"))
        return alias

    @property
    def __array_interface__(self) -> dict[str, object]:
        """NumPy's protocol; inputs are read-only."""
        array = memory(self)
        if self.dtype in _DLPACK or array.dtype.kind == "V":  # the protocol has no names for these types
            raise AttributeError("use __array__")
        return {**array.__array_interface__, "data": (self.data_ptr, self._read_only)}

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        array = memory(self)
        if self._read_only:
            array.flags.writeable = False
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """PyTorch's protocol. It does not support read-only memory: do not write to inputs."""
        array = memory(self)
        if copy:
            array = array.copy()
        if self.dtype not in _DLPACK:
            own: _Exports = array  # NumPy's stubs restrict it to arrays of numbers
            return own.__dlpack__(max_version=max_version)
        capsule = array.view(f"u{array.itemsize}").__dlpack__()
        code = ctypes.c_uint8.from_address((_pointer_of(capsule, b"dltensor") or 0) + _CODE_AT)
        code.value = _DLPACK[self.dtype]
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the processor

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """AttributeError AR901, so that libraries use the host memory instead."""
        do = "numpy.asarray(t) and torch.as_tensor(t) work on it"
        raise MissingName("AR901", "Tensor.__cuda_array_interface__", "host memory", "memory of a GPU", do)

    def _change(self, what: str) -> None:
        if self._frozen:
            got, do = f"a new {what}", "use aliased(shape), which returns another tensor"
            raise WrongValue(ArgumentError("AR310", "Tensor", got, "no change during an inference", do))

    @one_line
    def __repr__(self) -> str:
        kind = "no type" if self._dtype is None else short_name(self._dtype)
        return f": {kind} {tuple(self.shape or ())} at {self._data_ptr or 0:#x}"


def tensor(desc: PluginTensorDesc, address: int, stream: int = 0, read_only: bool = False) -> Tensor:
    """The tensor of an inference that `desc` describes, at `address`."""
    result = Tensor()
    result._desc, result._data_ptr, result._stream, result._read_only = desc, address, stream, read_only
    result._dtype, result._format, result._scale = desc.type, desc.format, desc.scale
    result._frozen = True
    return result


def share(a: Tensor, b: Tensor) -> None:
    """Record that both share their memory."""
    a._aliased_to, b._aliased_to = b, a


def memory(t: Tensor) -> Array:
    """The memory of a tensor as a writable array of its shape."""
    if is_packed(t.dtype):
        got, do = f"{short_name(t.dtype)}, which packs several elements into a byte", "read bytes at data_ptr"
        raise BindingError("AR703", "Tensor", got, "elements of at least one byte", do)
    shape, kind = tuple(t.shape), numpy_dtype(t.dtype)
    if t.is_data_dependent:
        raise _open(t)
    strides = t.strides
    if 0 in shape:
        return np.empty(shape, kind)
    elements = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    held = (ctypes.c_uint8 * (elements * kind.itemsize)).from_address(t.data_ptr)
    flat: Array = np.frombuffer(memoryview(held), kind)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * kind.itemsize for s in strides])


def _strides(t: Tensor) -> tuple[int, ...]:
    if t.is_data_dependent:
        raise _open(t)
    if splits(t.format):
        got, do = f"{t.format.name}, whose channels are not contiguous", "read it at data_ptr"
        raise BindingError("AR703", "Tensor.strides", got, "a format with strides", do)
    shape = tuple(t.shape)
    whole, strides, step = padded(t.format, t.dtype, shape), [1] * len(shape), 1
    for axis in reversed(order(t.format, len(shape))):
        size = whole[axis]
        assert isinstance(size, int), "an inference has static shapes"
        strides[axis], step = step, step * size
    return tuple(strides)


def _open(t: Tensor) -> WrongValue:
    do = "pass the dimensions: np.asarray(outputs[0].aliased((count, 2)))"
    return WrongValue(
        ShapeError("AR123", "Tensor", f"{t.shape}, which is data-dependent", "its dimensions", do)
    )
