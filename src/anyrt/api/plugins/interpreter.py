"""Plug-ins of a plan for the interpreter: restored from the plan's data, and called with arrays.

nodes = callable_plugins(job.external, get_plugin_registry())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from anyrt.api.plugins.execution import Array, interpreter_function
from anyrt.api.plugins.host import restore
from anyrt.api.plugins.kinds import Kind
from anyrt.api.plugins.registry import IPluginRegistry
from anyrt.ir.graph import Node, apply_all
from anyrt.prims.const import Blob
from anyrt.prims.plugin import Plugin, PluginData


def callable_plugins(nodes: Sequence[Node], registry: IPluginRegistry) -> tuple[Node, ...]:
    """The nodes with plug-ins that can be called. A call raises PluginError AR823 if no creator is
    registered."""
    known: dict[Blob, PluginData] = {}

    def change(node: Node) -> Node:
        op = node.op
        if not isinstance(op, Plugin) or isinstance(op.made, PluginData):
            return node
        if op.made not in known:
            known[op.made] = _callable(op, registry)
        return apply_all(replace(op, made=known[op.made]), *node.args)[0].node

    return tuple(map(change, nodes))


def _callable(op: Plugin, registry: IPluginRegistry) -> PluginData:
    """The data with a function that calls the plug-in. The first call restores it, since some backends make
    no calls."""

    @cache
    def kind() -> Kind:
        data = np.asarray(op.made.stored).tobytes()
        return restore((op.name, op.version, op.space), op.layer, data, op.layer, registry)

    def call(op: Plugin, args: tuple[Array, ...]) -> tuple[Array, ...]:
        return interpreter_function(kind())(op, args)

    return PluginData(op.made.stored, op.made.dtype, op.made.name, call=call)
