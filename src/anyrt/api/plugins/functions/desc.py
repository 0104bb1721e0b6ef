"""Descriptions of tensors without data: arguments and return values of a plug-in's functions.

>>> from anyrt.core.enums import DataType
>>> x = from_shape_expr((ShapeExpr(2), 8), DataType.FLOAT)
>>> wider = x.like()
>>> wider.shape_expr[1] += 2
>>> x, wider
(<TensorDesc: float32 (2, 8)>, <TensorDesc: float32 (2, 10)>)
"""

from __future__ import annotations

from collections.abc import Iterable

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import WrongValue, wrong_type
from anyrt.api.plugins.desc import DynamicPluginTensorDesc
from anyrt.api.plugins.functions.lists import ShapeExprs
from anyrt.api.plugins.functions.shape import Shape
from anyrt.api.plugins.functions.sizes import ShapeExpr, SizeTensorShapeExpr, SymIntExpr
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import ArgumentError


class TensorDesc(Fixed):
    """The dimensions of a tensor as expressions, and its element type; in `autotune` and `aot_impl`, also
    `shape`, `format` and `scale`. Arguments of a function are read-only; `like()` returns a copy to change.

    `shape_expr`: ShapeExprs, or a tuple of expressions and ints."""

    __slots__ = ("__weakref__", "_aliased_to", "_dtype", "_format", "_frozen", "_scale", "_shape", "_sizes")

    def __init__(
        self,
        shape_expr: ShapeExprs | Iterable[ShapeExpr | int] | None = None,
        dtype: DataType | None = None,
        format: TensorFormat | None = None,
        scale: float | None = None,
    ) -> None:
        self._frozen = False
        self._sizes = None if shape_expr is None else _sizes(shape_expr)
        self._dtype = None if dtype is None else _dtype(dtype)
        self._shape: Shape | None = None
        self._format, self._scale = format, scale
        self._aliased_to: TensorDesc | None = None

    @property
    def shape_expr(self) -> ShapeExprs:
        """The dimensions, as expressions."""
        return self._sizes  # type: ignore[return-value]  # None until it was set, as in TensorRT

    @shape_expr.setter
    def shape_expr(self, value: ShapeExprs | Iterable[ShapeExpr | int]) -> None:
        self._change("shape_expr")
        self._sizes = _sizes(value)

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return self._dtype  # type: ignore[return-value]  # None until it was set, as in TensorRT

    @dtype.setter
    def dtype(self, value: DataType) -> None:
        self._change("dtype")
        self._dtype = _dtype(value)

    @property
    def shape(self) -> Shape:
        """The dimensions as numbers; ValueError unless `has_shape`."""
        return self._known()

    @shape.setter
    def shape(self, value: Shape) -> None:
        self._change("shape")
        self._shape = value

    @property
    def format(self) -> TensorFormat:
        """The memory format; ValueError unless `has_shape`."""
        self._known()
        return self._format  # type: ignore[return-value]  # None until it was set, as in TensorRT

    @format.setter
    def format(self, value: TensorFormat) -> None:
        self._change("format")
        self._format = value

    @property
    def scale(self) -> float:
        """The scale of an INT8 tensor; ValueError unless `has_shape`."""
        self._known()
        return self._scale  # type: ignore[return-value]  # None until it was set, as in TensorRT

    @scale.setter
    def scale(self, value: float) -> None:
        self._change("scale")
        self._scale = value

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape_expr)

    @property
    def has_shape(self) -> bool:
        """Whether its shape, format and scale are known, as in `autotune`."""
        return self._shape is not None

    @property
    def has_shape_expr(self) -> bool:
        """Whether its dimensions are set."""
        return self._sizes is not None

    @property
    def is_dynamic(self) -> bool:
        """Whether it has a dynamic dimension; ValueError unless `has_shape`."""
        return self._known().is_dynamic

    @property
    def is_size_tensor(self) -> bool:
        """Whether its value is a dimension of another output."""
        return False

    @property
    def is_aliased(self) -> bool:
        """Whether it shares the memory of an input."""
        return self._aliased_to is not None

    def get_aliased(self) -> TensorDesc | None:
        """The input whose memory it shares; None if it has its own."""
        return self._aliased_to

    def numel(self) -> int:
        """The number of elements; ValueError unless `has_shape`. `shape_expr.numel()` is always available."""
        return self._known().numel()

    def like(self) -> TensorDesc:
        """A copy with the same shape and type that can be changed."""
        desc = TensorDesc()
        desc._dtype, desc._format, desc._scale, desc._shape = (
            self._dtype,
            self._format,
            self._scale,
            self._shape,
        )
        desc._sizes = None if self._sizes is None else self._sizes.copy()
        return desc

    def aliased(self) -> TensorDesc:
        """A copy with the same shape and type, for an output that shares the memory of this input: later
        readers of the input see what the plug-in writes."""
        desc = self.like()
        desc._aliased_to = self
        desc._frozen = True
        return desc

    def _known(self) -> Shape:
        if self._shape is None:
            do = "read shape_expr, or check has_shape first"
            raise WrongValue(
                ArgumentError("AR310", "TensorDesc", "no shape", "a description that autotune receives", do)
            )
        return self._shape

    def _change(self, what: str) -> None:
        if self._frozen:
            got, wanted = f"a new {what}", "the description of an output"
            raise WrongValue(ArgumentError("AR310", "TensorDesc", got, wanted, "change the result of like()"))

    @one_line
    def __repr__(self) -> str:
        kind = "no type" if self._dtype is None else short_name(self._dtype)
        return f": {kind} {'no shape' if self._sizes is None else repr(self._sizes).split(' ', 1)[1][:-1]}"


class SizeTensorDesc(TensorDesc):
    """An output of one int32, which is a dimension of another output."""

    __slots__ = ("_expr", "_index", "_opt", "_upper_bound")

    def __init__(self, opt: ShapeExpr, upper_bound: ShapeExpr) -> None:
        TensorDesc.__init__(self, ShapeExprs(0), DataType.INT32)
        self._opt, self._upper_bound = _size(opt, "opt"), _size(upper_bound, "upper_bound")
        self._index: int | None = None
        self._expr = SizeTensorShapeExpr(self)

    @property
    def is_size_tensor(self) -> bool:
        """True."""
        return True

    @property
    def opt(self) -> SymIntExpr:
        """The value for which the engine is optimized."""
        return self._opt

    @property
    def upper_bound(self) -> SymIntExpr:
        """The upper bound of the value."""
        return self._upper_bound

    @property
    def index(self) -> int | None:
        """The number of the output; None until `register` has returned it."""
        return self._index

    def expr(self) -> SizeTensorShapeExpr:
        """Its value, as a dimension of other outputs."""
        return self._expr


def size_tensor(opt: ShapeExpr, upper_bound: ShapeExpr) -> SizeTensorDesc:
    """An output whose value is a dimension: usually `opt`, never more than `upper_bound`.

    n = x.shape_expr.numel()
    count = size_tensor(n // 2, n)
    return from_shape_expr((count.expr(), 2), dtype=trt.int32), count
    """
    return SizeTensorDesc(opt, upper_bound)


def from_shape_expr(shape_expr: ShapeExprs | Iterable[ShapeExpr | int], dtype: DataType) -> TensorDesc:
    """A description with these dimensions, expressions or ints, and this element type."""
    return TensorDesc(shape_expr, dtype)


def frozen(desc: TensorDesc) -> TensorDesc:
    """`desc`, made read-only."""
    desc._frozen = True
    return desc


def set_properties(desc: TensorDesc, known: DynamicPluginTensorDesc) -> None:
    """Set shape, type, format and scale of `desc` from `known`."""
    desc._shape, desc._dtype = Shape(known), known.desc.type
    desc._format, desc._scale = known.desc.format, known.desc.scale


def numbered(desc: SizeTensorDesc, index: int) -> None:
    """Set the number of the output."""
    desc._index = index


def _sizes(argument: object) -> ShapeExprs:
    if isinstance(argument, ShapeExprs):
        return argument
    if isinstance(argument, str | bytes) or not isinstance(argument, Iterable):
        raise wrong_type("shape_expr", argument, "ShapeExprs or a tuple of dimensions")
    return ShapeExprs.from_tuple(argument)


def _dtype(argument: object) -> DataType:
    if not isinstance(argument, DataType):
        raise wrong_type("dtype", argument, DataType)
    return argument


def _size(argument: object, what: str) -> SymIntExpr:
    if isinstance(argument, SymIntExpr):
        return argument
    if isinstance(argument, int):
        return ShapeExpr(argument)
    raise wrong_type(f"size_tensor: {what}", argument, "a ShapeExpr", "write x.shape_expr[0], or an int")
