"""What each operator of ONNX means, by family; a function that `importer` decorates is enough to add one."""

from __future__ import annotations

import importlib
import pkgutil

from anyrt.onnx import plain


def load() -> None:
    """Have every importer told."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    plain.load()
