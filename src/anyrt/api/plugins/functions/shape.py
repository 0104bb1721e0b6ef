"""The shape of a tensor as numbers; −1 for a dynamic or data-dependent dimension.

>>> shape = Shape((2, 3, 4))
>>> shape[1], tuple(shape), shape.numel(), shape.is_dynamic
(3, (2, 3, 4), 24, False)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import overload

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import WrongValue, wrong_type
from anyrt.api.model.dims import Dims
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.core.errors import ShapeError

ShapeSource = tuple[int, ...] | DynamicPluginTensorDesc | PluginTensorDesc


class Shape(Fixed):
    """A shape, from a tuple or from TensorRT's description of a tensor; reads and compares like a tuple."""

    __slots__ = ("__weakref__", "_desc", "_dims")

    def __init__(self, tensor_desc: ShapeSource | None = None) -> None:
        self._desc = tensor_desc if isinstance(tensor_desc, DynamicPluginTensorDesc) else None
        self._dims = Dims(_sizes(tensor_desc))

    def numel(self) -> int:
        """The number of elements; ValueError if `is_dynamic`."""
        if self.is_dynamic:
            do = "read opt or max, or read it in impl"
            raise WrongValue(ShapeError("AR123", str(self), "a dynamic dimension", "static dimensions", do))
        return math.prod(self._dims)

    @property
    def is_dynamic(self) -> bool:
        """Whether a dimension is dynamic."""
        return -1 in self._dims

    @property
    def min(self) -> tuple[int, ...]:
        """The minimum shape; ValueError unless `is_dynamic`."""
        return tuple(self._range("min").min)

    @property
    def opt(self) -> tuple[int, ...]:
        """The shape for which the engine is optimized; ValueError unless `is_dynamic`."""
        return tuple(self._range("opt").opt)

    @property
    def max(self) -> tuple[int, ...]:
        """The maximum shape; ValueError unless `is_dynamic`."""
        return tuple(self._range("max").max)

    def _range(self, bound: str) -> DynamicPluginTensorDesc:
        if not self.is_dynamic:
            got, wanted = "static dimensions", "a dynamic dimension"
            raise WrongValue(ShapeError("AR123", f"{self}.{bound}", got, wanted, "read the dimensions"))
        if self._desc is None:
            raise AttributeError(
                ShapeError(
                    "AR123", f"{self}.{bound}", "no range", "the range of an input", "read it in autotune"
                )
            )
        return self._desc

    def __iter__(self) -> Iterator[int]:
        return iter(self._dims)

    def __len__(self) -> int:
        return len(self._dims)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        dims = self._dims[index]
        return dims if isinstance(dims, int) else tuple(dims)

    def __setitem__(self, index: int, val: int) -> None:
        self._dims[index] = val

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape | Dims | tuple | list):
            return NotImplemented
        return tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # its dimensions change

    def __str__(self) -> str:
        return f"Shape{tuple(self)}"

    @one_line
    def __repr__(self) -> str:
        return f" {tuple(self)}"


def _sizes(source: object) -> tuple[int, ...]:
    if source is None:
        return ()
    if isinstance(source, DynamicPluginTensorDesc):
        return tuple(source.desc.dims)
    if isinstance(source, PluginTensorDesc):
        return tuple(source.dims)
    if isinstance(source, tuple):
        return source
    raise WrongValue(wrong_type("Shape", source, "a tuple of ints or a description of a tensor"))
