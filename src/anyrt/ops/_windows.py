"""Windows that slide along axes: padding modes, output sizes, and the view of all windows.

Convolution, deconvolution and pooling share this. All sizes may be dynamic.

>>> slide(PaddingMode.SAME_UPPER, 7, Slide(3, stride=2), 0, 0)
Span(before=1, after=1, overhang=0, count=4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyrt.core.dims import Dim, add, bounds, floordiv, maximum, mod, mul, product, total
from anyrt.core.enums import PaddingMode
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Shape, Value
from anyrt.ops._check import Requirements, checked, need, show
from anyrt.ops._record import VOLUME_LIMIT
from anyrt.prims.build import pad
from anyrt.prims.build import windows as view
from anyrt.prims.view import Axis

SAME = (PaddingMode.SAME_UPPER, PaddingMode.SAME_LOWER)
MODES = (PaddingMode.EXPLICIT_ROUND_DOWN, PaddingMode.EXPLICIT_ROUND_UP, *SAME)
FARTHEST = 2**31 - 1  # the largest size, stride, dilation or padding


@dataclass(frozen=True, slots=True)
class Slide:
    """Windows along one axis: `size` elements that are `dilation` apart; the windows are `stride` apart."""

    size: int
    stride: int = 1
    dilation: int = 1

    @property
    def reach(self) -> int:
        """Positions from the first element of a window to its last one."""
        return 1 + self.dilation * (self.size - 1)


@dataclass(frozen=True, slots=True)
class Span:
    """The windows of one axis: the padding before and after the input, what the last window needs beyond
    that (`overhang`, of EXPLICIT_ROUND_UP only), and the number of windows."""

    before: Dim
    after: Dim
    overhang: Dim
    count: Dim


def slide(mode: PaddingMode, size: Dim, by: Slide, before: int, after: int) -> Span:
    """The windows over an axis of `size` elements; `before` and `after` apply to the explicit modes only."""
    if mode in SAME:
        # The windows need (count - 1) * stride + reach - size elements of padding, written as a remainder,
        # so that the range is known for dynamic sizes.
        most = maximum(0, add(by.reach - 1, mul(mod(add(size, -1), by.stride), -1)))
        return Span(*_shared(mode, most), 0, add(floordiv(add(size, -1), by.stride), 1))
    left = total((size, before + after - by.reach))
    if mode is PaddingMode.EXPLICIT_ROUND_DOWN:
        return Span(before, after, 0, add(floordiv(left, by.stride), 1))
    up = add(left, by.stride - 1)
    overhang = add(by.stride - 1, mul(mod(up, by.stride), -1))
    return Span(before, after, overhang, add(floordiv(up, by.stride), 1))


def spread(mode: PaddingMode, size: Dim, by: Slide, before: int, after: int) -> Span:
    """The output axis of a deconvolution whose input has `size` elements: the numbers of elements that are
    cut off before and after, and that remain."""
    start: Dim = before
    end: Dim = after
    if mode in SAME:
        start, end = _shared(mode, max(by.reach - by.stride, 0))
    whole = add(mul(add(size, -1), by.stride), by.reach)
    return Span(start, end, 0, total((whole, mul(start, -1), mul(end, -1))))


def _shared(mode: PaddingMode, border: Dim) -> tuple[Dim, Dim]:
    """The padding before and after; SAME_UPPER puts the odd element after, SAME_LOWER before."""
    less, more = floordiv(border, 2), floordiv(add(border, 1), 2)
    return (less, more) if mode is PaddingMode.SAME_UPPER else (more, less)


def slides(
    where: str,
    size: tuple[int, ...],
    stride: tuple[int, ...] | None,
    dilation: tuple[int, ...] | None = None,
    name: str = "kernel_size_nd",
) -> tuple[Slide, ...]:
    """The windows along each axis, from attributes; `None` means 1 for each."""
    sizes = per_axis(where, name, size, len(size), 1)
    steps = per_axis(where, "stride_nd", stride, len(size), 1)
    gaps = per_axis(where, "dilation_nd", dilation, len(size), 1)
    return tuple(Slide(*each) for each in zip(sizes, steps, gaps, strict=True))


def per_axis(
    where: str, name: str, values: tuple[int, ...] | None, count: int, least: int
) -> tuple[int, ...]:
    """An attribute with one number of at least `least` for each of `count` axes; `None` means `least`
    for each."""
    if values is None:
        return (least,) * count
    if len(values) != count:
        got, wanted = f"{name} {show(values)}", f"{count} values"
        raise ShapeError("AR108", where, got, wanted, "pass one for each axis that windows slide along")
    if any(not least <= n <= FARTHEST for n in values):
        got, wanted = f"{name} {show(values)}", f"values from {least} to {FARTHEST}"
        raise ArgumentError("AR304", where, got, wanted, f"pass {least} or more for each axis")
    return values


def check_mode(where: str, mode: PaddingMode) -> None:
    """Raises AR304 for the modes of Caffe, which exist in `anyrt.compat` by name only."""
    if mode not in MODES:
        got, wanted = f"padding_mode {mode.name}", f"one of {', '.join(m.name for m in MODES)}"
        do = "use EXPLICIT_ROUND_DOWN or EXPLICIT_ROUND_UP, with the same padding on both sides"
        raise ArgumentError("AR304", where, got, wanted, do)


def spans(
    where: str,
    mode: PaddingMode,
    sizes: Shape,
    by: Sequence[Slide],
    before: Sequence[int],
    after: Sequence[int],
) -> tuple[tuple[Span, ...], Requirements]:
    """`slide` for each axis, and requirements for dynamic sizes: no window is larger than its padded input.
    Attach them to the input (`checked`), so that they are reported before their consequences.
    """
    check_mode(where, mode)
    rules: Requirements = ()
    for k, (size, each) in enumerate(zip(sizes, by, strict=True)):
        if mode not in SAME:
            there = add(size, before[k] + after[k])
            most = bounds(there)[1]  # reported only if no size is enough
            got = f"a window of {each.reach} over {most} padded elements, spatial axis {k}"
            do = "add padding, or use a smaller window or dilation"
            rules += need(where, each.reach, Relation.LE, there, "AR126", got, f"at most {most}", do)
    results = (slide(mode, *each) for each in zip(sizes, by, before, after, strict=True))
    return tuple(results), rules


def padded(where: str, x: Value, at: Sequence[Span], border: float) -> Value:
    """`x`, its last axes padded with `border` as far as windows reach beyond it."""
    lead = x.type.rank - len(at)
    after = [add(s.after, s.overhang) for s in at]
    framed = pad(x, [0] * lead + [s.before for s in at], [0] * lead + after, border)
    got = f"{product(framed.shape)} elements after padding"
    do = "use less padding, or split the tensor"
    if framed is x:
        return x
    rules = need(where, product(framed.shape), Relation.LE, VOLUME_LIMIT, "AR111", got, f"{VOLUME_LIMIT}", do)
    return checked(framed, rules)


def windows(
    where: str, x: Value, by: Sequence[Slide], at: Sequence[Span], border: float = 0.0, groups: int = 1
) -> Value:
    """Windows over the last axes of `x`: (leading axes…, windows of each axis…, elements of each axis…).

    The last leading axis is split into `groups`, if there are several: (N, groups, C / groups, …). `x` is
    padded with `border`. Nothing is copied: the result is a view of the padded operand.
    """
    framed = padded(where, x, at, border)
    return lay(framed, by, [s.count for s in at], [0] * len(by), groups)


def lay(
    x: Value,
    by: Sequence[Slide],
    counts: Sequence[Dim],
    starts: Sequence[Dim],
    groups: int = 1,
    columns: Sequence[tuple[int, int]] = (),
) -> Value:
    """A view of `counts` windows along the last axes of `x`; the first window of an axis begins at its start.
    `columns`: for each axis the number of kinds of windows, and the distance of their starts. If that is not
    0, the kinds are a last axis of their own."""
    lead, count = x.type.rank - len(by), len(by)
    outer, axes = _leading(x.shape[:lead], groups)
    shape = [*outer, *counts, *(each.size for each in by)]
    for k, each in enumerate(by):
        more = [(len(outer) + count + k, each.dilation)]
        kinds, apart = columns[k] if columns else (0, 0)
        if apart:
            more.append((len(shape), apart))
            shape.append(kinds)
        axes.append(Axis(starts[k], len(outer) + k, each.stride, tuple(more)))
    return view(x, axes, tuple(shape))


def _leading(shape: Shape, groups: int) -> tuple[Shape, list[Axis]]:
    axes = [Axis(0, k) for k in range(len(shape))]
    if groups == 1:
        return shape, axes
    last, each = len(shape) - 1, floordiv(shape[-1], groups)
    return (*shape[:-1], groups, each), [*axes[:-1], Axis(0, last, each, ((last + 1, 1),))]
