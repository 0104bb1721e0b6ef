"""Values without operands: weights, network inputs, sizes, and counters.

>>> Const(Blob(np.arange(6, dtype=np.int32), DataType.INT32), (2, 3)).infer(())
int32[2, 3]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, Sym, product
from anyrt.core.dtype import is_float, is_integer, numpy_dtype, short_name
from anyrt.core.enums import DataType
from anyrt.core.errors import DTypeError, ShapeError
from anyrt.ir import kernel, reference
from anyrt.ir.buffer import COMPUTED, Scalar
from anyrt.ir.compute import Compute, Given
from anyrt.ir.graph import Shape as Dims
from anyrt.ir.graph import Type, Value
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.prims._check import VALUE_LIMIT, check_axis, check_shape, check_type, expect, short_shape, show

INDEX_TYPES = frozenset(DataType) - {DataType.BOOL, DataType.E8M0}


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The source of elements that a refit may replace.

    `value`: the value of other constants that they are computed from; None: they are the user's weights.
    `is_free`: they may change, so no decision may depend on their elements. `asked` is called if a network
    requires its elements: they are fixed then."""

    value: Value | None = None
    is_free: bool = True
    asked: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Blob:
    """Constant elements; two blobs are equal only if they are the same object.

    `stored`: the elements in order, of the NumPy type of `dtype` (4-bit types unpacked, one element per
    byte). They may be strided, as in a transposed array: constants that are only moved are copied once, to
    the plan. `origin`: the source of refittable elements."""

    stored: NDArray[np.generic]
    dtype: DataType
    name: str = ""
    origin: Origin | None = None

    def __post_init__(self) -> None:
        expected = numpy_dtype(self.dtype)
        assert self.stored.dtype == expected, f"a blob of {short_name(self.dtype)} holds {self.stored.dtype}"

    @property
    def data(self) -> NDArray[np.generic]:
        """The elements, flat and C-contiguous: a copy if they are strided."""
        return np.ascontiguousarray(self.stored).reshape(-1)

    @staticmethod
    def empty(dtype: DataType) -> Blob:
        """A blob without elements."""
        return Blob(np.empty(0, numpy_dtype(dtype)), dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.stored.size)

    @property
    def is_known(self) -> bool:
        """Whether its elements are fixed, so that decisions may depend on them."""
        return self.origin is None or not self.origin.is_free

    def fixed(self) -> Array:
        """The elements, for a layer whose form depends on them: they cannot be refitted."""
        if self.origin is not None:
            self.origin.asked()
        return self.array

    @property
    def array(self) -> Array:
        """The elements as the interpreter holds them (ir/reference.py), flat."""
        return reference.widen(self.data, self.dtype)


@dataclass(frozen=True, slots=True)
class Const(Prim):
    """The elements of a blob in a static shape. `is_part`: few numbers of an algorithm, no weights, so that
    kernels may be specialised for them. `use`: not 0 for one number that is a scale or zero point of one
    function alone; equal numbers with other uses are other values."""

    blob: Blob
    shape: tuple[int, ...]
    is_part: bool = False
    use: int = 0

    def compute(self) -> Compute:
        """It exists before the kernels; a single number may be its own literal."""
        alone = self.blob.size == 1 and self.blob.is_known
        held = self.blob.data.tobytes() if alone or self.is_part else None
        literal, numbers = (held, None) if alone else (None, held)
        return Given(constant=True, literal=literal, own=self.use != 0, numbers=numbers)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """Volume and number of elements agree."""
        expect(args, 0, "const")
        check_shape(self.shape, "const")
        if prod(self.shape) != self.blob.size:
            got = f"{self.blob.size} elements"
            raise ShapeError("AR103", "const", got=got, wanted=f"{prod(self.shape)} for {show(self.shape)}")
        return Type(self.shape, self.blob.dtype)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The elements."""
        return self.blob.array.reshape(out)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Single elements become literals; the scheduler loads others from the buffer of the blob."""
        assert self.blob.size == 1, "only constants of one element are lowered in place"
        number = self.blob.array.item()
        return kernel.const(number, COMPUTED[self.blob.dtype]) if number == number else _nan(self.blob.data)

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The elements of a short integer constant."""
        if short_shape(self.shape) is None or is_float(self.blob.dtype) or not self.blob.is_known:
            return None
        return _symbolic([int(v) for v in self.blob.array], self.shape)


@dataclass(frozen=True, slots=True)
class Param(Prim):
    """An input of the graph; `dynamic_values` are symbols for the elements of a short integer input.

    They are present if values of the input determine sizes."""

    name: str
    type: Type
    dynamic_values: tuple[Sym, ...] = ()

    def compute(self) -> Compute:
        """It exists before the kernels."""
        return Given()

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The declared type."""
        where = f"input {self.name!r}"
        expect(args, 0, where)
        check_shape(self.type.shape, where)
        if self.dynamic_values and not is_integer(self.type.dtype):
            raise DTypeError("AR202", where, got=short_name(self.type.dtype), wanted="an integer type")
        if self.dynamic_values and product(self.type.shape) != len(self.dynamic_values):
            got, wanted = f"{len(self.dynamic_values)} symbols", f"one for each of {show(self.type.shape)}"
            raise ShapeError("AR103", where, got=got, wanted=wanted)
        return self.type

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """Never called: the interpreter takes inputs from its caller."""
        raise AssertionError(f"input {self.name!r} has no reference, it must be fed")

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: the scheduler loads inputs from their buffers."""
        raise AssertionError(f"input {self.name!r} is loaded, not lowered")

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The symbols of the elements."""
        if not self.dynamic_values:
            return None
        return _symbolic([s.dim for s in self.dynamic_values], self.type.shape)


@dataclass(frozen=True, slots=True)
class Shape(Prim):
    """Sizes as an int64 vector."""

    dims: tuple[Dim, ...]

    def infer(self, args: tuple[Type, ...]) -> Type:
        """int64[number of sizes]."""
        expect(args, 0, "shape")
        return Type((len(self.dims),), DataType.INT64)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The sizes, which the interpreter has evaluated."""
        return np.array(self.dims, np.int64).reshape(out)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The size at a constant position, or a chain of selects."""
        (at,) = index
        if not self.dims:
            return kernel.index(0)  # nothing reads the sizes of a scalar
        if isinstance(at, int):
            return kernel.index(self.dims[at])
        result = kernel.index(self.dims[-1])
        for k in reversed(range(len(self.dims) - 1)):
            result = kernel.select(kernel.index(at) <= k, kernel.index(self.dims[k]), result)
        return result

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The sizes."""
        return _symbolic(list(self.dims), (len(self.dims),)) if len(self.dims) <= VALUE_LIMIT else None


@dataclass(frozen=True, slots=True)
class Iota(Prim):
    """0, 1, 2, … along `axis`, the same along all others."""

    shape: Dims
    axis: int
    dtype: DataType

    def infer(self, args: tuple[Type, ...]) -> Type:
        """`shape` of `dtype`."""
        expect(args, 0, "iota")
        check_shape(self.shape, "iota")
        check_axis(self.axis, len(self.shape), "iota")
        check_type(self.dtype, INDEX_TYPES, "iota")
        return Type(self.shape, self.dtype)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """np.arange, broadcast."""
        column = [-1 if k == self.axis else 1 for k in range(len(out))]
        count = np.arange(out[self.axis]).astype(reference.reference_dtype(self.dtype))
        return np.broadcast_to(count.reshape(column), out)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The index itself."""
        return kernel.cast(kernel.index(index[self.axis]), COMPUTED[self.dtype])

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The indices of a short integer vector or array."""
        shape = short_shape(self.shape)
        if shape is None or not is_integer(self.dtype):
            return None
        counts: Symbolic = np.indices(shape)[self.axis].astype(object)
        return counts


def _nan(data: NDArray[np.generic]) -> Expr:
    """A NaN with its sign and payload, as float32 or float64; a literal has neither."""
    if data.dtype == np.float64:
        return kernel.bitcast(kernel.const(int(data.view(np.int64)[0]), Scalar.I64), Scalar.F64)
    with np.errstate(invalid="ignore"):
        bits = data.astype(np.float32).view(np.int32)
    return kernel.bitcast(kernel.const(int(bits[0]), Scalar.I32), Scalar.F32)


def _symbolic(items: list[Dim], shape: Dims) -> Symbolic:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out.reshape([d if isinstance(d, int) else -1 for d in shape])
