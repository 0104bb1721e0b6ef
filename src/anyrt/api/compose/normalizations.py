"""Normalizations by means and variances, as layers.

y = group_normalized(layers, x, scale, shift, 32, Moments(1e-5))
A normalization layer computes them where there is one for the type and ε; else arithmetic on moments does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyrt.api.compose.layers import Layers
from anyrt.api.compose.sizes import lengths
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ReduceOperation, UnaryOperation
from anyrt.ops._types import FLOATS

R, U, D = ReduceOperation, UnaryOperation, DataType


def wide(x: Tensor) -> Tensor:
    """float64 as it is, else float32."""
    return x if x.dtype is D.DOUBLE else x.cast(D.FLOAT)


@dataclass(frozen=True, slots=True)
class Moments:
    """How moments are computed: `epsilon` is added to variances; in float64 where that is the `stage`, or the
    type of the numbers without one, else in float32."""

    epsilon: float
    stage: DataType | None = None

    def has_layer(self, x: Tensor) -> bool:
        """Whether a normalization layer computes it, whose first stage is float32."""
        return x.dtype in FLOATS and self.stage is not D.DOUBLE and self.epsilon > 0

    def staged(self, x: Tensor) -> Tensor:
        """`x` as moments are computed of it."""
        return x.cast(D.DOUBLE if (self.stage or x.dtype) is D.DOUBLE else D.FLOAT)

    def inverse(self, variance: Tensor) -> Tensor:
        """1 / √(variance + ε)."""
        layers = variance.layers
        return layers.unary(U.RECIP, layers.unary(U.SQRT, variance + self.epsilon))


def moments(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Means, what is left without them, and the mean of the squares of that."""
    layers = x.layers
    centre = layers.reduce(R.AVG, x, axes)
    rest = x - centre
    return centre, rest, layers.reduce(R.AVG, rest * rest, axes)


def column(v: Tensor, x: Tensor) -> Tensor:
    """One number for each channel of `x`, in its type; of all elements of a batch, as it is."""
    v = v.cast(x.dtype)
    return v.reshape([1, -1, *(1,) * (x.rank - 2)][: max(x.rank, 1)]) if v.rank == 1 else v


def _bits(axes: Sequence[int]) -> int:
    return sum(1 << a for a in axes)


def instance_normalized(layers: Layers, x: Tensor, scale: Tensor, shift: Tensor, by: Moments) -> Tensor:
    """Each channel of each batch by its own mean and variance; scale, shift: a number for each channel."""
    scale, shift = column(scale, x), column(shift, x)
    axes = range(2, x.rank)
    if by.has_layer(x) and axes:
        return layers.layer("add_normalization", x, scale, shift, _bits(axes), epsilon=by.epsilon)
    _, rest, variance = moments(wide(x), axes)
    return (rest * by.inverse(variance)).cast(x.dtype) * scale + shift


def group_normalized(
    layers: Layers,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    groups: int,
    by: Moments,
    each_channel: bool = True,
) -> Tensor:
    """Groups of channels by their own means and variances; scale, shift: a number for each channel, or else
    for each group."""
    axes = range(2, x.rank)
    if by.has_layer(x) and axes and groups > 1:
        method = "add_normalization_v2" if each_channel else "add_normalization"
        more = {"num_groups": groups, "epsilon": by.epsilon}
        return layers.layer(method, x, column(scale, x), column(shift, x), _bits(axes), **more)
    batch, channels, *rest = lengths(x)
    apart = by.staged(x).reshape([batch, groups, channels // groups, *rest])
    _, rests, variance = moments(apart, range(2, apart.rank))
    y = rests * by.inverse(variance)
    inner = [-1 if each_channel else 1, *(1,) * len(rest)]
    scale, shift = (v.cast(y.dtype).reshape([1, groups, *inner]) for v in (scale, shift))
    return (y * scale + shift).cast(x.dtype).reshape(x.shape())


def layer_normalized(
    layers: Layers,
    x: Tensor,
    scale: Tensor,
    shift: Tensor | None,
    axes: Sequence[int],
    by: Moments,
    asked: bool = False,
) -> list[Tensor]:
    """The axes by their mean and variance; behind it both statistics, where they are `asked` for or made."""
    alike = (
        shift is not None and -1 not in scale.sizes and scale.sizes == shift.sizes and scale.rank <= x.rank
    )
    if alike and shift is not None and by.has_layer(x) and not asked:
        _, one, other = layers.aligned(x, scale, shift)
        return [layers.layer("add_normalization", x, one, other, _bits(axes), epsilon=by.epsilon)]
    centre, rest, variance = moments(by.staged(x), axes)
    inverse = by.inverse(variance)
    y = (rest * inverse).cast(x.dtype) * scale
    return [y if shift is None else y + shift, centre, inverse]
