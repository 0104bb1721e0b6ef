"""Kernels that are compiled when an engine is built."""

from __future__ import annotations

from collections.abc import Mapping

from anyrt.core.errors import NotSupportedError
from anyrt.plugin.quick import Definition, Described


class Kernel(Described):
    """A plug-in that a kernel computes."""

    def __init__(self, definition: Definition, values: Mapping[str, object]) -> None:
        Described.__init__(self, definition, values)
        do = "write an impl function, and add the plug-in with aot=False"
        raise NotSupportedError("AR901", definition.plugin_id, "aot_impl", "impl", do)
