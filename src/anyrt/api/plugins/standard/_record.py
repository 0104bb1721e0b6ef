"""The record of a standard plug-in, `Standard`, from which its creator and layers are generated.

def gelu(part: Part) -> Tensor:
    return part.activation(ActivationType.GELU_ERF, part.inputs[0])

PLUGINS = (Standard("CustomGeluPluginDynamic", gelu, (Field("type_id", 0, 0, 2),)),)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from anyrt.api.plugins.field import PluginField, buffer_of
from anyrt.core.enums import PluginFieldType
from anyrt.core.errors import ArgumentError, PluginError
from anyrt.ops._record import Array

if TYPE_CHECKING:
    from anyrt.api.compose.tensor import Tensor
    from anyrt.api.plugins.standard._part import Part

FieldValue: TypeAlias = "int | float | str | tuple[int, ...] | tuple[float, ...] | Array | None"
P = PluginFieldType
WHOLE: Final = (P.INT32, P.INT64, P.INT8, P.INT16)
REAL: Final = (P.FLOAT32, P.FLOAT16, P.FLOAT64, P.BF16)
INF: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Field:
    """A field. The type of `default` is the type of the field: a number, a text, a tuple of numbers, or
    weights (None). low, high: the range of numbers; count: their number, 0 for any; needed: whether it is
    required."""

    name: str
    default: FieldValue
    low: float = -INF
    high: float = INF
    count: int = 0
    needed: bool = False

    @property
    def types(self) -> tuple[PluginFieldType, ...]:
        """The accepted types; the first is TensorRT's."""
        first = self.default[0] if isinstance(self.default, tuple) else self.default
        match first:
            case int():
                return WHOLE
            case str():
                return (P.CHAR,)
            case None:
                return (*REAL, *WHOLE)
            case _:
                return REAL

    def read(self, field: PluginField, where: str) -> FieldValue:
        """The value of `field`; ArgumentError AR304 for a wrong type or value."""
        where = f"{where}: field {self.name}"
        # Programs label int32 data as FLOAT32, because TensorRT's creators ignore the label.
        buffer = buffer_of(field)
        whole = (
            self.types is WHOLE and field.type in REAL and buffer is not None and buffer.dtype.kind in "iu"
        )
        if field.type not in self.types and not whole:
            raise ArgumentError("AR304", where, f"{field.type.name}", f"{self.types[0].name}")
        array = np.asarray(buffer).reshape(-1) if whole else field.data
        if self.default is None:
            return np.asarray(array)
        if isinstance(self.default, str):
            return array.tobytes().rstrip(b"\0").decode(errors="replace")
        numbers = tuple(array.tolist())
        wanted = self.count if isinstance(self.default, tuple) else 1
        if not numbers or (wanted and len(numbers) != wanted):
            raise ArgumentError("AR304", where, f"{len(numbers)} numbers", f"{wanted or '1 or more'}")
        for number in numbers:
            if not self.low <= number <= self.high:
                raise ArgumentError("AR304", where, f"{number}", f"{_between(self.low, self.high)}")
        return numbers if isinstance(self.default, tuple) else numbers[0]


def _between(low: float, high: float) -> str:
    if high == INF:
        return f"{low:g} or more"
    return f"{high:g} or less" if low == -INF else f"{low:g} to {high:g}"


@dataclass(frozen=True, slots=True)
class Standard:
    """A plug-in: its name and versions, its fields, and the composition that computes its outputs.

    inputs: the minimum and maximum number of inputs; outputs: the number of outputs, or the field that has
    it; v3: the versions that are plug-ins of version 3. A composition reads `part.version` if versions
    differ.
    """

    name: str
    compose: Callable[[Part], Tensor | Sequence[Tensor]]
    fields: tuple[Field, ...] = ()
    versions: tuple[str, ...] = ("1",)
    v3: tuple[str, ...] = ()
    inputs: tuple[int, int] = (1, 1)
    outputs: int | str = 1

    def output_count(self, values: Mapping[str, FieldValue]) -> int:
        """The number of outputs for these fields."""
        count = self.outputs if isinstance(self.outputs, int) else values[self.outputs]
        assert isinstance(count, int), f"{self.name} has {count!r} outputs"
        return count

    def read(self, fields: Sequence[PluginField]) -> Mapping[str, FieldValue]:
        """The value of each field, or its default.

        Raises PluginError AR823 for an unknown field, AR822 for a missing required field, ArgumentError AR304
        for a wrong type or value."""
        values = {f.name: f.default for f in self.fields}
        specs = {f.name: f for f in self.fields}
        for field in fields:
            if field.name not in specs:
                wanted = ", ".join(specs) or "none"
                raise PluginError(
                    "AR823", self.name, f"a field {field.name!r}", f"one of {wanted}", "remove it"
                )
            values[field.name] = specs[field.name].read(field, self.name)
        names = {field.name for field in fields}
        for name in (f.name for f in self.fields if f.needed and f.name not in names):
            raise PluginError(
                "AR822", self.name, f"no field {name!r}", "this field", "add it to the field collection"
            )
        return values
