"""Every operator, by layer type; a file in this folder that defines a tuple `OPS` is enough to add one.

>>> OPS[LayerType.SCALE].cls
'IScaleLayer'
"""

from __future__ import annotations

import importlib
import pkgutil

from anyrt.core.enums import LayerType
from anyrt.ops._record import AnyOp


def _load() -> tuple[AnyOp, ...]:
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return tuple(op for name in names for op in importlib.import_module(f"{__name__}.{name}").OPS)


_RECORDS: tuple[AnyOp, ...] = _load()
ALL_OPS: tuple[AnyOp, ...] = tuple(op for op in _RECORDS if not op.within)
OPS: dict[LayerType, AnyOp] = {op.layer: op for op in ALL_OPS if not op.removed}
# What TensorRT 10 has no more: there with `python -m anyrt.compat --api 8.6` alone.
REMOVED: tuple[AnyOp, ...] = tuple(op for op in ALL_OPS if op.removed)
# The layers at the borders of parts of a network, as of loops.
BORDERS: dict[LayerType, AnyOp] = {op.layer: op for op in _RECORDS if op.within}
