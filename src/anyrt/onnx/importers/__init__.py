"""The importers of ONNX operators, by family; a function with the decorator `importer` adds one."""

from __future__ import annotations

import importlib
import pkgutil

from anyrt.onnx import plain


def load() -> None:
    """Register all importers."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    plain.load()
