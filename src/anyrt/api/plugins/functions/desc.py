"""Descriptions of tensors without data: arguments of a plug-in's functions, and their results for outputs.

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
    """Sizes as expressions, and the element type; in `autotune` and `aot_impl`, also `shape`, `format` and
    `scale`. Arguments of a function cannot be changed: `like()` returns one that can.

    `shape_expr`: ShapeExprs, or a tuple of sizes and ints."""

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
        """The sizes, as expressions."""
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
        """The sizes as numbers; ValueError unless `has_shape`."""
        return self._known()

    @shape.setter
    def shape(self, value: Shape) -> None:
        self._change("shape")
        self._shape = value

    @property
    def format(self) -> TensorFormat:
        """How its memory lies; ValueError unless `has_shape`."""
        self._known()
        return self._format  # type: ignore[return-value]  # None until it was set, as in TensorRT

    @format.setter
    def format(self, value: TensorFormat) -> None:
        self._change("format")
        self._format = value

    @property
    def scale(self) -> float:
        """What a step of an INT8 tensor is worth; ValueError unless `has_shape`."""
        self._known()
        return self._scale  # type: ignore[return-value]  # None until it was set, as in TensorRT

    @scale.setter
    def scale(self, value: float) -> None:
        self._change("scale")
        self._scale = value

    @property
    def ndim(self) -> int:
        """How many sizes there are."""
        return len(self.shape_expr)

    @property
    def has_shape(self) -> bool:
        """Whether its sizes, format and scale are known, as in `autotune`."""
        return self._shape is not None

    @property
    def has_shape_expr(self) -> bool:
        """Whether it has sizes as expressions."""
        return self._sizes is not None

    @property
    def is_dynamic(self) -> bool:
        """Whether a run decides a size; ValueError unless `has_shape`."""
        return self._known().is_dynamic

    @property
    def is_size_tensor(self) -> bool:
        """Whether it is the size of another output."""
        return False

    @property
    def is_aliased(self) -> bool:
        """Whether it lies in the memory of an input."""
        return self._aliased_to is not None

    def get_aliased(self) -> TensorDesc | None:
        """The input in whose memory it lies; None for memory of its own."""
        return self._aliased_to

    def numel(self) -> int:
        """How many elements there are; ValueError unless `has_shape`; `shape_expr.numel()` is one always."""
        return self._known().numel()

    def like(self) -> TensorDesc:
        """One with the same sizes and type, which can be changed."""
        made = TensorDesc()
        made._dtype, made._format, made._scale, made._shape = (
            self._dtype,
            self._format,
            self._scale,
            self._shape,
        )
        made._sizes = None if self._sizes is None else self._sizes.copy()
        return made

    def aliased(self) -> TensorDesc:
        """One with the same sizes and type, for an output that shares the memory of this input: later readers
        of the input see what the plug-in writes to it."""
        made = self.like()
        made._aliased_to = self
        made._frozen = True
        return made

    def _known(self) -> Shape:
        if self._shape is None:
            do = "read shape_expr, or check has_shape first"
            raise WrongValue(
                ArgumentError(
                    "AR310", "TensorDesc", "no sizes", "the descriptions that autotune receives", do
                )
            )
        return self._shape

    def _change(self, what: str) -> None:
        if self._frozen:
            got, wanted = f"a new {what}", "the description of an output"
            raise WrongValue(ArgumentError("AR310", "TensorDesc", got, wanted, "change the result of like()"))

    @one_line
    def __repr__(self) -> str:
        kind = "no type" if self._dtype is None else short_name(self._dtype)
        return f": {kind} {'no sizes' if self._sizes is None else repr(self._sizes).split(' ', 1)[1][:-1]}"


class SizeTensorDesc(TensorDesc):
    """An output of one int32, which is the size of an axis of another output."""

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
        """The size that the engine is to be best at."""
        return self._opt

    @property
    def upper_bound(self) -> SymIntExpr:
        """The greatest size that there may be."""
        return self._upper_bound

    @property
    def index(self) -> int | None:
        """Which output it is; None until the function has returned it."""
        return self._index

    def expr(self) -> SizeTensorShapeExpr:
        """Its value, as a size of other outputs."""
        return self._expr


def size_tensor(opt: ShapeExpr, upper_bound: ShapeExpr) -> SizeTensorDesc:
    """An output that is a size: usually `opt`, never more than `upper_bound`.

    n = x.shape_expr.numel()
    count = size_tensor(n // 2, n)
    return from_shape_expr((count.expr(), 2), dtype=trt.int32), count
    """
    return SizeTensorDesc(opt, upper_bound)


def from_shape_expr(shape_expr: ShapeExprs | Iterable[ShapeExpr | int], dtype: DataType) -> TensorDesc:
    """A tensor of these sizes, expressions or ints, and this type."""
    return TensorDesc(shape_expr, dtype)


def frozen(desc: TensorDesc) -> TensorDesc:
    """`desc`, which cannot be changed any more."""
    desc._frozen = True
    return desc


def told(desc: TensorDesc, known: DynamicPluginTensorDesc) -> None:
    """Set the known properties of the tensor in `desc`."""
    desc._shape, desc._dtype = Shape(known), known.desc.type
    desc._format, desc._scale = known.desc.format, known.desc.scale


def numbered(desc: SizeTensorDesc, index: int) -> None:
    """Say which output it is."""
    desc._index = index


def _sizes(given: object) -> ShapeExprs:
    if isinstance(given, ShapeExprs):
        return given
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise wrong_type("shape_expr", given, "ShapeExprs or a tuple of sizes")
    return ShapeExprs.from_tuple(given)


def _dtype(given: object) -> DataType:
    if not isinstance(given, DataType):
        raise wrong_type("dtype", given, DataType)
    return given


def _size(given: object, what: str) -> SymIntExpr:
    if isinstance(given, SymIntExpr):
        return given
    if isinstance(given, int):
        return ShapeExpr(given)
    raise wrong_type(f"size_tensor: {what}", given, "a ShapeExpr", "write x.shape_expr[0], or an int")
