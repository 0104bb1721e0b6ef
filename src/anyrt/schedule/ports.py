"""Names for the memory of what a network takes and gives."""

from __future__ import annotations

from itertools import count

from anyrt.ir.graph import Graph


def port_names(graph: Graph) -> list[str]:
    """For the memory of each input, then of each output, a name like no other's, though tensors are called
    "a b" and "a_b"."""
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
