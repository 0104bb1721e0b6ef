"""Dimensions as expressions, from which the functions of a plug-in compute output shapes and launches.

>>> n = ShapeExpr(5)
>>> (n + 3) // 2, cdiv(n, 2), max(n, 8)
(<ShapeExpr: 4>, <ShapeExpr: 3>, <ShapeExpr: 8>)

A dimension is a number, an expression of dynamic dimensions, or fake: its value is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import Refused, WrongValue, integer
from anyrt.api.plugins.exprs import DIVISIONS, OPERATIONS, IDimensionExpr, IExprBuilder, ISymExpr, dim_of
from anyrt.core.dims import Dim
from anyrt.core.dimtext import print_dim
from anyrt.core.enums import DimensionOperation, PluginArgDataType, PluginArgType
from anyrt.core.errors import ArgumentError

if TYPE_CHECKING:
    from anyrt.api.plugins.functions.desc import SizeTensorDesc


class SymIntExpr(Fixed):
    """An integer expression; `SymIntExpr()`, without a value, is fake."""

    __slots__ = ("__weakref__", "_dim", "_is_size")

    dtype: ClassVar[PluginArgDataType | None] = None  # of a kernel's argument

    def __init__(self, value: int | IDimensionExpr | SymIntExpr | None = None) -> None:
        self._dim: Dim | None = None
        self._is_size = False
        if isinstance(value, IDimensionExpr):
            self._dim, self._is_size = dim_of(value), value.is_size_tensor()
        elif isinstance(value, SymIntExpr):
            self._dim, self._is_size = value._dim, value._is_size
        elif value is not None:
            self._dim = integer(value, type(self).__name__)

    def _of(self, dim: Dim | None) -> SymIntExpr:
        """An expression with another value: a ShapeExpr if this is one."""
        expr = (ShapeExpr if isinstance(self, ShapeExpr) else SymIntExpr)()
        expr._dim = dim
        return expr

    def _op(self, op: DimensionOperation, other: object, swap: bool = False) -> SymIntExpr:
        """The result of `op` on this and `other`; fake if one of them is fake."""
        b = (
            other
            if isinstance(other, SymIntExpr)
            else SymIntExpr(integer(other, f"{op.name} of a dimension"))
        )
        if self._is_size or b._is_size:
            do = "compute with the upper_bound of the size tensor"
            raise bad(
                "a data-dependent dimension", f"dimensions whose {op.name} is known before the inference", do
            )
        x, y = (b._dim, self._dim) if swap else (self._dim, b._dim)
        if op in DIVISIONS and y == 0:
            raise bad(f"{op.name} by 0", "a divisor other than 0", "divide by a dimension of at least 1")
        known = x is not None and y is not None
        return (b if isinstance(b, ShapeExpr) else self)._of(OPERATIONS[op](x, y) if known else None)  # type: ignore[arg-type]

    def __add__(self, other: int | SymIntExpr) -> SymIntExpr:
        return self._op(DimensionOperation.SUM, other)

    def __radd__(self, other: int) -> SymIntExpr:
        return self._op(DimensionOperation.SUM, other, swap=True)

    def __sub__(self, other: int | SymIntExpr) -> SymIntExpr:
        return self._op(DimensionOperation.SUB, other)

    def __rsub__(self, other: int) -> SymIntExpr:
        return self._op(DimensionOperation.SUB, other, swap=True)

    def __mul__(self, other: int | SymIntExpr) -> SymIntExpr:
        return self._op(DimensionOperation.PROD, other)

    def __rmul__(self, other: int) -> SymIntExpr:
        return self._op(DimensionOperation.PROD, other, swap=True)

    def __floordiv__(self, other: int | SymIntExpr) -> SymIntExpr:
        return self._op(DimensionOperation.FLOOR_DIV, other)

    def __eq__(self, other: object) -> SymIntExpr:  # type: ignore[override]  # as in TensorRT: 1 or 0, later
        return self._op(DimensionOperation.EQUAL, other)

    def __lt__(self, other: int | SymIntExpr) -> SymIntExpr:
        return self._op(DimensionOperation.LESS, other)

    __hash__ = None  # type: ignore[assignment]  # equality of two expressions may be unknown

    def __bool__(self) -> bool:
        """Whether it is not 0; a fake one is true. RuntimeError if it depends on dynamic dimensions."""
        if self._dim is None:
            return True
        if not isinstance(self._dim, int):
            do = "check is_constant first, or compare in the impl function"
            raise Refused(_error(f"{print_dim(self._dim)}, which is data-dependent", "a constant", do))
        return self._dim != 0

    @property
    def is_fake(self) -> bool:
        """Whether its value is unknown, as during a query of output types."""
        return self._dim is None

    @property
    def is_constant(self) -> bool:
        """Whether it is a number; RuntimeError if `is_fake`."""
        if self._dim is None:
            raise Refused(_error("a fake dimension", "a dimension of a tensor", "check is_fake first"))
        return isinstance(self._dim, int)

    def constant_value(self) -> int:
        """The number; RuntimeError unless `is_constant`."""
        if not self.is_constant:
            raise Refused(_error("a data-dependent dimension", "a number", "check is_constant first"))
        assert isinstance(self._dim, int), "it is constant"
        return self._dim

    def _in(self, builder: IExprBuilder) -> IDimensionExpr:
        """The expression as an IDimensionExpr of the builder."""
        if self._dim is None:
            raise bad(
                "a fake dimension", "a number or an expression of input dimensions", "set every dimension"
            )
        return IDimensionExpr(self._dim)

    @one_line
    def __repr__(self) -> str:
        return ": fake" if self._dim is None else f": {print_dim(self._dim)}"


class SymInt32(SymIntExpr):
    """A 32-bit argument of a kernel. A call returns the argument for the launch."""

    __slots__ = ()

    dtype = PluginArgDataType.INT32

    def __call__(self) -> ISymExpr:
        """The argument."""
        return argument(self)


class SymInt16(SymIntExpr):
    """A 16-bit argument of a kernel."""

    __slots__ = ()

    dtype = PluginArgDataType.INT16


class SymInt8(SymIntExpr):
    """An 8-bit argument of a kernel."""

    __slots__ = ()

    dtype = PluginArgDataType.INT8


class ShapeExpr(SymInt32):
    """A dimension of a tensor."""

    __slots__ = ()

    @property
    def is_size_tensor(self) -> bool:
        """Whether it is the value of an output of the plug-in."""
        return self._is_size


class SizeTensorShapeExpr(ShapeExpr):
    """The value of a size tensor, as `SizeTensorDesc.expr()` returns it; other expressions cannot use it."""

    __slots__ = ("_desc",)

    def __init__(self, size_tensor_desc: SizeTensorDesc) -> None:
        ShapeExpr.__init__(self, size_tensor_desc.opt)
        self._is_size = True
        self._desc = size_tensor_desc

    @property
    def is_constant(self) -> bool:
        """False: an inference determines it; RuntimeError if `is_fake`."""
        if self.is_fake:
            raise Refused(_error("a fake dimension", "a dimension of a tensor", "check is_fake first"))
        return False

    def __bool__(self) -> bool:
        return True

    def _in(self, builder: IExprBuilder) -> IDimensionExpr:
        desc = self._desc
        if desc.index is None:
            do = "return it among the outputs: return out, size"
            raise bad("a size tensor that is no output", "an output with the dimension", do)
        return builder.declare_size_tensor(desc.index, desc.opt._in(builder), desc.upper_bound._in(builder))

    @one_line
    def __repr__(self) -> str:
        return ": value of a size tensor"


def size_in(expr: SymIntExpr, builder: IExprBuilder) -> IDimensionExpr:
    """The expression as an IDimensionExpr of `builder`."""
    return expr._in(builder)


def argument(expr: SymIntExpr) -> ISymExpr:
    """The expression as an argument of a launch."""
    sym = ISymExpr()
    sym.type, sym.dtype = PluginArgType.INT, expr.dtype or PluginArgDataType.INT32
    sym.expr = expr._in(IExprBuilder())
    return sym


def text(x: object) -> str:
    if not isinstance(x, SymIntExpr):
        return "unset"
    return "fake" if x._dim is None else "size tensor" if x._is_size else print_dim(x._dim)


def _error(got: str, wanted: str, do: str) -> ArgumentError:
    return ArgumentError("AR304", "a dimension of a plug-in", got, wanted, do)


def bad(got: str, wanted: str, do: str) -> WrongValue:
    return WrongValue(_error(got, wanted, do))


def _of_two(op: DimensionOperation, first: int | SymIntExpr, second: int | SymIntExpr) -> SymIntExpr:
    if not isinstance(first, SymIntExpr) and not isinstance(second, SymIntExpr):
        raise bad("two ints", "at least one expression", "use Python's own function for numbers")
    a = first if isinstance(first, SymIntExpr) else ShapeExpr(first)
    return a._op(op, second)


def cdiv(first: int | SymIntExpr, second: int | SymIntExpr) -> SymIntExpr:
    """`first` divided by `second`, rounded up; ValueError for two ints, or a divisor of 0."""
    return _of_two(DimensionOperation.CEIL_DIV, first, second)


def max(first: int | SymIntExpr, second: int | SymIntExpr) -> SymIntExpr:
    """The larger of both; ValueError for two ints."""
    return _of_two(DimensionOperation.MAX, first, second)


def min(first: int | SymIntExpr, second: int | SymIntExpr) -> SymIntExpr:
    """The smaller of both; ValueError for two ints."""
    return _of_two(DimensionOperation.MIN, first, second)
