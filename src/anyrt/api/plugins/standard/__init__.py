"""The plug-ins that TensorRT ships, as compositions of layers, which fuse like any other layers.

>>> sorted(s.name for s in STANDARD if "NMS" in s.name)[:2]
['BatchedNMSDynamic_TRT', 'BatchedNMS_TRT']

To add a plug-in, add a module with a tuple `PLUGINS` to this folder.
"""

from __future__ import annotations

import importlib
import pkgutil

from anyrt.api.plugins.standard._record import Standard


def _load() -> tuple[Standard, ...]:
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return tuple(s for name in names for s in importlib.import_module(f"{__name__}.{name}").PLUGINS)


STANDARD: tuple[Standard, ...] = _load()
