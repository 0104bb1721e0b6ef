"""Finds backends: every folder here that has a `target.py` or a `device.py` is one, named as the folder.

Folder `cpu` defines class `CpuDevice` in device.py, folder `null` class `NullTarget` in target.py, and so on.
The first line of the folder's docstring is its description. Nothing is imported before it is requested.

>>> sorted(all_backends())
['cpu', 'interp', 'null']

Engines are compiled for and run by the backend called `NATIVE`; code that builds or runs one obtains
`target()` or `device()` here and passes it on.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast

from anyrt import backends
from anyrt.core.errors import NotSupportedError
from anyrt.plan.device import Device

if TYPE_CHECKING:  # a warm engine needs only a device
    from anyrt.codegen.target import NativeTarget, Target
    from anyrt.schedule.step import Strategies

NATIVE: Final = "cpu"


@dataclass(frozen=True, slots=True)
class Backend:
    """An available backend: its name, and a one-line description."""

    name: str
    doc: str

    def device(self) -> Device:
        """Its run side; NotSupportedError when it has none."""
        part: Device = self._part("device")
        return part

    def target(self) -> Target[Strategies]:
        """Its compile side; NotSupportedError when it has none."""
        part: Target[Strategies] = self._part("target")
        return part

    def has(self, part: str) -> bool:
        """Whether it has a `target` or a `device`."""
        return find_spec(f"{backends.__name__}.{self.name}.{part}") is not None

    def _part(self, part: str) -> Any:  # Any: the class is found by its name
        if not self.has(part):
            raise NotSupportedError(
                "AR901", f"backend {self.name}", got=f"no {part}", wanted="one that has it"
            )
        module = import_module(f"{backends.__name__}.{self.name}.{part}")
        return getattr(module, self.name.capitalize() + part.capitalize())()


def device() -> Device:
    """The run side of engines."""
    return Backend(NATIVE, "").device()


def target() -> NativeTarget[Strategies]:
    """The compile side of engines, for the processor that we are on."""
    return cast("NativeTarget[Strategies]", Backend(NATIVE, "").target())


def all_backends() -> dict[str, Backend]:
    """Every backend by name."""
    folders = (m.name for m in pkgutil.iter_modules(backends.__path__) if m.ispkg)
    candidates = (Backend(name, _first_line(name)) for name in sorted(folders))
    return {b.name: b for b in candidates if b.has("target") or b.has("device")}


def _first_line(name: str) -> str:
    doc = import_module(f"{backends.__name__}.{name}").__doc__ or ""
    return doc.strip().split("\n", 1)[0].removesuffix(".")
