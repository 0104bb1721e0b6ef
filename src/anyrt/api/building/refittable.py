"""Which weights of a network its engine may be given again, and under which names.

With REFIT all that layers hold, with REFIT_INDIVIDUAL those that were marked. What a layer needs to know
while it is built, as the exponent of a power or the scales of a resize, stays as it is; so do constants that
an importer of ONNX models adds by itself, and short ones of whole numbers, which are sizes and positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from anyrt.api.model.state import LayerState, NetworkState, TensorState
from anyrt.api.model.weights import Weights
from anyrt.compiler.request import RefitKind
from anyrt.core.enums import BuilderFlag, DataType, WeightsRole
from anyrt.ir.graph import apply
from anyrt.ops._scales import Scale
from anyrt.plan.refit import RANGE, WeightsRecord
from anyrt.prims._check import VALUE_LIMIT
from anyrt.prims.const import Blob, Const, Origin

# The attributes of layers that are weights with a role; a power has none.
ROLES: Final = {
    "kernel": WeightsRole.KERNEL,
    "bias": WeightsRole.BIAS,
    "shift": WeightsRole.SHIFT,
    "scale": WeightsRole.SCALE,
    "weights": WeightsRole.CONSTANT,
}
WHOLE: Final = frozenset({DataType.INT32, DataType.INT64, DataType.BOOL})

Key = tuple[object, ...]


def default_name(layer: LayerState, attribute: str) -> str:
    """The name of weights that were given none: "conv1 KERNEL"; "" where the attribute is no weights."""
    role, weights = ROLES.get(attribute), layer.attributes.get(attribute)
    held = role is not None and isinstance(weights, Weights) and weights.size
    return f"{layer.name} {role.name}" if held and role is not None else ""


def refit_kind(flags: int) -> RefitKind | None:
    """What builder flags ask for; None where weights stay. A plan that is stripped and says no more takes the
    weights of its build alone."""
    on = {flag for flag in BuilderFlag if flags >> int(flag) & 1}
    strips, free = (
        BuilderFlag.STRIP_PLAN in on,
        not on.isdisjoint({BuilderFlag.REFIT, BuilderFlag.REFIT_INDIVIDUAL}),
    )
    return RefitKind(free, strips) if free or strips or BuilderFlag.REFIT_IDENTICAL in on else None


@dataclass(slots=True)
class Refittable:
    """The weights of `network` as constants. `fixed`: those that layers had to know; where one was added, all
    is described again, until there is none."""

    network: NetworkState
    kind: RefitKind
    marked_only: bool = False
    fixed: set[Key] = field(default_factory=set)
    constants: dict[Key, tuple[Blob, list[tuple[str, str]], str]] = field(default_factory=dict)

    def blob(self, layer: LayerState, attribute: str, weights: Weights) -> Blob | None:
        """The constant that weights of a layer are, None where they stay as they are."""
        name = self.network.weight_names.get(weights.address, "") if weights.size else ""
        if not self._allows(layer, attribute, weights, name):
            return None
        role = ROLES[attribute].name
        key: Key = (weights.address, weights.dtype, weights.size) if name else (layer, role)
        if key in self.fixed:
            return None
        if key not in self.constants:
            origin = Origin(None, self.kind.is_free, partial(self.fixed.add, key))
            self.constants[key] = (Blob(weights.elements(), weights.dtype, origin=origin), [], name)
        blob, places, _ = self.constants[key]
        if (layer.name, role) not in places:
            places.append((layer.name, role))
        return blob

    def scale(self, tensor: TensorState, scale: float) -> Scale:
        """What a step of an int8 tensor is worth: a constant that a refit may change, where it may be any."""
        key: Key = (tensor, RANGE)
        if not self.kind.is_free or self.kind.is_stripped or self.marked_only or key in self.fixed:
            return scale
        if key not in self.constants:
            origin = Origin(None, True, partial(self.fixed.add, key))
            held = Blob(np.full(1, scale, np.float32), DataType.FLOAT, origin=origin)
            self.constants[key] = (held, [(tensor.name, RANGE)], "")
        return apply(Const(self.constants[key][0], ()))

    def _allows(self, layer: LayerState, attribute: str, weights: Weights, name: str) -> bool:
        if attribute not in ROLES or not weights.size:
            return False
        if self.marked_only and (name or default_name(layer, attribute)) not in self.network.refittable:
            return False
        short = weights.dtype in WHOLE and weights.size <= VALUE_LIMIT
        return not short and (bool(name) or not layer.is_imported)

    def begin(self) -> None:
        """Describe the network anew."""
        self.constants.clear()

    def records(self) -> tuple[tuple[Blob, WeightsRecord], ...]:
        """The constants, with their records in a plan."""
        return tuple(
            (blob, WeightsRecord(name, blob.dtype, blob.size, tuple(places)))
            for blob, places, name in self.constants.values()
        )
