"""Names for the memory of a network's inputs and outputs."""

from __future__ import annotations

from itertools import count

from anyrt.ir.graph import Graph


def port_names(graph: Graph) -> list[str]:
    """A unique name for the memory of each input, then of each output, even for tensors called "a b" and
    "a_b"."""
    names: dict[str, None] = {}
    for kind, ends in (("in", graph.inputs), ("out", graph.outputs)):
        for name, _ in ends:
            unique = plain = f"{kind}_{_ident(name)}"
            more = count(2)
            while unique in names:
                unique = f"{plain}_{next(more)}"
            names[unique] = None
    return list(names)


def _ident(name: str) -> str:
    """A name made of letters, digits and underscores."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
