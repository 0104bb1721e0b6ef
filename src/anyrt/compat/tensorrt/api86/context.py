"""Execution contexts with numbered bindings. The functions become methods of `IExecutionContext`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence, Sized

import numpy as np
from numpy.typing import NDArray

from anyrt.api.edge.quiet import quiet, wrong_type
from anyrt.api.model.dims import Dims
from anyrt.api.run.context import IExecutionContext
from anyrt.compat.tensorrt.api86.engine import num_bindings, tensor_of
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import Severity, TensorIOMode
from anyrt.core.errors import BindingError
from anyrt.runtime.arrays import Bindable


def execute_async_v2(
    self: IExecutionContext,
    bindings: Sequence[Bindable],
    stream_handle: int,
    input_consumed: object = None,
) -> bool:
    """Execute one inference, with one address per binding. Addresses for other profiles are ignored, and
    those at the end may be omitted."""
    return _bind(self, bindings, "execute_async_v2") and self.execute_async_v3(stream_handle)


def execute_v2(self: IExecutionContext, bindings: Sequence[Bindable]) -> bool:
    """The same without a stream."""
    return _bind(self, bindings, "execute_v2") and self.execute_async_v3(0)


def execute_async(
    self: IExecutionContext,
    batch_size: int = 1,
    bindings: Sequence[Bindable] = (),
    stream_handle: int = 0,
    input_consumed: object = None,
) -> bool:
    """The same. Shapes include the batch, and `batch_size` is ignored."""
    if batch_size != 1:
        text = f"batch size {batch_size} is ignored: shapes of bindings include the batch"
        self._channel.log(Severity.WARNING, text)
    return execute_async_v2(self, bindings, stream_handle)


def execute(self: IExecutionContext, batch_size: int = 1, bindings: Sequence[Bindable] = ()) -> bool:
    """The same without a stream."""
    return execute_async(self, batch_size, bindings)


@quiet(False)
def _bind(self: IExecutionContext, bindings: Sequence[Bindable], method: str) -> bool:
    if not isinstance(bindings, Sized):
        raise wrong_type(method, bindings, "a list of addresses")
    count = self.engine.num_io_tensors
    first = self.active_optimization_profile * count
    if not first + count <= len(bindings) <= num_bindings(self.engine):
        wanted, do = f"{num_bindings(self.engine)}", "pass one address per binding and profile"
        raise BindingError("AR701", method, f"{len(bindings)} addresses", wanted, do)
    return all(_bind_one(self, first + i, bindings[first + i]) for i in range(count))


def _bind_one(self: IExecutionContext, binding: int, memory: Bindable | None) -> bool:
    name, _ = tensor_of(self.engine, binding)
    if memory is None or (isinstance(memory, int) and memory == 0):
        # The values of shape tensors may come from set_shape_input; then the list has no address for them.
        if self.engine.is_shape_inference_io(name) and self.get_tensor_address(name):
            return True
        return self.set_tensor_address(name, 0)
    return self.set_tensor_address(name, memory)


@quiet(False)
def set_binding_shape(self: IExecutionContext, binding: int, shape: Dims | Sequence[int]) -> bool:
    """Set the shape of an input of the selected profile."""
    return self.set_input_shape(_own(self, binding), shape)


def get_binding_shape(self: IExecutionContext, binding: int) -> Dims:
    """The shape of an input or output; −1 for unknown dimensions."""
    return self.get_tensor_shape(tensor_of(self.engine, binding)[0])


def get_strides(self: IExecutionContext, binding: int) -> Dims:
    """The stride of each dimension, in elements."""
    return self.get_tensor_strides(tensor_of(self.engine, binding)[0])


@quiet(False)
def set_shape_input(self: IExecutionContext, binding: int, shape: Sequence[int]) -> bool:
    """Set the values of a shape tensor, which are copied."""
    name = _own(self, binding)
    return self.set_tensor_address(name, np.array(shape, _dtype(self, name)))


@quiet(None)
def get_shape(self: IExecutionContext, binding: int) -> list[int] | None:
    """The values of an input or output that is a shape tensor."""
    name, address = _own(self, binding), 0
    if self.engine.get_tensor_mode(name) is TensorIOMode.INPUT:
        address = self.get_tensor_address(name)
        if not address:
            raise BindingError(
                "AR701", name, "no values", "the values of the shape tensor", "call set_shape_input"
            )
        return [int(x) for x in _values(self, name, address)]
    before = self.get_tensor_address(name)
    values = np.zeros(tuple(self.get_tensor_shape(name)), _dtype(self, name))
    self.set_tensor_address(name, values)
    self.infer_shapes()
    self.set_tensor_address(name, before)
    return [int(x) for x in values.reshape(-1)]


def _own(self: IExecutionContext, binding: int) -> str:
    """The tensor of a binding, which must belong to the selected profile."""
    name, profile = tensor_of(self.engine, binding)
    if profile != self.active_optimization_profile:
        got, wanted = f"binding {binding} of profile {profile}", f"one of {self.active_optimization_profile}"
        raise BindingError("AR706", name, got, wanted, "select the profile first")
    return name


def _values(self: IExecutionContext, name: str, address: int) -> NDArray[np.generic]:
    dtype = _dtype(self, name)
    nbytes = math.prod(self.get_tensor_shape(name)) * dtype.itemsize
    self._context.tensors.check_place(self._context.loaded.find(name), nbytes)
    return np.frombuffer(ctypes.string_at(address, nbytes), dtype)


def _dtype(self: IExecutionContext, name: str) -> np.dtype[np.generic]:
    return np.dtype(numpy_dtype(self.engine.get_tensor_dtype(name)))


def active_optimization_profile(self: IExecutionContext) -> int:
    """The selected profile; assign to select another one."""
    return self._context.sizing.profile


def _set_profile(self: IExecutionContext, index: int) -> None:
    self.set_optimization_profile_async(index, 0)


ACTIVE_PROFILE = property(active_optimization_profile, _set_profile)
METHODS = (
    *(execute, execute_v2, execute_async, execute_async_v2, set_binding_shape, get_binding_shape),
    *(get_strides, set_shape_input, get_shape),
)
