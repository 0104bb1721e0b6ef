"""What an engine remembers of single tensors: which are debug tensors, and the values of shape outputs.

A plan has no field for these; they travel among the details of the layers that make the tensors.

>>> n = Sym("x.0", 1, 8)
>>> text = print_values("y", [n.dim + 1, 3]); text
'y\\n1 + x.0\\n3'
>>> parse_values(text, {"x.0": n})
('y', (1 + x.0, 3))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anyrt.core.dims import Dim, Sym
from anyrt.core.dimtext import parse_dim, print_dim
from anyrt.plan.plan import Plan

DEBUG, HIDDEN, VALUES = "debug tensor", "hidden debug tensor", "shape values"
UNFUSED = "unfused tensor"


@dataclass(frozen=True, slots=True)
class Marks:
    """`debug`: tensors that a listener may see. `unfused`: tensors stored in any case, seen on demand.

    `hidden`: those of both that are no outputs otherwise. `values`: the elements of outputs that are computed
    while shapes are inferred."""

    debug: tuple[str, ...]
    unfused: tuple[str, ...]
    hidden: tuple[str, ...]
    values: tuple[tuple[str, tuple[Dim, ...]], ...]


def print_values(name: str, elements: Iterable[Dim]) -> str:
    """A tensor and its elements as text."""
    return "\n".join([name, *map(print_dim, elements)])


def parse_values(text: str, symbols: Mapping[str, Sym]) -> tuple[str, tuple[Dim, ...]]:
    """What `print_values` wrote."""
    name, *elements = text.split("\n")
    return name, tuple(parse_dim(x, symbols, f"shape values of {name}") for x in elements)


def marks_of(plan: Plan) -> Marks:
    """The marks in a plan; names that are no outputs of it are ignored."""
    outputs = {b.name for b in plan.bindings if not b.is_input}
    details = [detail for layer in plan.layers for detail in layer.details]
    shown, hidden, unfused = (
        tuple(v for k, v in details if k == kind and v in outputs) for kind in (DEBUG, HIDDEN, UNFUSED)
    )
    values = [parse_values(v, plan.sym_by_name) for k, v in details if k == VALUES]
    known = tuple(v for v in values if v[0] in outputs)
    return Marks((*shown, *hidden), unfused, (*hidden, *unfused), known)
