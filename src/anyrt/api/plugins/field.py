"""Plug-in fields, which programs pass to creators and plans store.

>>> pads = PluginField("pads", np.array([1, 2], np.int32), PluginFieldType.INT32)
>>> PluginFieldCollection([pads])[0].data.tolist(), pads.size
([1, 2], 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, overload

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line, quoted
from anyrt.api.edge.quiet import WrongValue, integer, type_name, wrong_type
from anyrt.api.model.named import checked_text
from anyrt.core.enums import PluginFieldType
from anyrt.core.errors import ArgumentError
from anyrt.core.units import counted

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Array = NDArray[np.generic]

# The NumPy type of each field type. 4-bit types and Dims are not here: their data stays raw bytes.
ELEMENTS: Final[dict[PluginFieldType, np.dtype[np.generic]]] = {
    PluginFieldType.FLOAT16: np.dtype(np.float16),
    PluginFieldType.FLOAT32: np.dtype(np.float32),
    PluginFieldType.FLOAT64: np.dtype(np.float64),
    PluginFieldType.INT8: np.dtype(np.int8),
    PluginFieldType.INT16: np.dtype(np.int16),
    PluginFieldType.INT32: np.dtype(np.int32),
    PluginFieldType.INT64: np.dtype(np.int64),
    PluginFieldType.CHAR: np.dtype(np.int8),
    PluginFieldType.BF16: np.dtype(ml_dtypes.bfloat16),
    PluginFieldType.FP8: np.dtype(ml_dtypes.float8_e4m3fn),
}
NUMBERS: Final = "biuf"  # NumPy kinds that are converted if the field has another type


class One(np.ndarray[tuple[int], np.dtype[np.generic]]):
    """An array that converts to a number if it has one element: programs write `int(field.data)`, which NumPy
    supported until 2.4."""

    def __int__(self) -> int:
        return int(self[0]) if self.shape == (1,) else super().__int__()

    def __float__(self) -> float:
        return float(self[0]) if self.shape == (1,) else super().__float__()


@fold
class PluginField(Fixed):
    """A name with data: an array or another object with a buffer, which is not copied.

    `data` returns the elements as an array of the declared type; a buffer of another type is converted."""

    __slots__ = ("__weakref__", "_buffer", "_name", "_size", "_type")

    def __init__(
        self,
        name: str = "",
        data: ReadableBuffer | None = None,
        type: PluginFieldType = PluginFieldType.UNKNOWN,
    ) -> None:
        self._buffer: Array | None = None
        self._size = 0
        self.name = name
        self.type = type
        if data is not None:
            self.data = data

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        if not isinstance(name, str) and type_name(name) != "FallbackString":
            raise wrong_type("PluginField.name", name, "a str")
        self._name = checked_text(str(name), "PluginField.name")

    @property
    def type(self) -> PluginFieldType:
        """The element type of the data."""
        return self._type

    @type.setter
    def type(self, kind: PluginFieldType) -> None:
        if not isinstance(kind, PluginFieldType):
            raise wrong_type("PluginField.type", kind, PluginFieldType)
        self._type = kind

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._size

    @size.setter
    def size(self, count: int) -> None:
        count = integer(count, "PluginField.size")
        most = self._elements().size
        if not 0 <= count <= most:
            got, wanted = f"{count} elements", f"at most {most}, the number of elements of the data"
            raise WrongValue(ArgumentError("AR304", f"PluginField {self._name!r}: size", got, wanted))
        self._size = count

    @property
    def data(self) -> Array:
        """The elements, flat. A single element converts to a number."""
        elements = self._elements()[: self._size]
        return elements.view(One) if self._size == 1 else elements

    @data.setter
    def data(self, data: ReadableBuffer) -> None:
        self._buffer = _array(data, f"PluginField {self._name!r}: data")
        self._size = self._elements().size

    def _elements(self) -> Array:
        """All elements of the buffer."""
        buffer = self._buffer
        if buffer is None:
            return np.empty(0, ELEMENTS.get(self._type, np.dtype(np.uint8)))
        dtype = ELEMENTS.get(self._type)
        if self._type is PluginFieldType.CHAR and buffer.dtype.kind in "SU":
            text = "".join(
                x.decode() if isinstance(x, bytes) else str(x) for x in buffer.reshape(-1).tolist()
            )
            return np.frombuffer(text.encode(), np.int8)
        if dtype is None or dtype == buffer.dtype:
            return buffer.reshape(-1)
        if (
            buffer.dtype.itemsize != dtype.itemsize
            and buffer.dtype.kind in NUMBERS
            and buffer.dtype != np.uint8
        ):
            return buffer.reshape(-1).astype(dtype)
        raw = np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
        return raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)

    @one_line
    def __repr__(self) -> str:
        return f" {quoted(self._name)}: {counted(self._size, 'element')}, {self._type.name}"


def _array(data: object, where: str) -> Array:
    """The buffer of `data` as an array; TypeError if it has none."""
    try:
        view = data if isinstance(data, np.ndarray | np.generic) else memoryview(data)  # type: ignore[arg-type]  # an object without a buffer raises TypeError
    except TypeError:
        raise wrong_type(where, data, "a buffer: an array or bytes") from None
    array = np.asarray(view)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def buffer_of(field: PluginField) -> Array | None:
    """The buffer as it was passed, of any type; None without data."""
    return field._buffer


@fold
class PluginFieldCollection(Fixed):
    """A list of fields."""

    __slots__ = ("__weakref__", "_items")

    def __init__(self, arg0: PluginFieldCollection | Iterable[PluginField] = ()) -> None:
        self._items: list[PluginField] = [_field(x) for x in arg0]

    def append(self, x: PluginField) -> None:
        """Add a field at the end."""
        self._items.append(_field(x))

    def extend(self, L: PluginFieldCollection | Iterable[PluginField]) -> None:
        """Add fields at the end."""
        self._items.extend(map(_field, L))

    def insert(self, i: int, x: PluginField) -> None:
        """Add a field before number `i`."""
        self._items.insert(i, _field(x))

    def clear(self) -> None:
        """Remove all fields."""
        self._items.clear()

    def pop(self, i: int = -1) -> PluginField:
        """Remove and return a field (default: the last one)."""
        return self._items.pop(i)

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def __iter__(self) -> Iterator[PluginField]:
        return iter(self._items)

    @overload
    def __getitem__(self, arg0: int) -> PluginField: ...
    @overload
    def __getitem__(self, arg0: slice) -> PluginFieldCollection: ...
    def __getitem__(self, arg0: int | slice) -> PluginField | PluginFieldCollection:
        selected = self._items[arg0]
        return PluginFieldCollection(selected) if isinstance(selected, list) else selected

    def __setitem__(
        self, arg0: int | slice, arg1: PluginField | PluginFieldCollection | Iterable[PluginField]
    ) -> None:
        if isinstance(arg0, slice):
            self._items[arg0] = list(PluginFieldCollection(arg1))  # type: ignore[arg-type]  # its constructor rejects a field
        else:
            self._items[arg0] = _field(arg1)

    def __delitem__(self, arg0: int | slice) -> None:
        del self._items[arg0]

    @one_line
    def __repr__(self) -> str:
        return f" of {counted(len(self._items), 'field')}"


def _field(x: object) -> PluginField:
    if not isinstance(x, PluginField):
        raise wrong_type("PluginFieldCollection", x, "a PluginField")
    return x


@fold
class PluginFieldCollection_(Fixed):
    """The fields that a creator receives."""

    __slots__ = ("__weakref__", "_items")

    def __init__(self, arg0: PluginFieldCollection) -> None:
        self._items = tuple(PluginFieldCollection(arg0))

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, arg0: int) -> PluginField:
        return self._items[arg0]

    @one_line
    def __repr__(self) -> str:
        return f" of {counted(len(self._items), 'field')}"


Fields = PluginFieldCollection | PluginFieldCollection_ | list[PluginField] | tuple[PluginField, ...]


def fields(argument: object, where: str) -> PluginFieldCollection_:
    """The field collection of an argument; an empty one for None, TypeError for anything else."""
    if isinstance(argument, PluginFieldCollection_):
        return argument
    if argument is None:
        return PluginFieldCollection_(PluginFieldCollection())
    if isinstance(argument, PluginFieldCollection | list | tuple):
        return PluginFieldCollection_(PluginFieldCollection(argument))
    raise wrong_type(where, argument, "a PluginFieldCollection")


def listed(argument: object, where: str) -> tuple[PluginField, ...]:
    """The fields of a field collection or list; TypeError for anything else."""
    return fields(argument, where)._items
