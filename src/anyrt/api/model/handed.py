"""The object that a network returns for a layer whose class gives `type` another meaning than `ILayer`.

The `type` of activations and poolings is their function. TensorRT returns plain layers, whose `type` is the
kind of layer, until a program assigns the class:

    for layer in network:
        if layer.type == trt.LayerType.ACTIVATION:
            layer.__class__ = trt.IActivationLayer
            print(layer.type)       # ActivationType.RELU
"""

from __future__ import annotations

from typing import Any

from anyrt.api.model.layer import ILayer
from anyrt.api.model.state import LayerState, state_of


def handed(layer: LayerState) -> ILayer:
    """The object of a layer, or a placeholder until its class is assigned."""
    return Handed(layer.it) if "type" in layer.attributes else layer.it


class Handed(ILayer):
    """A placeholder equal to the layer; all attributes but `type` are those of the layer."""

    __slots__ = ("_cast", "_layer")

    def __init__(self, layer: ILayer) -> None:
        object.__setattr__(self, "_layer", layer)
        object.__setattr__(self, "_cast", False)

    def __getattribute__(self, name: str) -> Any:  # Any: of whatever type the layer's attribute is
        layer = object.__getattribute__(self, "_layer")
        if name == "type" and not object.__getattribute__(self, "_cast"):
            return state_of(layer).op.layer  # what ILayer calls its type
        return getattr(layer, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "_layer"), name, value)
        if name == "__class__":
            object.__setattr__(self, "_cast", True)

    def __eq__(self, other: object) -> bool:
        layer = object.__getattribute__(self, "_layer")
        if type(other) is Handed:
            return layer is object.__getattribute__(other, "_layer")
        return layer is other

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_layer"))

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "_layer"))
