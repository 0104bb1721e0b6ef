"""Dimensions as expressions, from which plug-ins compute the shapes of their outputs.

>>> build = IExprBuilder()
>>> n, m = IDimensionExpr(Sym("n", 1, 8).dim), build.constant(2)
>>> build.operation(DimensionOperation.SUM, build.operation(DimensionOperation.PROD, n, m), m)
<IDimensionExpr: 2 + 2*n>
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from anyrt.api.edge.attribute import Attribute
from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import WrongValue, integer, nothing, wrong_type
from anyrt.api.model.dims import MAX_DIMS
from anyrt.core.counts import count
from anyrt.core.dims import Dim, Sym, add, ceildiv, equal, floordiv, maximum, minimum, mul
from anyrt.core.dimtext import print_dim
from anyrt.core.enums import DimensionOperation, PluginArgDataType, PluginArgType
from anyrt.core.errors import ArgumentError, ShapeError


@fold
class IDimensionExpr(Fixed):
    """A dimension: a number, or an expression of dynamic dimensions. An `IExprBuilder` makes it."""

    __slots__ = ("__weakref__", "_dim", "_output")

    def __init__(self, dim: Dim, output: int = -1) -> None:
        self._dim = dim
        self._output = output

    def is_constant(self) -> bool:
        """Whether it is a number."""
        return isinstance(self._dim, int)

    def get_constant_value(self) -> int:
        """The number; −2³¹ if it is not constant."""
        return self._dim if isinstance(self._dim, int) else -(2**31)

    def is_size_tensor(self) -> bool:
        """Whether it is the value of a size tensor, from `declare_size_tensor`."""
        return self._output >= 0

    @one_line
    def __repr__(self) -> str:
        return f": {print_dim(self._dim)}"


@fold
class DimsExprs(Fixed):
    """The dimensions of a tensor as expressions. Constructed from other expressions, or from a rank, to set
    later."""

    __slots__ = ("__weakref__", "_exprs")

    def __init__(self, arg0: DimsExprs | Iterable[IDimensionExpr] | int = ()) -> None:
        sizes = [None] * _rank(arg0) if isinstance(arg0, int) else [_expr(x, "DimsExprs") for x in arg0]
        _rank(len(sizes))
        self._exprs: list[IDimensionExpr | None] = list(sizes)

    def __len__(self) -> int:
        return len(self._exprs)

    def __iter__(self) -> Iterator[IDimensionExpr]:
        return (self[k] for k in range(len(self._exprs)))

    def __getitem__(self, arg0: int) -> IDimensionExpr:
        size = self._exprs[arg0]
        return nothing() if size is None else size  # None: not set

    def __setitem__(self, arg0: int, arg1: IDimensionExpr) -> None:
        self._exprs[arg0] = _expr(arg1, "DimsExprs")

    @one_line
    def __repr__(self) -> str:
        return f" ({', '.join('unset' if x is None else print_dim(x._dim) for x in self._exprs)})"


def _rank(count: int) -> int:
    if not 0 <= count <= MAX_DIMS:
        raise WrongValue(ShapeError("AR115", "DimsExprs", f"{count} dimensions", f"at most {MAX_DIMS}"))
    return count


def _expr(x: object, where: str) -> IDimensionExpr:
    if isinstance(x, IDimensionExpr):
        return x
    if isinstance(x, int):
        return IDimensionExpr(int(x))
    raise wrong_type(where, x, "an IDimensionExpr", "write expr_builder.constant(number)")


def _less(a: Dim, b: Dim) -> Dim:
    """1 if `a` is less than `b`, otherwise 0: exactly then max(a + 1, b) is b."""
    return equal(maximum(add(a, 1), b), b)


OPERATIONS: Final[dict[DimensionOperation, Callable[[Dim, Dim], Dim]]] = {
    DimensionOperation.SUM: add,
    DimensionOperation.PROD: mul,
    DimensionOperation.MAX: maximum,
    DimensionOperation.MIN: minimum,
    DimensionOperation.SUB: lambda a, b: add(a, mul(-1, b)),
    DimensionOperation.EQUAL: equal,
    DimensionOperation.LESS: _less,
    DimensionOperation.FLOOR_DIV: floordiv,
    DimensionOperation.CEIL_DIV: ceildiv,
}
DIVISIONS: Final = (DimensionOperation.FLOOR_DIV, DimensionOperation.CEIL_DIV)


@fold
class IExprBuilder(Fixed):
    """Makes expressions from numbers and other expressions."""

    __slots__ = ("__weakref__", "_declared", "_name")

    def __init__(self) -> None:
        self._name = "size"
        self._declared: dict[int, Sym] = {}

    def constant(self, arg0: int) -> IDimensionExpr:
        """A constant expression."""
        return IDimensionExpr(integer(arg0, "IExprBuilder.constant"))

    def operation(
        self, arg0: DimensionOperation, arg1: IDimensionExpr, arg2: IDimensionExpr
    ) -> IDimensionExpr:
        """The result of operation `arg0` on two expressions."""
        if not isinstance(arg0, DimensionOperation):
            raise wrong_type("IExprBuilder.operation", arg0, DimensionOperation)
        a, b = (_expr(x, "IExprBuilder.operation")._dim for x in (arg1, arg2))
        if arg0 in DIVISIONS and b == 0:
            got, do = f"{arg0.name} by 0", "divide by a dimension of at least 1"
            raise WrongValue(
                ArgumentError("AR304", "IExprBuilder.operation", got, "a divisor other than 0", do)
            )
        return IDimensionExpr(OPERATIONS[arg0](a, b))

    def declare_size_tensor(self, arg0: int, arg1: IDimensionExpr, arg2: IDimensionExpr) -> IDimensionExpr:
        """A dimension that is the value of output `arg0`, an integer of rank 0: usually `arg1`, at most
        `arg2`."""
        output = integer(arg0, "IExprBuilder.declare_size_tensor")
        _expr(arg1, "IExprBuilder.declare_size_tensor")
        most = _expr(arg2, "IExprBuilder.declare_size_tensor")._dim
        if output not in self._declared:
            self._declared[output] = count(f"{self._name}#{output}", most)
        return IDimensionExpr(self._declared[output].dim, output)

    @one_line
    def __repr__(self) -> str:
        return f": {len(self._declared)} size tensors declared"


@fold
class ISymExpr(Fixed):
    """An argument of a kernel that is compiled ahead of time: an expression or a number."""

    __slots__ = ("__weakref__", "_dtype", "_expr", "_type")

    def __init__(self) -> None:
        self._type = PluginArgType.INT
        self._dtype = PluginArgDataType.INT32
        self._expr: IDimensionExpr | None = None

    def _set_type(self, kind: PluginArgType) -> None:
        if not isinstance(kind, PluginArgType):
            raise wrong_type("ISymExpr.type", kind, PluginArgType)
        self._type = kind

    def _set_dtype(self, dtype: PluginArgDataType) -> None:
        if not isinstance(dtype, PluginArgDataType):
            raise wrong_type("ISymExpr.dtype", dtype, PluginArgDataType)
        self._dtype = dtype

    def _set_expr(self, expr: IDimensionExpr | int) -> None:
        self._expr = _expr(expr, "ISymExpr.expr")

    type = property(None, _set_type, doc="The kind of the argument.")
    dtype = property(None, _set_dtype, doc="The type of the argument.")
    expr = property(None, _set_expr, doc="The value of the argument.")

    @one_line
    def __repr__(self) -> str:
        return f": {self._dtype.name}, {self._expr}"


@fold
class ISymExprs(Fixed):
    """The extra arguments of a kernel that is compiled ahead of time."""

    __slots__ = ("__weakref__", "_exprs")

    def __init__(self) -> None:
        self._exprs: list[ISymExpr | None] = []

    @property
    def nbSymExprs(self) -> int:
        """The number of arguments."""
        return len(self._exprs)

    @nbSymExprs.setter
    def nbSymExprs(self, count: int) -> None:
        length = integer(count, "ISymExprs.nbSymExprs")
        if length < 0:
            raise WrongValue(ArgumentError("AR304", "ISymExprs.nbSymExprs", f"{length}", "0 or more"))
        self._exprs = [*self._exprs, *[None] * length][:length]

    def __len__(self) -> int:
        return len(self._exprs)

    def __getitem__(self, arg0: int) -> ISymExpr | None:
        return self._exprs[arg0]

    def __setitem__(self, arg0: int, arg1: ISymExpr) -> None:
        if not isinstance(arg1, ISymExpr):
            raise wrong_type("ISymExprs", arg1, "an ISymExpr")
        self._exprs[arg0] = arg1

    @one_line
    def __repr__(self) -> str:
        return f" of {len(self._exprs)}"


LAUNCH: Final[Sequence[str]] = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_mem")


def dim_of(size: IDimensionExpr) -> Dim:
    """The dimension of an expression, for the graph."""
    return size._dim


def sizes_of(dims: DimsExprs) -> list[IDimensionExpr | None]:
    """The dimensions; None for one that is not set."""
    return dims._exprs


def builder_of(name: str) -> IExprBuilder:
    """An expression builder for the layer `name`."""
    builder = IExprBuilder()
    builder._name = name
    return builder


def declared(builder: IExprBuilder) -> dict[int, Sym]:
    """The symbols of the size tensors that a plug-in has declared, by output."""
    return builder._declared


class _LaunchParameter(Attribute["LaunchParameters", object]):
    """A launch parameter, as the class of its object stores it."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def _value(self, owner: LaunchParameters) -> object:
        return owner._values.get(self.name)

    def __set__(self, owner: LaunchParameters, value: object) -> None:
        owner._values[self.name] = owner._stored(self.name, value)


class LaunchParameters(Fixed):
    """Launch parameters of a kernel: blocks, threads per block, and bytes of shared memory."""

    __slots__ = ("_values",)
    _values: dict[str, Any]  # Any: each subclass stores one type

    grid_x = _LaunchParameter("Blocks along the first axis.")
    grid_y = _LaunchParameter("Blocks along the second axis.")
    grid_z = _LaunchParameter("Blocks along the third axis.")
    block_x = _LaunchParameter("Threads of a block along the first axis.")
    block_y = _LaunchParameter("Threads of a block along the second axis.")
    block_z = _LaunchParameter("Threads of a block along the third axis.")
    shared_mem = _LaunchParameter("Bytes of shared memory of a block.")

    def _stored(self, name: str, value: Any) -> object:  # Any: each subclass accepts types of its own
        """The value to store for one that a program sets."""
        raise NotImplementedError


@fold
class KernelLaunchParams(LaunchParameters):
    """Launch parameters of a kernel that is compiled ahead of time: blocks, threads, and shared memory."""

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        self._values = {}

    def _stored(self, name: str, value: object) -> object:
        if not isinstance(value, ISymExpr | IDimensionExpr | int):
            raise wrong_type(f"KernelLaunchParams.{name}", value, "an ISymExpr, an IDimensionExpr or an int")
        return value

    @one_line
    def __repr__(self) -> str:
        return f": {', '.join(name for name in LAUNCH if name in self._values) or 'nothing set'}"
