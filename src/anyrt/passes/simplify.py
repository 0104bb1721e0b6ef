"""Removes operations without effect and joins others: applies the rules of rules.py.

Conditions on sizes (`Prim.requires`) are those of the original graph: collect them from that one with
`requirements`, since a simpler graph has fewer.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.ir.graph import Graph
from anyrt.ir.rewrite import Rule, rewrite
from anyrt.passes.rules import RULES


def simplify(graph: Graph, rules: Sequence[Rule] = RULES) -> Graph:
    """`graph` with the rules applied until none fits."""
    return rewrite(graph, rules)
