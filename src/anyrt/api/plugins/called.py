"""Plug-ins of a plan for the interpreter: created from the plan's data, and called with arrays.

nodes = callable_plugins(job.external, get_plugin_registry())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from anyrt.api.plugins.host import made_again
from anyrt.api.plugins.kinds import Kind
from anyrt.api.plugins.registry import IPluginRegistry
from anyrt.api.plugins.trying import interpreted
from anyrt.ir.graph import Node, apply_all
from anyrt.prims.const import Blob
from anyrt.prims.plugin import Made, Plugin


def callable_plugins(nodes: Sequence[Node], registry: IPluginRegistry) -> tuple[Node, ...]:
    """The same nodes, whose plug-ins may be called; PluginError AR823 then for one that is not registered."""
    known: dict[Blob, Made] = {}

    def change(node: Node) -> Node:
        op = node.op
        if not isinstance(op, Plugin) or isinstance(op.made, Made):
            return node
        if op.made not in known:
            known[op.made] = _made(op, registry)
        return apply_all(replace(op, made=known[op.made]), *node.args)[0].node

    return tuple(map(change, nodes))


def _made(op: Plugin, registry: IPluginRegistry) -> Made:
    """The plug-in, which is made when it is called: backends that compute nothing need none."""

    @cache
    def kind() -> Kind:
        data = np.asarray(op.made.stored).tobytes()
        return made_again((op.name, op.version, op.space), op.layer, data, op.layer, registry)

    held = op.made
    return Made(held.stored, held.dtype, held.name, call=lambda of, args: interpreted(kind())(of, args))
