"""Lists of fixed length: the dimensions of a tensor, and the extra arguments of a kernel.

>>> shape = ShapeExprs.from_tuple((ShapeExpr(5), 2, 3))
>>> shape[0] += 1
>>> shape, shape.numel().constant_value()
(<ShapeExprs (6, 2, 3)>, 36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import WrongValue, integer, wrong_type
from anyrt.api.model.dims import MAX_DIMS
from anyrt.api.plugins.functions.sizes import ShapeExpr, SymInt32, SymIntExpr, bad, text
from anyrt.core.errors import ShapeError


class SymExprs(Fixed):
    """A list of expressions, of fixed length."""

    __slots__ = ("__weakref__", "_items")

    takes: ClassVar[type[SymIntExpr]] = SymInt32  # the class that an int is converted to
    wants: ClassVar[type[SymIntExpr]] = SymIntExpr

    def __init__(self, length: int) -> None:
        count = integer(length, type(self).__name__)
        if count < 0:
            raise bad(f"{count} expressions", "0 or more", "")
        self._items: list[SymIntExpr | None] = [None] * count

    @classmethod
    def from_tuple(cls, shape_exprs: Iterable[SymIntExpr | int]) -> Self:
        """The expressions of a tuple; ints become constants."""
        items = [cls._expr(x) for x in shape_exprs]
        exprs = cls(len(items))
        exprs._items[:] = items
        return exprs

    @classmethod
    def _expr(cls, x: object) -> SymIntExpr:
        if isinstance(x, cls.wants):
            return x
        if isinstance(x, float):
            raise WrongValue(wrong_type(cls.__name__, x, f"an int or {cls.wants.__name__}"))
        return cls.takes(integer(x, cls.__name__))

    def __iter__(self) -> Iterator[SymIntExpr]:
        return iter(self._items)  # type: ignore[arg-type]  # None until it was set, as in TensorRT

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> SymIntExpr:
        return self._items[index]  # type: ignore[return-value]  # as above

    def __setitem__(self, index: int, expr: SymIntExpr | int) -> None:
        self._items[index] = self._expr(expr)

    @one_line
    def __repr__(self) -> str:
        return f" ({', '.join(map(text, self._items))})"


class SymIntExprs(SymExprs):
    """The extra arguments of a kernel: integers, between the addresses of inputs and of outputs."""

    __slots__ = ()

    takes = SymInt32
    wants = SymIntExpr


class ShapeExprs(SymExprs):
    """The dimensions of a tensor, at most 8."""

    __slots__ = ()

    takes = ShapeExpr
    wants = ShapeExpr

    def __init__(self, length: int, _is_dummy: bool = False) -> None:
        SymExprs.__init__(self, length)
        if length > MAX_DIMS:
            raise WrongValue(ShapeError("AR115", "ShapeExprs", f"{length} dimensions", f"at most {MAX_DIMS}"))
        if _is_dummy:
            self._items[:] = [ShapeExpr() for _ in range(length)]

    @classmethod
    def _expr(cls, x: object) -> SymIntExpr:
        if isinstance(x, ShapeExpr):
            return x
        # The sum with a SymInt32 is a dimension, too.
        return ShapeExpr(x) if isinstance(x, SymIntExpr) else ShapeExpr(integer(x, "ShapeExprs"))

    def numel(self) -> SymIntExpr:
        """The number of elements."""
        count: SymIntExpr = ShapeExpr(1)
        for size in self.sizes():
            count = count * size
        return count

    def sizes(self) -> list[ShapeExpr]:
        """The dimensions; ValueError if one is not set."""
        for k, x in enumerate(self._items):
            if x is None:
                do = f"set the dimension: shape_expr[{k}] = 1"
                raise WrongValue(
                    ShapeError("AR123", "ShapeExprs", f"no dimension {k}", "every dimension", do)
                )
        return [x for x in self._items if isinstance(x, ShapeExpr)]

    def copy(self) -> ShapeExprs:
        """A copy that can be changed."""
        exprs = ShapeExprs(len(self._items))
        exprs._items[:] = self._items
        return exprs
