"""Tensors whose memory is not row-major, converted at the inputs and outputs of a graph.

Outside, an input or output is the array of its memory, with vectors of channels and padding
(core/formats.py); inside, it has the shape of the network. The conversion is a slice or border, a reshape and
a transposition, which fuse like any others.

>>> from anyrt.core.enums import DataType
>>> from anyrt.prims.build import param
>>> x = param("x", (1, 6, 5, 7), DataType.INT8)
>>> pack(x, TensorFormat.CHW4).type
int8[1, 2, 5, 7, 4]
>>> unpack(pack(x, TensorFormat.CHW4), TensorFormat.CHW4, x.shape).type
int8[1, 6, 5, 7]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anyrt.core.dims import add, floordiv, mul
from anyrt.core.enums import TensorFormat
from anyrt.core.formats import in_memory, order, padded, splits, vector_axis, vector_length
from anyrt.ir.graph import Graph, Shape, Value
from anyrt.ir.rewrite import transformed
from anyrt.prims.build import pad, param, reshape, slice_, transpose


def with_formats(graph: Graph, formats: Mapping[str, TensorFormat]) -> Graph:
    """`graph` with the inputs and outputs of other formats as the arrays of their memory; `graph` itself if
    there are none."""
    if not any(name in formats for name, _ in (*graph.inputs, *graph.outputs)):
        return graph
    inputs = dict(graph.inputs)
    held = {name: _held(name, inputs[name], formats[name]) for name in inputs.keys() & formats.keys()}
    inside = {
        inputs[name]: unpack(memory, formats[name], inputs[name].shape) for name, memory in held.items()
    }
    changed = transformed(graph, lambda old, new: inside.get(old, new))
    # A conversion has no name of its own: it belongs to the layer that reads its result.
    names = {value: name for value, name in changed.names.items() if value not in inside.values()}
    names |= {memory: name for name, memory in held.items()}
    outputs: list[tuple[str, Value]] = []
    for name, value in changed.outputs:
        packed = pack(value, formats[name]) if name in formats else value
        names.setdefault(packed, names.get(value, name))
        outputs.append((name, packed))
    ports = tuple((name, held.get(name, value)) for name, value in graph.inputs)
    return replace(changed, inputs=ports, outputs=tuple(outputs), names=names)


def _held(name: str, value: Value, format: TensorFormat) -> Value:
    return param(name, in_memory(format, value.dtype, value.shape), value.dtype)


def pack(v: Value, format: TensorFormat) -> Value:
    """The array that holds `v`, padded with zeros."""
    rank, whole = v.type.rank, padded(format, v.dtype, v.shape)
    filled = pad(v, [0] * rank, [add(n, mul(d, -1)) for n, d in zip(whole, v.shape, strict=True)], 0.0)
    if not splits(format):
        return transpose(filled, order(format, rank))
    axis = vector_axis(format, v.shape)
    vectors = reshape(filled, _split(whole, axis, vector_length(format, v.shape)))
    return transpose(vectors, [k for k in range(rank + 1) if k != axis + 1] + [axis + 1])


def unpack(memory: Value, format: TensorFormat, shape: Shape) -> Value:
    """The tensor of this shape in the array that holds it; padding is not read."""
    rank, whole = len(shape), padded(format, memory.dtype, shape)
    if splits(format):
        axis = vector_axis(format, shape)
        vectors = transpose(memory, [*range(axis + 1), rank, *range(axis + 1, rank)])
        filled = reshape(vectors, whole)
    else:
        outer = order(format, rank)
        filled = transpose(memory, [outer.index(k) for k in range(rank)])
    return slice_(filled, [0] * rank, shape, [1] * rank)


def _split(shape: Shape, axis: int, vector: int) -> Shape:
    """`shape` with vectors of an axis behind it."""
    return (*shape[:axis], floordiv(shape[axis], vector), vector, *shape[axis + 1 :])
