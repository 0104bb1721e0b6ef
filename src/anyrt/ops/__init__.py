"""Every operator, by layer type; a file in this folder that defines a tuple `OPS` is enough to add one.

>>> OPS[LayerType.SCALE].cls
'IScaleLayer'
"""

from __future__ import annotations

import importlib
import pkgutil

from anyrt.core.enums import LayerType
from anyrt.ops._record import AnyOp


def _load() -> dict[LayerType, AnyOp]:
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    found = (op for name in names for op in importlib.import_module(f"{__name__}.{name}").OPS)
    return {op.layer: op for op in found}


OPS: dict[LayerType, AnyOp] = _load()
