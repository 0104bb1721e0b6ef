"""Plug-in libraries of a command, loaded while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def loaded(paths: Iterable[str]) -> Iterator[None]:
    """Register the creators of each file until the block ends; a file that is named twice is loaded once."""
    from anyrt.api.edge.module import get_plugin_registry
    from anyrt.core.flags import strict

    registry, handles = get_plugin_registry(), []
    try:
        for path in dict.fromkeys(paths):
            with strict():
                handles.append(registry.load_library(path))
        yield
    finally:
        for handle in handles:
            registry.deregister_library(handle)
