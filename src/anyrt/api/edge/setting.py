"""Settings of an object: typed values with defaults.

>>> class Box:
...     count = Setting(int, 1, "how many", low=1)
>>> box = Box(); box._settings = {}; box.count = 5; box.count
5
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from anyrt.api.edge.attribute import Attribute
from anyrt.api.edge.hints import article
from anyrt.api.edge.quiet import HasChannel, channel_of, type_name, wrong_type
from anyrt.core.errors import ArgumentError
from anyrt.core.trt_enum import TrtEnum

T = TypeVar("T")


class HasSettings(HasChannel, Protocol):
    """An object with settings; its `__init__` creates an empty `_settings`."""

    _settings: dict[str, Any]  # Any: each value has the type of its Setting


def kept_in(owner: HasSettings) -> dict[str, Any]:  # Any: as above
    """The settings of an object that were ever set."""
    return owner._settings


class Setting(Attribute[HasSettings, T]):
    """Stores a value; TypeError for another type, a logged error outside `low` … `high`."""

    def __init__(
        self, kind: type[T], default: T, doc: str, *, low: float | None = None, high: float | None = None
    ) -> None:
        self.kind = kind
        self.default = default
        self.low = low
        self.high = high
        self.__doc__ = f"{doc}\n\n{self._kept(default)}"

    def _value(self, owner: HasSettings) -> T:
        kept: T = kept_in(owner).get(self.name, self.default)
        return kept

    def __set__(self, owner: HasSettings, value: T) -> None:
        fits = isinstance(value, self.kind) and not (isinstance(value, bool) and self.kind is int)
        if self.kind is float and isinstance(value, int):
            fits = True
        if not fits and not (value is None and self.default is None):
            raise wrong_type(f"{type_name(owner)}.{self.name}", value, self._accepted())
        if self._outside(value):
            wanted = f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"
            where = f"{type_name(owner)}.{self.name}"
            do = f"the value stays {self._value(owner)}"
            channel_of(owner).fail(ArgumentError("AR304", where, f"{value}", wanted, do))
            return
        kept_in(owner)[self.name] = value

    def _accepted(self) -> str | type[TrtEnum]:
        return self.kind if issubclass(self.kind, TrtEnum) else article(self.kind.__name__)

    def _kept(self, default: T) -> str:
        """The type, default and limits, for the docstring."""
        limits = [f"at {word} {x}" for word, x in (("least", self.low), ("most", self.high)) if x is not None]
        refused = f"; {' and '.join(limits)}, else AR304 and no change" if limits else ""
        kind = "" if self.kind is object else f"{self.kind.__name__}, "
        return f"{kind}default: {default!r}{refused}."

    def _outside(self, value: object) -> bool:
        if not isinstance(value, int | float):
            return False
        return (self.low is not None and value < self.low) or (self.high is not None and value > self.high)


def changed_settings(owner: object) -> Iterator[tuple[str, object]]:
    """The name and value of each setting of `owner` that differs from its default."""
    for name, setting in vars(type(owner)).items():
        if isinstance(setting, Setting) and (value := getattr(owner, name)) != setting.default:
            yield name, value
