"""Leave out what changes nothing and join what can be one: applies the rules of rules.py.

Conditions on sizes (`Prim.requires`) are those of the graph as it was given: collect them with
`requirements` from that one, for a simpler graph asks less.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.ir.graph import Graph
from anyrt.ir.rewrite import Rule, rewrite
from anyrt.passes.rules import RULES


def simplify(graph: Graph, rules: Sequence[Rule] = RULES) -> Graph:
    """`graph` with the rules applied until none fits."""
    return rewrite(graph, rules)
