"""Attributes of a plug-in: values in a call, and their fields in a plan.

>>> field = to_field("pads", value("my::pad", "pads", int, np.int32(3)))
>>> field.type.name, from_field(field, int)
('INT64', 3)
"""

from __future__ import annotations

import operator
from typing import Final, SupportsIndex

import numpy as np
import numpy.typing as npt

from anyrt.api.edge.quiet import WrongValue, is_masked, type_name
from anyrt.api.plugins.field import PluginField
from anyrt.api.plugins.functions.signature import element, is_array, shown
from anyrt.core.enums_more import PluginFieldType
from anyrt.core.errors import ArgumentError

Array = npt.NDArray[np.generic]

FIELDS: Final = {
    np.dtype(np.int8): PluginFieldType.INT8,
    np.dtype(np.int16): PluginFieldType.INT16,
    np.dtype(np.int32): PluginFieldType.INT32,
    np.dtype(np.int64): PluginFieldType.INT64,
    np.dtype(np.float16): PluginFieldType.FLOAT16,
    np.dtype(np.float32): PluginFieldType.FLOAT32,
    np.dtype(np.float64): PluginFieldType.FLOAT64,
    np.dtype(np.bool_): PluginFieldType.INT8,
}
_PLAIN: Final[dict[object, type[np.generic]]] = {int: np.int64, float: np.float64, bool: np.bool_}


def value(where: str, name: str, kind: object, given: object) -> object:
    """`given` in the type of the attribute's annotation; ValueError if it is not of that kind."""
    if is_array(kind):
        return _array(where, name, kind, given)
    found = _plain(kind, given)
    if found is None:
        raise _wrong(where, name, type_name(given), shown(kind), "")
    if kind is int and not -(1 << 63) <= int(found) < 1 << 63:  # type: ignore[call-overload]  # an int
        raise _wrong(where, name, str(found), "an int of 64 bits", "split it")
    return found


def _plain(kind: object, given: object) -> object:
    """A number, text or bytes of the kind; None for another."""
    if kind is bool:
        return bool(given) if isinstance(given, bool | np.bool_) else None
    if isinstance(given, bool | np.bool_):
        return None
    if kind is int:
        return operator.index(given) if isinstance(given, SupportsIndex) and not _is_array(given) else None
    if kind is float:
        return float(given) if isinstance(given, int | float | np.integer | np.floating) else None
    assert isinstance(kind, type), "read() refuses others"
    return given if isinstance(given, kind) else None


def _array(where: str, name: str, kind: object, given: object) -> Array:
    wanted = element(kind)
    told = "a NumPy array" if wanted is None else f"a NumPy array of {wanted}"
    if not isinstance(given, np.ndarray) or is_masked(given):
        do = f"write np.array(..., np.{wanted or 'int32'})"
        raise _wrong(where, name, type_name(given), told, do)
    if given.dtype not in FIELDS or (wanted is not None and given.dtype != wanted):
        raise _wrong(where, name, f"an array of {given.dtype}", told, f"convert it: {name}.astype(...)")
    if given.ndim > 1:
        do = f"pass {name}.reshape(-1), and its shape as another attribute"
        raise _wrong(where, name, f"{given.ndim} axes", "one axis or none", do)
    return given.copy().reshape(-1)  # a field of a plan has one axis


def _is_array(given: object) -> bool:
    return isinstance(given, np.ndarray)  # of which one with one element has an index


def to_field(name: str, value: object) -> PluginField:
    """The field that keeps a value."""
    match value:
        case str():
            return PluginField(name, value.encode(), PluginFieldType.CHAR)
        case bytes():
            return PluginField(name, value, PluginFieldType.UNKNOWN)
        case np.ndarray():
            return _of(name, value)
    return _of(name, np.array([value], _PLAIN[type(value)]))


def _of(name: str, array: Array) -> PluginField:
    kept = array.view(np.int8) if array.dtype == np.bool_ else array
    return PluginField(name, np.ascontiguousarray(kept).data, FIELDS[array.dtype])


def from_field(field: PluginField, kind: object) -> object:
    """The value that a field keeps, as the annotation says."""
    data = field.data
    if is_array(kind):
        return np.array(data, element(kind) or data.dtype)
    if kind is str:
        return data.tobytes().decode()
    if kind is bytes:
        return data.tobytes()
    if data.size != 1:
        raise _wrong("create_plugin", field.name, f"{data.size} elements", f"one {shown(kind)}", "give one")
    return _PLAIN[kind](data[0]).item()


def _wrong(where: str, name: str, got: str, wanted: str, do: str) -> WrongValue:
    do = do or f"pass {name}=..., as the function of register declares it"
    return WrongValue(ArgumentError("AR304", f"{where}: {name}", got, wanted, do))
