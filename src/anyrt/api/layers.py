"""The layer classes, each made from its operator's record when it is first asked for.

>>> layer_class("IScaleLayer").mode.__doc__
'how far one coefficient reaches; ScaleMode, given when it is added'
"""

from __future__ import annotations

from functools import cache

from anyrt.api.convert import show, take
from anyrt.api.describe import attribute_text, class_text
from anyrt.api.edge import quiet
from anyrt.api.layer import ILayer
from anyrt.api.missing import lookup_error
from anyrt.core.errors import ArgumentError
from anyrt.ops import ALL_OPS, OPS
from anyrt.ops._record import AnyOp, AttrSpec

# Attributes of weak typing, which TensorRT refuses on strongly typed networks.
WEAK_ONLY = frozenset({"compute_precision"})


@cache
def layer_class(name: str) -> type[ILayer]:
    """The class of that name, also of one that was removed; AttributeError when no operator has it."""
    for op in ALL_OPS:
        if op.cls == name:
            body = {"__doc__": class_text(op), **{s.name: _property(op, s) for s in op.specs()}}
            return _new(name, body)
    raise lookup_error("anyrt", name)


def layer_class_names() -> list[str]:
    """The names of all that TensorRT has today."""
    return sorted({op.cls for op in OPS.values()})


def _new(name: str, body: dict[str, object]) -> type[ILayer]:
    # No slots of their own: all layer classes have one layout, so that `layer.__class__ = X` is allowed.
    return type(name, (ILayer,), {"__module__": "anyrt", "__slots__": (), **body})


def _property(op: AnyOp, spec: AttrSpec) -> property:
    def get(self: ILayer) -> object:
        if spec.sets:
            return getattr(self, spec.sets[0])
        value = self._attributes[spec.name]
        first = self._inputs[0] if self._inputs else None
        if value is None and spec.from_rank is not None and first is not None:
            rank = first.shape.rank
            return spec.from_rank(rank) if rank >= 0 else 0
        if value is None and spec.from_attr is not None:
            name, stands_for = spec.from_attr
            return show(spec, stands_for(self._attributes[name]))
        return show(spec, value)

    @quiet(None)
    def assign(self: ILayer, value: object) -> None:
        given = take(spec, value, f"{self._op.cls}.{spec.name}")
        if spec.name in WEAK_ONLY:
            self._refuse_when_strong(spec.name)
        locked = spec.locked_by
        if locked is not None and self.get_input(locked) is not None:
            operand = self._op.operand(locked).name
            got = f"{spec.name} while input {locked} ({operand}) is connected"
            wanted, do = "the input or the attribute", "set it before, or not at all"
            raise ArgumentError("AR310", self._place, got, wanted, do)
        self._attributes.update(dict.fromkeys(spec.sets or (spec.name,), given))
        if spec.drops is not None:
            self._drop(spec.drops)
        self._reset(spec.clears)

    return property(get, None if spec.read_only else assign, doc=attribute_text(op, spec))
