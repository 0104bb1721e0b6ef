"""Attributes of a plug-in: arguments of a call, and fields in a plan.

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
from anyrt.core.enums import PluginFieldType
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


def value(where: str, name: str, kind: object, argument: object) -> object:
    """`argument` converted to the annotated type of the attribute; ValueError if that is impossible."""
    if is_array(kind):
        return _array(where, name, kind, argument)
    converted = _plain(kind, argument)
    if converted is None:
        raise _wrong(where, name, type_name(argument), shown(kind), "")
    if kind is int and not -(1 << 63) <= int(converted) < 1 << 63:  # type: ignore[call-overload]  # an int
        raise _wrong(where, name, str(converted), "an int of 64 bits", "split it")
    return converted


def _plain(kind: object, argument: object) -> object:
    """`argument` as a number, text or bytes of the type `kind`; None if it has another type."""
    if kind is bool:
        return bool(argument) if isinstance(argument, bool | np.bool_) else None
    if isinstance(argument, bool | np.bool_):
        return None
    if kind is int:
        if not isinstance(argument, SupportsIndex) or _is_array(argument):
            return None
        return operator.index(argument)
    if kind is float:
        return float(argument) if isinstance(argument, int | float | np.integer | np.floating) else None
    assert isinstance(kind, type), "read() rejects other annotations"
    return argument if isinstance(argument, kind) else None


def _array(where: str, name: str, kind: object, argument: object) -> Array:
    dtype = element(kind)
    expected = "a NumPy array" if dtype is None else f"a NumPy array of {dtype}"
    if not isinstance(argument, np.ndarray) or is_masked(argument):
        do = f"write np.array(..., np.{dtype or 'int32'})"
        raise _wrong(where, name, type_name(argument), expected, do)
    if argument.dtype not in FIELDS or (dtype is not None and argument.dtype != dtype):
        do = f"convert it: {name}.astype(...)"
        raise _wrong(where, name, f"an array of {argument.dtype}", expected, do)
    if argument.ndim > 1:
        do = f"pass {name}.reshape(-1), and its shape as another attribute"
        raise _wrong(where, name, f"{argument.ndim} axes", "at most one axis", do)
    return argument.copy().reshape(-1)  # a field of a plan has one axis


def _is_array(argument: object) -> bool:
    return isinstance(argument, np.ndarray)  # an array of one element supports __index__


def to_field(name: str, value: object) -> PluginField:
    """The field that stores a value."""
    match value:
        case str():
            return PluginField(name, value.encode(), PluginFieldType.CHAR)
        case bytes():
            return PluginField(name, value, PluginFieldType.UNKNOWN)
        case np.ndarray():
            return _of(name, value)
    return _of(name, np.array([value], _PLAIN[type(value)]))


def _of(name: str, array: Array) -> PluginField:
    stored = array.view(np.int8) if array.dtype == np.bool_ else array
    return PluginField(name, np.ascontiguousarray(stored).data, FIELDS[array.dtype])


def from_field(field: PluginField, kind: object) -> object:
    """The value of a field, in the type of the annotation."""
    data = field.data
    if is_array(kind):
        return np.array(data, element(kind) or data.dtype)
    if kind is str:
        return data.tobytes().decode()
    if kind is bytes:
        return data.tobytes()
    if data.size != 1:
        raise _wrong(
            "create_plugin", field.name, f"{data.size} elements", f"one {shown(kind)}", "pass one element"
        )
    return _PLAIN[kind](data[0]).item()


def _wrong(where: str, name: str, got: str, wanted: str, do: str) -> WrongValue:
    do = do or f"pass {name}=..., as the register function declares it"
    return WrongValue(ArgumentError("AR304", f"{where}: {name}", got, wanted, do))
