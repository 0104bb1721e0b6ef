"""The layers that nodes are made of, as functions of tensors.

layers = Layers(network, "node")
y = layers.unary(UnaryOperation.EXP, x)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np

from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.layer import ILayer
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import state_of
from anyrt.api.model.tensor import ITensor
from anyrt.api.model.weights import Weights, fixed
from anyrt.core.dimlimits import MAX_RANK
from anyrt.core.dimtext import length
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import (
    ActivationType,
    DataType,
    ElementWiseOperation,
    FillOperation,
    MatrixOperation,
    ReduceOperation,
    SampleMode,
    UnaryOperation,
)
from anyrt.core.errors import NotSupportedError, ShapeError
from anyrt.ir.graph import Value
from anyrt.ir.prim import Symbolic
from anyrt.ir.symbolic import known
from anyrt.ops.unary import types_of
from anyrt.prims.const import Const

INT64 = DataType.INT64
HALVES = frozenset({DataType.HALF, DataType.BF16})
# What a function of tensors stumbles with over operands or attributes that are not as it needs them.
MALFORMED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
LONG = 1024  # characters of a size that a run may better find out
# What integers are computed in that elementwise layers do not take, or take for real numbers.
_BYTES = {DataType.INT8: DataType.INT32, DataType.UINT8: DataType.INT32}
# The same for extremes, so that those of nothing are the lowest or highest number, too.
_EXTREMES = {DataType.UINT8: DataType.UINT16, DataType.BOOL: DataType.UINT16}


class Layers:
    """Adds layers to `network`; `where`: the prefix of their names, the node's name."""

    def __init__(self, network: INetworkDefinition, where: str) -> None:
        self.network = network
        self.where = where
        self._count = count()

    def add(self, method: str, *operands: object, **attributes: object) -> ILayer:
        """A new layer of `network.<method>(*operands)`, of which `attributes` are set."""
        layer = getattr(self.network, method)(*map(_plain, operands))
        for name, value in attributes.items():
            setattr(layer, name, value)
        self.give_name(layer)
        assert isinstance(layer, ILayer), f"{method} gave {layer!r}"
        state_of(layer).is_imported = True
        return layer

    def give_name(self, layer: ILayer) -> None:
        """Name it after its node, with a number where a node takes several."""
        n = next(self._count)
        layer.name = f"{self.where}.{n}" if n else self.where

    def layer(self, method: str, *operands: object, **attributes: object) -> Tensor:
        """The first output of a new layer."""
        return self.tensor(self.add(method, *operands, **attributes).get_output(0))

    def with_inputs(self, layer: ILayer, inputs: dict[int, Tensor | None]) -> Tensor:
        """The first output of `layer` after these inputs of it are connected, None for those left out."""
        for i, x in inputs.items():
            if x is not None:
                layer.set_input(i, x.it)
        return self.tensor(layer.get_output(0))

    def tensor(self, it: ITensor) -> Tensor:
        """`it`, with arithmetic."""
        return Tensor(self, it)

    def outputs(self, layer: ILayer) -> list[Tensor]:
        """All outputs of a layer."""
        return [self.tensor(layer.get_output(i)) for i in range(layer.num_outputs)]

    def constant(self, values: object, dtype: DataType | None = None) -> Tensor:
        """A tensor of these numbers, of the array's own type by default. A number that a half type does not
        represent is kept in float64: the node that it belongs to computes with it."""
        array = np.asarray(values)
        held = array if dtype is None else array.astype(numpy_dtype(dtype))
        if dtype not in HALVES or np.array_equal(held.astype(np.float64), array, equal_nan=True):
            return self.weights(Weights(np.ascontiguousarray(fixed(held))), held.shape)
        exact = self.weights(Weights(np.ascontiguousarray(array, np.float64)), array.shape)
        state_of(exact.it).dtype = dtype
        return exact

    def weights(self, weights: Weights, shape: Sequence[int], name: str = "") -> Tensor:
        """A tensor of weights, which are refitted under the name that they have in the model."""
        if name and weights.size:
            state_of(self.network).weight_names[weights.address] = name
        return self.layer("add_constant", tuple(shape), weights)

    def like(self, value: float, x: Tensor) -> Tensor:
        """One number of the type of `x`, which broadcasts with it."""
        return self.constant(np.full((1,) * x.rank, value), x.dtype)

    def value(self, x: Tensor) -> Value:
        """What it is in the graph of primitives, with its symbolic sizes."""
        state = state_of(x.it)
        return state.network.expansion.value(state)

    def symbols(self, x: Tensor) -> Symbolic | None:
        """The elements of an integer or bool tensor, where they follow from sizes and shape tensors."""
        return known(self.value(x))

    def brief(self, x: Tensor) -> Tensor:
        """`x`, whose elements a run finds out if they are long as arithmetic on sizes: each condition on them
        would be many times as long."""
        try:
            elements = self.symbols(x)
        except NotSupportedError:  # longer than sizes may be
            return x.cast(DataType.DOUBLE).cast(INT64)
        long = elements is not None and any(length(e) > LONG for e in elements.reshape(-1).tolist())
        return x.cast(DataType.DOUBLE).cast(INT64) if long else x

    def ints(self, x: Tensor) -> tuple[int, ...] | None:
        """The elements of an integer tensor, where they are known now."""
        elements = self.symbols(x)
        if elements is None or not all(isinstance(e, int) for e in elements.reshape(-1).tolist()):
            return None
        return tuple(elements.reshape(-1).tolist())

    def held(self, x: Tensor) -> Weights | None:
        """The weights that a tensor is, None where it is computed."""
        op = self.value(x).op
        return Weights(op.blob.data) if isinstance(op, Const) else None

    def aligned(self, *tensors: Tensor) -> list[Tensor]:
        """The tensors with axes of size 1 in front, so that all have as many."""
        rank = max(x.rank for x in tensors)
        return [self.unsqueeze(x, range(rank - x.rank)) for x in tensors]

    def unary(self, op: UnaryOperation, x: Tensor) -> Tensor:
        """A function of each element; int8 is an integer."""
        if x.dtype in types_of(op):
            return self.layer("add_unary", x, op)
        wide = DataType.FLOAT if x.is_float else DataType.INT32
        y = self.layer("add_unary", x.cast(wide), op)
        return y if y.dtype is DataType.BOOL else y.cast(x.dtype)

    def activation(self, op: ActivationType, x: Tensor, **parameters: float) -> Tensor:
        """An activation with its alpha and beta."""
        return self.layer("add_activation", x, op, **parameters)

    def binary(self, op: ElementWiseOperation, a: Tensor, b: Tensor) -> Tensor:
        """A function of each two elements, with axes aligned as in NumPy; int8 is an integer."""
        if op is ElementWiseOperation.EQUAL and a.dtype is DataType.BOOL:
            return ~self.binary(ElementWiseOperation.XOR, a, b)
        wide = _BYTES.get(a.dtype, a.dtype)
        if wide is not a.dtype and b.dtype is a.dtype:
            y = self.layer("add_elementwise", *self.aligned(a.cast(wide), b.cast(wide)), op)
            return y if y.dtype is DataType.BOOL else y.cast(a.dtype)
        return self.layer("add_elementwise", *self.aligned(a, b), op)

    def where_(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """`a` where the condition holds, else `b`."""
        return self.layer("add_select", *self.aligned(condition, a, b))

    def cast(self, x: Tensor, dtype: DataType) -> Tensor:
        """`x` in another type."""
        return x if x.dtype is dtype else self.layer("add_cast", x, dtype)

    def shape(self, x: Tensor) -> Tensor:
        """The sizes: int64 of shape (rank,)."""
        return self.layer("add_shape", x).cast(INT64)  # int32 in networks of TensorRT 8

    def size(self, x: Tensor, axis: int) -> Tensor:
        """The size of one axis: int64 of shape (1,)."""
        axis %= x.rank
        if x.sizes[axis] >= 0:
            return self.constant([x.sizes[axis]], INT64)
        return self.slice(self.shape(x), [axis], [1])

    def dims(self, sizes: Sequence[int | Tensor] | Tensor) -> Tensor | tuple[int, ...]:
        """Sizes as numbers where all are known, else as one int64 tensor."""
        if isinstance(sizes, Tensor):
            sizes = self.brief(sizes)
            known = self.ints(sizes)
            return self.cast(sizes, INT64) if known is None else known
        if all(isinstance(s, int) for s in sizes):
            return tuple(s for s in sizes if isinstance(s, int))
        parts = [self.constant([s], INT64) if isinstance(s, int) else _row(s.cast(INT64)) for s in sizes]
        return self.dims(self.concat(parts, 0))

    def reshape(self, x: Tensor, sizes: Sequence[int | Tensor] | Tensor, zero_copies: bool = False) -> Tensor:
        """`x` in another shape; -1 once for what is left over; 0 for the size at its place where asked."""
        dims = self.dims(sizes)
        layer = self.add("add_shuffle", x, zero_is_placeholder=zero_copies)
        if isinstance(dims, tuple):
            layer.reshape_dims = dims
            return self.tensor(layer.get_output(0))
        return self.with_inputs(layer, {1: dims})

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """The axes in another order."""
        return self.layer("add_shuffle", x, first_transpose=tuple(order))

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Without these axes of size 1."""
        return self.layer("add_squeeze", x, self.constant(list(axes), INT64)) if len(axes) else x

    def unsqueeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """With axes of size 1 at these places of the result."""
        return self.layer("add_unsqueeze", x, self.constant(list(axes), INT64)) if len(axes) else x

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors one behind the other."""
        if len(parts) == 1:
            return parts[0]
        return self.layer("add_concatenation", [p.it for p in parts], axis=axis)

    def gather(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """The slices of `x` at positions that are data."""
        return self.layer("add_gather", x, indices, axis)

    def slice(
        self,
        x: Tensor,
        start: Sequence[int | Tensor] | Tensor,
        size: Sequence[int | Tensor] | Tensor,
        step: Sequence[int | Tensor] | Tensor | None = None,
        mode: SampleMode = SampleMode.STRICT_BOUNDS,
        fill: Tensor | None = None,
    ) -> Tensor:
        """A window, an entry for each axis; `fill`: the value outside in that mode, 0 if None."""
        rank = x.rank
        windows = [self.dims(v) for v in (start, size, [1] * rank if step is None else step)]
        ready = [v if isinstance(v, tuple) else (0,) * rank for v in windows]
        layer = self.add("add_slice", x, *ready, mode=mode)
        dynamic = {i + 1: v for i, v in enumerate(windows) if isinstance(v, Tensor)}
        return self.with_inputs(layer, {**dynamic, 4: fill})

    def expand(self, x: Tensor, sizes: Tensor | Sequence[int | Tensor]) -> Tensor:
        """`x` repeated along axes of size 1, to sizes that have no fewer axes."""
        dims = self.dims(sizes)
        rank = self.axes_of(len(dims) if isinstance(dims, tuple) else dims.sizes[0])
        x = self.unsqueeze(x, range(rank - x.rank))
        steps = self.shape(x).maximum(1).minimum(2) - 1  # 0 repeats an axis of size 1
        step = self.ints(steps)
        return self.slice(x, [0] * rank, dims, steps if step is None else step)

    def axes_of(self, count: int) -> int:
        """A number of axes in a model, if it is supported; ShapeError AR115 otherwise."""
        if count > MAX_RANK:
            raise ShapeError("AR115", self.where, f"{count} dimensions", f"at most {MAX_RANK}")
        return count

    def counted(self, size: int | Tensor) -> Tensor:
        """0, 1, … as int64, so many of them."""
        is_known = isinstance(size, int)
        layer = self.add("add_fill", (size if is_known else 0,), FillOperation.LINSPACE, INT64)
        return self.with_inputs(layer, {} if isinstance(size, int) else {0: size})

    def full(self, sizes: Tensor | Sequence[int | Tensor], value: Tensor) -> Tensor:
        """One number, a tensor of one element, in each place."""
        return self.expand(value.reshape(()), sizes)

    def reduce(self, op: ReduceOperation, x: Tensor, axes: Sequence[int], keep: bool = True) -> Tensor:
        """A fold over axes; `x` itself over none. int8 is an integer."""
        mask = sum(1 << a for a in {a % x.rank for a in axes})
        if not mask:
            return x
        extreme = op in (ReduceOperation.MAX, ReduceOperation.MIN)
        wide = (_EXTREMES if extreme else _BYTES).get(x.dtype, x.dtype)
        return self.layer("add_reduce", x.cast(wide), op, mask, keep).cast(x.dtype)

    def matmul(self, a: Tensor, b: Tensor, turn_a: bool = False, turn_b: bool = False) -> Tensor:
        """Products of matrices, with batches in front; a tensor of one axis is a vector."""
        ops = [_matrix(x, turn) for x, turn in ((a, turn_a), (b, turn_b))]
        rank = max(a.rank, b.rank)
        if min(a.rank, b.rank) > 1:
            a, b = self.aligned(a, b)
        elif rank > 2:  # batches of one side; a vector has none of its own
            a, b = (self.unsqueeze(x, range(rank - 1 - x.rank)) if x.rank < 2 < rank else x for x in (a, b))
        return self.layer("add_matrix_multiply", a, ops[0], b, ops[1])


def _plain(x: object) -> object:
    return x.it if isinstance(x, Tensor) else x


def _row(x: Tensor) -> Tensor:
    """A tensor of one element as (1,)."""
    return x if x.rank == 1 else x.reshape((1,))


def _matrix(x: Tensor, turn: bool) -> MatrixOperation:
    if x.rank == 1:
        return MatrixOperation.VECTOR
    return MatrixOperation.TRANSPOSE if turn else MatrixOperation.NONE
