"""Engines with numbered bindings: one per tensor and profile; those of profile p follow those of profile p −
1.

A binding is a number or a name; for profiles after the first the name is `x [profile 1]`. The functions
become methods and properties of `ICudaEngine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from anyrt.api.edge.quiet import integer
from anyrt.api.model.dims import Dims
from anyrt.api.run.engine import ICudaEngine
from anyrt.core.enums import DataType, TensorFormat, TensorIOMode, TensorLocation

Binding: TypeAlias = int | str
_OF_PROFILE = re.compile(r"(.*) \[profile (\d+)\]", re.S)


def tensor_of(engine: ICudaEngine, binding: Binding) -> tuple[str, int]:
    """The name and the profile of a binding. An invalid binding gets a name that the engine rejects."""
    if isinstance(binding, str):
        match_ = _OF_PROFILE.fullmatch(binding)
        return (match_[1], int(match_[2])) if match_ else (binding, 0)
    index = integer(binding, "binding")
    if not 0 <= index < num_bindings(engine):
        return f"binding {index}", 0
    profile, tensor = divmod(index, engine.num_io_tensors)
    name = engine.get_tensor_name(tensor)
    assert name is not None, f"tensor {tensor} has no name"
    return name, profile


def num_bindings(self: ICudaEngine) -> int:
    """The number of inputs and outputs, times the number of profiles."""
    return self.num_io_tensors * self.num_optimization_profiles


def max_batch_size(self: ICudaEngine) -> int:
    """1: the batch is a dimension like any other."""
    return 1


def get_binding_name(self: ICudaEngine, index: int) -> str | None:
    """The name of a binding; None if the index is out of range."""
    if not 0 <= integer(index, "get_binding_name") < num_bindings(self):
        return None
    name, profile = tensor_of(self, index)
    return f"{name} [profile {profile}]" if profile else name


def get_binding_index(self: ICudaEngine, name: str) -> int:
    """The number of a binding; −1 for an unknown name."""
    names = list(__iter__(self))
    return names.index(name) if name in names else -1


def binding_is_input(self: ICudaEngine, binding: Binding) -> bool:
    """Whether it is an input."""
    return self.get_tensor_mode(tensor_of(self, binding)[0]) is TensorIOMode.INPUT


def get_binding_shape(self: ICudaEngine, binding: Binding) -> Dims:
    """The shape in the network; −1 for dynamic dimensions."""
    return self.get_tensor_shape(tensor_of(self, binding)[0])


def get_binding_dtype(self: ICudaEngine, binding: Binding) -> DataType:
    """The element type."""
    return self.get_tensor_dtype(tensor_of(self, binding)[0])


def get_location(self: ICudaEngine, binding: Binding) -> TensorLocation:
    """HOST for shape tensors, otherwise DEVICE; both are host memory."""
    return self.get_tensor_location(tensor_of(self, binding)[0])


def get_profile_shape(self: ICudaEngine, profile_index: int, binding: Binding) -> list[Dims]:
    """The minimum, optimum and maximum shape of an input."""
    return self.get_tensor_profile_shape(tensor_of(self, binding)[0], profile_index)


def get_profile_shape_input(self: ICudaEngine, profile_index: int, binding: Binding) -> list[list[int]]:
    """The minimum, optimum and maximum values of a shape tensor."""
    # The names of the two parameters are exchanged, as in TensorRT.
    return self.get_tensor_profile_values(profile_index, tensor_of(self, binding)[0])


def is_shape_binding(self: ICudaEngine, binding: int) -> bool:
    """Whether a binding is a shape tensor."""
    return self.is_shape_inference_io(tensor_of(self, binding)[0])


def is_execution_binding(self: ICudaEngine, binding: int) -> bool:
    """Whether an inference needs the address of a binding: always True."""
    return self.get_tensor_mode(tensor_of(self, binding)[0]) is not TensorIOMode.NONE


def get_binding_format(self: ICudaEngine, index: int) -> TensorFormat:
    """The memory layout."""
    return self.get_tensor_format(*tensor_of(self, index))


def get_binding_format_desc(self: ICudaEngine, index: int) -> str:
    """The description of the memory layout."""
    return self.get_tensor_format_desc(*tensor_of(self, index))


def get_binding_bytes_per_component(self: ICudaEngine, index: int) -> int:
    """Bytes of one component of a vectorised layout; −1 for others."""
    return self.get_tensor_bytes_per_component(*tensor_of(self, index))


def get_binding_components_per_element(self: ICudaEngine, index: int) -> int:
    """Components of an element of a vectorised layout; −1 for others."""
    return self.get_tensor_components_per_element(*tensor_of(self, index))


def get_binding_vectorized_dim(self: ICudaEngine, index: int) -> int:
    """The dimension that a layout vectorises; −1 for none."""
    return self.get_tensor_vectorized_dim(*tensor_of(self, index))


def __len__(self: ICudaEngine) -> int:
    return num_bindings(self)


def __getitem__(self: ICudaEngine, key: Binding) -> Binding | None:
    """The name of a binding number, or the number of a binding name."""
    if isinstance(key, str):
        return get_binding_index(self, key)
    if not -num_bindings(self) <= key < num_bindings(self):
        raise IndexError(key)
    return get_binding_name(self, key % num_bindings(self))


def __iter__(self: ICudaEngine) -> Iterator[str | None]:
    return iter([get_binding_name(self, i) for i in range(num_bindings(self))])


PROPERTIES = (num_bindings, max_batch_size)
METHODS = (
    *(get_binding_name, get_binding_index, binding_is_input, get_binding_shape, get_binding_dtype),
    *(get_location, get_profile_shape, get_profile_shape_input, is_shape_binding, is_execution_binding),
    *(get_binding_format, get_binding_format_desc, get_binding_bytes_per_component),
    *(get_binding_components_per_element, get_binding_vectorized_dim),
    *(__len__, __getitem__, __iter__),
)
