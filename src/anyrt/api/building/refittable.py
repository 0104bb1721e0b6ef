"""The refittable weights of a network, and their names.

With REFIT these are all weights of layers, with REFIT_INDIVIDUAL the marked ones. Values that the builder
must know, such as the exponent of a power or the scales of a resize, are fixed. So are constants that an
importer of ONNX models adds, and short integer constants, which are sizes and positions.
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

# The attributes of layers that are weights with a role; a power has no role.
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
    """The default name of weights: "conv1 KERNEL"; "" if the attribute holds no weights."""
    role, weights = ROLES.get(attribute), layer.attributes.get(attribute)
    held = role is not None and isinstance(weights, Weights) and weights.size
    return f"{layer.name} {role.name}" if held and role is not None else ""


def refit_kind(flags: int) -> RefitKind | None:
    """The kind of refit that the builder flags request; None for fixed weights. STRIP_PLAN alone permits only
    a refit with the weights of the build."""
    on = {flag for flag in BuilderFlag if flags >> int(flag) & 1}
    strips, free = (
        BuilderFlag.STRIP_PLAN in on,
        not on.isdisjoint({BuilderFlag.REFIT, BuilderFlag.REFIT_INDIVIDUAL}),
    )
    return RefitKind(free, strips) if free or strips or BuilderFlag.REFIT_IDENTICAL in on else None


@dataclass(slots=True)
class Refittable:
    """The weights of `network` as constants. `fixed`: those whose values layers had to know; whenever one is
    added, all layers are described again."""

    network: NetworkState
    kind: RefitKind
    marked_only: bool = False
    fixed: set[Key] = field(default_factory=set)
    constants: dict[Key, tuple[Blob, list[tuple[str, str]], str]] = field(default_factory=dict)

    def blob(self, layer: LayerState, attribute: str, weights: Weights) -> Blob | None:
        """The constant for weights of a layer; None if they are fixed."""
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
        """The scale of an int8 tensor; a constant that a refit may change, if it is refittable."""
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
        """Begin to describe the network again."""
        self.constants.clear()

    def records(self) -> tuple[tuple[Blob, WeightsRecord], ...]:
        """The constants, with their records in a plan."""
        return tuple(
            (blob, WeightsRecord(name, blob.dtype, blob.size, tuple(places)))
            for blob, places, name in self.constants.values()
        )
