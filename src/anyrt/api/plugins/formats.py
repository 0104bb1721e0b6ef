"""The selection of types and formats for a plug-in's tensors: row-major and unconverted, if it supports that.

Otherwise other formats are tried, and in weakly typed networks other floating-point types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from anyrt.api.model.dims import Dims
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.kinds import Kind
from anyrt.core.dims import Dim
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import is_float, short_name
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import PluginError
from anyrt.core.formats import misfit
from anyrt.prims.plugin import Tensor

Corner = Mapping[str, int]
OTHERS: Final = (DataType.FLOAT, DataType.HALF, DataType.BF16)
# Row-major first, then channels innermost, then vectors of channels.
ORDER: Final = (
    TensorFormat.LINEAR,
    TensorFormat.HWC,
    TensorFormat.DHWC,
    TensorFormat.HWC8,
    TensorFormat.HWC16,
    TensorFormat.DHWC8,
    TensorFormat.CHW2,
    TensorFormat.CHW4,
    TensorFormat.CHW16,
    TensorFormat.CHW32,
    TensorFormat.CDHW32,
)


def describe_dynamic(t: Tensor, least: Corner, best: Corner, most: Corner) -> DynamicPluginTensorDesc:
    """The description of a tensor for a plug-in during the build; −1 for dynamic dimensions."""
    desc, shape = DynamicPluginTensorDesc(), t.type.shape
    desc.desc = describe(t, [d if isinstance(d, int) else -1 for d in shape])
    desc.min, desc.opt, desc.max = (Dims([at(d, corner) for d in shape]) for corner in (least, best, most))
    return desc


def describe(t: Tensor, sizes: Sequence[int]) -> PluginTensorDesc:
    """The description of a tensor of this shape for a plug-in."""
    desc = PluginTensorDesc()
    desc.dims, desc.type, desc.format = Dims(sizes), t.type.dtype, t.format
    desc.scale = t.scale if t.type.dtype is DataType.INT8 else 0.0
    return desc


def at(size: Dim, corner: Corner) -> int:
    """The value of a dimension at `corner`."""
    return size if isinstance(size, int) else max(0, min(evaluate(size, corner), 2**31 - 1))


def select_formats(
    kind: Kind,
    tensors: Sequence[Tensor],
    inputs: int,
    free: Sequence[bool],
    corner: tuple[Corner, Corner, Corner],
    *,
    weak: bool,
) -> list[Tensor]:
    """Inputs, then outputs, in formats that the plug-in supports, and with other types if these may be
    converted (`weak`). `free`: whether an output may have other formats than row-major."""
    queries = 0
    for types in _types(kind, tensors, inputs, weak=weak):
        search = _Search(kind, types, inputs, free, corner, kind.limit - queries)
        combination = search.from_(0, [])
        if combination is not None:
            return combination
        queries += search.queries
        if queries >= kind.limit:
            break
    got = ", ".join(short_name(t.type.dtype) for t in tensors)
    do = "cast the inputs with add_cast, or return True for them from supports_format_combination"
    text = f"no support for inputs and outputs of {got}, in {queries} combinations"
    raise PluginError("AR822", kind.where, text, "a supported combination", do)


def _types(kind: Kind, tensors: Sequence[Tensor], inputs: int, *, weak: bool) -> Iterator[list[Tensor]]:
    """The tensors with their own types, then with other floating-point types."""
    yield list(tensors)
    if not weak:
        return
    for dtype in OTHERS:
        converted = [_as(t, dtype) if is_float(t.type.dtype) else t for t in tensors[:inputs]]
        if converted == list(tensors[:inputs]):
            continue
        outputs = kind.types([t.type.dtype for t in converted])
        yield [*converted, *(_as(t, d) for t, d in zip(tensors[inputs:], outputs, strict=True))]


def _as(t: Tensor, dtype: DataType) -> Tensor:
    return replace(t, type=replace(t.type, dtype=dtype))


class _Search:
    """The search for a combination, tensor by tensor: a tensor is queried if those before it are
    supported."""

    def __init__(
        self,
        kind: Kind,
        tensors: Sequence[Tensor],
        inputs: int,
        free: Sequence[bool],
        corner: tuple[Corner, Corner, Corner],
        limit: int,
    ) -> None:
        self.kind, self.tensors, self.inputs, self.free = kind, tensors, inputs, free
        self.corner, self.limit, self.queries = corner, limit, 0

    def from_(self, pos: int, before: list[Tensor]) -> list[Tensor] | None:
        """The tensors with formats, given the formats of the tensors before number `pos`; None if there are
        none."""
        if pos == len(self.tensors):
            return before
        for format in self._formats(pos):
            here = [*before, replace(self.tensors[pos], format=format)]
            whole = [*here, *self.tensors[pos + 1 :]]
            if self.queries >= self.limit * len(self.tensors):
                return None
            self.queries += 1
            if self.kind.supports(pos, [describe_dynamic(t, *self.corner) for t in whole], self.inputs):
                combination = self.from_(pos + 1, here)
                if combination is not None:
                    return combination
        return None

    def _formats(self, pos: int) -> Iterator[TensorFormat]:
        t = self.tensors[pos]
        free = pos < self.inputs or self.free[pos - self.inputs]
        return (
            f
            for f in ORDER
            if f is TensorFormat.LINEAR or (free and not misfit(f, t.type.dtype, t.type.shape))
        )
