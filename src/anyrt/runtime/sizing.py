"""The sizes of a context: its profile, the shapes that were set, and the sizes that depend on them."""

from __future__ import annotations

import ctypes

from anyrt.core.dtype import storage_bytes
from anyrt.core.errors import BindingError
from anyrt.plan import abi
from anyrt.plan.plan import Binding
from anyrt.runtime.arrays import read_values
from anyrt.runtime.loaded import Loaded, static_shape
from anyrt.runtime.pauses import ComputedSizes
from anyrt.runtime.shapes import Resolved, Shape, actual_shape, check_limits, check_shape
from anyrt.runtime.tensors import Tensors


class Sizing:
    """The sizes of an inference. `is_computed`: whether the data-dependent sizes are those of an inference
    for the current shapes."""

    def __init__(self, loaded: Loaded, tensors: Tensors, profile: int) -> None:
        self.loaded, self._tensors = loaded, tensors
        self.profile = profile
        self._shapes: list[Shape | None] = []
        self.is_computed = False
        self.enter(profile)

    def enter(self, profile: int) -> None:
        """Use another profile; the shapes that were set are reset."""
        self.loaded.check_profile(profile)
        self.profile, self.is_computed = profile, False
        self._shapes = [self._pinned(b) for b in self.loaded.resolver.inputs]

    def _pinned(self, binding: Binding) -> Shape | None:
        """The only shape that is possible, None when there are several."""
        limits = self.loaded.limits(self.profile, binding.name, is_values=False)
        if limits is not None and limits.min == limits.max:
            return limits.min
        return static_shape(binding)

    def input(self, name: str) -> int:
        """The index of an input."""
        index = self.loaded.find(name)
        if index >= len(self._shapes):
            do = "shapes of outputs follow from those of inputs"
            raise BindingError("AR706", name, got="an output", wanted="an input", do=do)
        return index

    def input_shape(self, index: int) -> Shape | None:
        """The shape of an input that was set, None for outputs, too."""
        return self._shapes[index] if index < len(self._shapes) else None

    def awaits(self, index: int) -> bool:
        """True for an input whose shape was not set yet."""
        return index < len(self._shapes) and self._shapes[index] is None

    @property
    def are_set(self) -> bool:
        """True when all inputs have shapes."""
        return None not in self._shapes

    def set(self, index: int, shape: Shape) -> None:
        """Set the shape of an input; ProfileError, ShapeError if it is invalid."""
        binding = self.loaded.plan.bindings[index]
        check_shape(binding, shape, self.loaded.limits(self.profile, binding.name, is_values=False))
        self._shapes[index] = shape
        self.is_computed = False

    def of(self, name: str, is_actual: bool = True) -> Shape:
        """The shape of an input or output, −1 for unknown sizes; with `is_actual` after the last inference,
        else −1 for all data-dependent ones."""
        index = self.loaded.find(name)
        known = self.input_shape(index)
        if known is None and not self.missing():
            known = self.resolve().shapes[index]
            binding = self.loaded.plan.bindings[index]
            known = self.output_shape(index) if is_actual and binding.is_data_dependent else known
        return _declared(self.loaded.plan.bindings[index]) if known is None else known

    def output_shape(self, index: int) -> Shape:
        """The shape of an output after the last inference, −1 for data-dependent sizes that are not
        computed."""
        sizes = self.sizes()
        for name, at in self.loaded.counts.items():
            del sizes[name]
            if self.is_computed:
                word = self._tensors.words[abi.FIRST_BINDING + at]
                sizes[name] = ctypes.c_int64.from_address(word).value
        return actual_shape(self.loaded.plan.bindings[index], sizes)

    def missing(self) -> list[str]:
        """Inputs without a shape, and shape tensors without an address."""
        bindings = self.loaded.plan.bindings
        no_shape = {i for i, shape in enumerate(self._shapes) if shape is None}
        no_values = {i for i in self.loaded.value_inputs if not self._tensors.address(i)}
        return [bindings[i].name for i in sorted(no_shape | no_values)]

    def resolve(self, computed: ComputedSizes = ()) -> Resolved:
        """All sizes for the current shapes and elements of shape tensors; `computed`: the computed sizes."""
        missing = self.missing()
        if missing:
            raise self._incomplete(missing[0])
        shapes = tuple(s for s in self._shapes if s is not None)
        return self.loaded.resolver.resolve(shapes, self._values(), computed)

    def sizes(self) -> dict[str, int]:
        """The value of every dynamic size, if shapes and the elements of shape tensors are known."""
        self.resolve()
        return self.loaded.resolver.sizes(tuple(s for s in self._shapes if s is not None), self._values())

    def _incomplete(self, name: str) -> BindingError:
        index = self.loaded.find(name)
        if self._shapes[index] is None:
            declared = _declared(self.loaded.plan.bindings[index])
            got, do = f"no shape for {declared}", f"call context.set_input_shape({name!r}, shape)"
            return BindingError("AR707", name, got, "all dimensions", do)
        got, do = "no address", f"call context.set_tensor_address({name!r}, array)"
        return BindingError("AR707", name, got, "values, since dimensions depend on them", do)

    def _values(self) -> tuple[Shape | None, ...]:
        values: list[Shape | None] = [None] * len(self._shapes)
        for i in self.loaded.value_inputs:
            binding, shape = self.loaded.plan.bindings[i], self._shapes[i]
            assert shape is not None, f"{binding.name} has no shape"
            count = shape[0] if shape else 1
            self._tensors.check_place(i, storage_bytes(binding.dtype, count))
            values[i] = read_values(binding, self._tensors.address(i), count)
            limits = self.loaded.limits(self.profile, binding.name, is_values=True)
            if limits is not None:
                check_limits(binding.name, values[i] or (), limits)
        return tuple(values)


def _declared(binding: Binding) -> Shape:
    """The shape in the network, −1 for dynamic sizes."""
    return tuple(d if isinstance(d, int) else -1 for d in binding.shape)
