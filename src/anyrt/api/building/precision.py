"""The types in which layers of a weakly typed network compute: by constraint, by preference, or by permission
if it pays.

`layer.precision` is a constraint with OBEY_PRECISION_CONSTRAINTS: a layer that cannot follow it fails the
build (AR333). With PREFER_PRECISION_CONSTRAINTS it is a preference; otherwise it has no effect. The flags
FP16, BF16 and INT8 permit a type for layers that sum products: int8 if the range of the tensor is known, the
half types if the machine multiplies them faster. Tensors keep their types; a layer that computes in another
one converts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from anyrt.api.model.expansion import Expansion, Stage
from anyrt.api.model.state import LayerState, NetworkState, TensorState
from anyrt.api.model.view import NetworkView, TensorView
from anyrt.compiler.precision import (
    PRODUCTS,
    fits_half,
    halves_weights,
    in_codes,
    in_type,
    is_faster,
    takes,
    takes_codes,
)
from anyrt.core.dtype import is_float, short_name
from anyrt.core.enums import BuilderFlag, DataType, LayerType, Severity
from anyrt.core.errors import ArgumentError
from anyrt.core.machine import Machine
from anyrt.core.units import counted
from anyrt.ops._record import Attrs, Layer
from anyrt.ops._scales import Scale

FLOAT, HALF, BF16, INT8 = DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT8
# Layers with attributes for the types of their inputs and outputs.
TYPED = frozenset({LayerType.CAST, LayerType.QUANTIZE, LayerType.DEQUANTIZE, LayerType.DYNAMIC_QUANTIZE})
CODED = frozenset({LayerType.QUANTIZE, LayerType.DEQUANTIZE, LayerType.DYNAMIC_QUANTIZE})

# The flags that constrain, prefer or permit another type than that of the tensors.
ASKING = (
    BuilderFlag.OBEY_PRECISION_CONSTRAINTS,
    BuilderFlag.PREFER_PRECISION_CONSTRAINTS,
    BuilderFlag.FP16,
    BuilderFlag.BF16,
    BuilderFlag.INT8,
)


class Precisions:
    """The types in which the layers of one network compute. `scales`: those of tensors, from calibration.
    `machine`: returns the machine of the build. `held`: converts a scale for the build; a refit may change
    it."""

    def __init__(
        self,
        network: NetworkState,
        flags: int,
        scales: Mapping[TensorState, float],
        machine: Callable[[], Machine],
    ) -> None:
        self._network = network
        self._flags = 0 if network.is_strong else flags
        self._scales = scales
        self._machine = machine
        self.chosen: dict[LayerState, DataType] = {}
        self.halved: list[LayerState] = []  # compute in float32, with weights of float16
        self.held: Callable[[TensorState, float], Scale] = lambda _, step: step

    def _has(self, flag: BuilderFlag) -> bool:
        return bool(self._flags >> int(flag) & 1)

    @property
    def may_differ(self) -> bool:
        """Whether a layer may compute in a type other than that of its tensors."""
        return any(map(self._has, ASKING))

    def staged(self, layer: LayerState, record: Layer[Attrs], scales: tuple[Scale, ...]) -> Stage | None:
        """The layer, computed in a type other than that of its tensors; None if it computes in theirs."""
        dtype = self._of(layer, record) if self.may_differ and layer.outputs else None
        if dtype is None:
            return self._with_half_weights(layer, record, scales)
        self.chosen[layer] = dtype
        if dtype is not INT8:
            rounds = self._has(BuilderFlag.OBEY_PRECISION_CONSTRAINTS) and layer.precision is dtype
            return Stage(in_type(record, dtype, rounds), scales, dtype, rounds)
        at, step = self._step(layer, record) or (0, 1.0)
        worth = tuple(step if i == at else s for i, s in enumerate(scales))
        return Stage(in_codes(record, step), worth, dtype)

    def _with_half_weights(
        self, layer: LayerState, record: Layer[Attrs], scales: tuple[Scale, ...]
    ) -> Stage | None:
        """A float32 product with float16 weights, if FP16 permits that; None for all others."""
        allowed = self._has(BuilderFlag.FP16) and layer.outputs and layer.precision is None
        if not allowed or not self._machine().has_rounding or not fits_half(record, None):
            return None
        halved = halves_weights(record, layer.op.layer)
        if halved is None:
            return None
        self.halved.append(layer)
        return Stage(halved, scales, FLOAT)

    def _of(self, layer: LayerState, record: Layer[Attrs]) -> DataType | None:
        """The type in which a layer computes; None for that of the operands."""
        requested, obey = layer.precision, self._has(BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        if requested is not None and (obey or self._has(BuilderFlag.PREFER_PRECISION_CONSTRAINTS)):
            if layer.op.layer in TYPED:
                return None
            reason = self._against(layer, record, requested)
            if reason == "":
                return None if _is_of(record, requested) else requested
            if reason is None:
                return None
            self._refuse(layer, requested, reason, obey)
        return self._allowed(layer, record)

    def _against(self, layer: LayerState, record: Layer[Attrs], requested: DataType) -> str | None:
        """Why a layer cannot compute in a type, "" if it can; None if it does not compute floats."""
        if requested is INT8 and takes(layer.op, record, FLOAT) is not None:
            if layer.op.attrs not in PRODUCTS or takes_codes(record) is None:
                return "it is not a product of a float32 tensor and constant weights"
            return "" if self._step(layer, record) else f"{self._tensor(layer, record)} has no dynamic range"
        fits = takes(layer.op, record, requested)
        if fits is None:
            return None
        return (
            "" if fits and is_float(requested) else f"it does not support operands of {short_name(requested)}"
        )

    def _refuse(self, layer: LayerState, requested: DataType, reason: str, obey: bool) -> None:
        got = f"precision {short_name(requested)}, but {reason}"
        if obey:
            do = "set the dynamic range of the tensor, or call layer.reset_precision()"
            raise ArgumentError("AR333", layer.place, got, "a supported precision", do)
        self._network.channel.log(Severity.WARNING, f"{layer.place}: {got}")

    def _allowed(self, layer: LayerState, record: Layer[Attrs]) -> DataType | None:
        """The type that the flags permit and that is faster."""
        if layer.op.attrs not in PRODUCTS or any(v and v.dtype is not FLOAT for v in record.inputs):
            return None
        if self._has(BuilderFlag.INT8) and self._step(layer, record):
            return INT8
        if self._has(BuilderFlag.BF16) and is_faster(BF16, self._machine(), record):
            return BF16
        if self._has(BuilderFlag.FP16) and is_faster(HALF, self._machine(), record):
            ranges = [max(map(abs, t.range)) for t in layer.operands if t.range]
            return HALF if fits_half(record, max(ranges, default=None)) else None
        return None

    def _step(self, layer: LayerState, record: Layer[Attrs]) -> tuple[int, Scale] | None:
        """The operand that may be quantized, and its scale."""
        at = takes_codes(record)
        tensor = None if at is None else layer.inputs[at]
        if at is None or tensor is None:
            return None
        step = tensor.scale or self._scales.get(tensor)
        return None if step is None else (at, self.held(tensor, step))

    def _tensor(self, layer: LayerState, record: Layer[Attrs]) -> str:
        tensor = layer.inputs[takes_codes(record) or 0]
        return "its tensor" if tensor is None else tensor.name

    def tell(self) -> None:
        """Log the selection."""
        if self.halved:
            text = f"{counted(len(self.halved), 'layer')} compute in float32 with weights in float16"
            self._network.channel.log(Severity.INFO, text)
        if not self.chosen:
            return
        many = Counter(self.chosen.values())
        each = ", ".join(f"{n} in {short_name(dtype)}" for dtype, n in many.most_common())
        self._network.channel.log(
            Severity.INFO, f"{counted(len(self.chosen), 'layer')} do not compute in float32: {each}"
        )


def _is_of(record: Layer[Attrs], dtype: DataType) -> bool:
    return all(v is None or not is_float(v.dtype) or v.dtype is dtype for v in record.inputs)


def is_coded(network: NetworkState) -> bool:
    """Whether a network is explicitly quantized: it has Quantize or Dequantize layers."""
    return any(layer.op.layer in CODED for layer in network.layers)


def readers(view: NetworkView, expansion: Expansion) -> list[TensorView]:
    """The tensors whose dynamic range a product needs."""
    tensors: dict[TensorView, None] = {}
    for layer in view.layers:
        if layer.op.attrs in PRODUCTS:
            at = takes_codes(expansion.record(layer.it))
            tensor = None if at is None else layer.inputs[at]
            tensors |= {} if tensor is None else {tensor: None}
    return [*tensors]
