"""Marks of single tensors in an engine: debug tensors, and the values of shape outputs.

A plan has no field for them; it stores them in the details of the layers that compute the tensors, and for
inputs in those of the first layer.

>>> n = Sym("x.0", 1, 8)
>>> text = print_values("y", [n.dim + 1, 3]); text
'["y","1 + x.0","3"]'
>>> parse_values(text, {"x.0": n})
('y', (1 + x.0, 3))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from anyrt.core.dims import Dim, Sym
from anyrt.core.dimtext import parse_dim, print_dim
from anyrt.core.errors import PlanError
from anyrt.plan.json import Reader, dump, load
from anyrt.plan.plan import Binding, Plan

DEBUG, HIDDEN, VALUES = "debug tensor", "hidden debug tensor", "shape values"
UNFUSED = "unfused tensor"
AGAIN = "debug tensor of turns"


MAX_BYTES: Final = 1 << 20
MAX_ELEMENTS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Marks:
    """`debug`: debug tensors. `unfused`: tensors that kernels store anyway, which a listener receives on
    request.

    `hidden`: those of both that are not network outputs, and tensors with data-dependent sizes. `again`:
    those in loops and branches, which hold all values of an inference along additional first axes, the
    innermost last. `values`: the elements of outputs that `infer_shapes` computes."""

    debug: tuple[str, ...]
    unfused: tuple[str, ...]
    hidden: tuple[str, ...]
    again: Mapping[str, int]
    values: tuple[tuple[str, tuple[Dim, ...]], ...]


def print_values(name: str, elements: Iterable[Dim]) -> str:
    """A tensor and its elements as text."""
    return dump([name, *map(print_dim, elements)]).decode()


def parse_values(text: str, symbols: Mapping[str, Sym]) -> tuple[str, tuple[Dim, ...]]:
    """Parse the text of `print_values`."""
    where = "shape values"
    items = Reader(load(text.encode(), where, MAX_BYTES), where).items(1 + MAX_ELEMENTS)
    if not items:
        raise PlanError("AR605", where, got="an empty list", wanted="a name and elements")
    name, *elements = items
    return name.text(), tuple(parse_dim(x.text(), symbols, x.where) for x in elements)


def marks_of(plan: Plan) -> Marks:
    """The marks in a plan; names that are neither outputs nor inputs of it are ignored."""
    outputs = {b.name: b for b in plan.bindings if not b.is_input}
    seen = {DEBUG: {b.name for b in plan.bindings}, HIDDEN: outputs.keys(), UNFUSED: outputs.keys()}
    details = [detail for layer in plan.layers for detail in layer.details]
    shown, hidden, unfused = (
        tuple(v for k, v in details if k == kind and v in names) for kind, names in seen.items()
    )
    values = [parse_values(v, plan.sym_by_name) for k, v in details if k == VALUES]
    known = tuple(v for v in values if v[0] in outputs)
    for name, elements in known:
        _check_count(outputs[name], len(elements))
    counted = (s.tensor for s in plan.symbols if s.most is not None)
    again = {b.name: details.count((AGAIN, b.name)) for b in plan.bindings}
    again = {b.name: again[b.name] for b in plan.bindings if 0 < again[b.name] <= len(b.shape)}
    unseen = tuple(dict.fromkeys((*hidden, *unfused, *counted)))
    return Marks((*shown, *hidden), unfused, unseen, again, known)


def _check_count(binding: Binding, count: int) -> None:
    """Check the number of values, which are written to the user's memory for the tensor."""
    if binding.shape not in ((), (count,)) or (not binding.shape and count != 1):
        where = f"shape values of {binding.name!r}"
        raise PlanError(
            "AR607", where, got=f"{count} values", wanted=f"the number of elements of shape {binding.shape}"
        )
