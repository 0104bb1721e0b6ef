"""Arrays in the network's shape, and in the memory layout of a format, see core/formats.py.

>>> from anyrt.core.enums import DataType
>>> binding = Binding("x", True, DataType.HALF, (1, 3, 2, 2), format=TensorFormat.CHW2)
>>> x = np.arange(12, dtype=np.float16).reshape(1, 3, 2, 2)
>>> to_memory(binding, x)[0, :, 0, 0]
array([[0., 4.],
       [8., 0.]], dtype=float16)
>>> bool((from_memory(binding, to_memory(binding, x), x.shape) == x).all())
True
"""

from __future__ import annotations

import numpy as np

from anyrt.core.enums import TensorFormat
from anyrt.core.formats import in_memory, order, padded, splits, vector_axis, vector_length
from anyrt.plan.plan import Binding
from anyrt.runtime.arrays import Array
from anyrt.runtime.shapes import Shape


def memory_shape(binding: Binding, shape: Shape) -> Shape:
    """The sizes of the array that the memory of `binding` is for a tensor of this shape."""
    return tuple(d for d in in_memory(binding.format, binding.dtype, shape) if isinstance(d, int))


def to_memory(binding: Binding, array: Array) -> Array:
    """The array that the memory of `binding` is for these elements, with zeros between them; `array` itself
    where its format is LINEAR."""
    format, shape = binding.format, array.shape
    if format is TensorFormat.LINEAR:
        return array
    filled = np.zeros(_whole(binding, shape), array.dtype)
    filled[_all(shape)] = array
    if splits(format):
        axis, vector = vector_axis(format, shape), vector_length(format, shape)
        split = (*filled.shape[:axis], filled.shape[axis] // vector, vector, *filled.shape[axis + 1 :])
        return np.ascontiguousarray(np.moveaxis(filled.reshape(split), axis + 1, -1))
    return np.ascontiguousarray(filled.transpose(order(format, len(shape))))


def from_memory(binding: Binding, memory: Array, shape: Shape) -> Array:
    """The elements of a tensor of this shape in its memory; `memory` itself where its format is LINEAR."""
    format = binding.format
    if format is TensorFormat.LINEAR:
        return memory
    if splits(format):
        filled = np.moveaxis(memory, -1, vector_axis(format, shape) + 1).reshape(_whole(binding, shape))
    else:
        filled = memory.transpose(np.argsort(order(format, len(shape))).tolist())
    return np.ascontiguousarray(filled[_all(shape)])


def _whole(binding: Binding, shape: Shape) -> Shape:
    return tuple(d for d in padded(binding.format, binding.dtype, shape) if isinstance(d, int))


def _all(shape: Shape) -> tuple[slice, ...]:
    return tuple(slice(0, n) for n in shape)
