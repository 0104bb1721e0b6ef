"""Building blocks of the models, as PyTorch modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def normalised(before: int, after: int, size: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution that keeps the size except for its stride, and a batch normalisation."""
    convolution = nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(after)]


class Bottleneck(nn.Module):
    """Three convolutions with a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *normalised(before, width, 1), nn.ReLU(),
            *normalised(width, width, 3, stride), nn.ReLU(),
            *normalised(width, 4 * width, 1),
        )  # fmt: skip
        changes = stride > 1 or before != 4 * width
        self.short = nn.Sequential(*normalised(before, 4 * width, 1, stride)) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.short(x))


class Inverted(nn.Module):
    """A wide depthwise convolution between two of size 1; `gated`: with a gate for each channel."""

    def __init__(
        self, before: int, after: int, stride: int, wider: int, size: int, act: type[nn.Module], gated: bool
    ) -> None:
        super().__init__()
        width, few = before * wider, max(1, before // 4)
        first = [*normalised(before, width, 1), act()] if wider > 1 else []
        self.body = nn.Sequential(*first, *normalised(width, width, size, stride, width), act())
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, few, 1), act(), nn.Conv2d(few, width, 1), nn.Sigmoid()
        )
        self.last = nn.Sequential(*normalised(width, after, 1))
        self.gated, self.kept = gated, stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        y = self.last(y * self.gate(y) if self.gated else y)
        return x + y if self.kept else y


class Attention(nn.Module):
    """Attention with several heads."""

    def __init__(self, width: int, heads: int, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.each = heads, width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=bias) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, self.each).transpose(1, 2)

    def among(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """`q`, `k`, `v`: (batch, heads, rows, each)."""
        y = functional.scaled_dot_product_attention(q, k, v, mask)
        return self.out(y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.among(self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x)), mask)


class Block(nn.Module):
    """A transformer layer, with normalisation before its parts or `after` them."""

    def __init__(self, width: int, heads: int, after: bool = False) -> None:
        super().__init__()
        self.after = after
        self.attention = Attention(width, heads)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def mixed(self, x: Tensor) -> Tensor:
        return self.narrow(functional.gelu(self.wide(x)))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        one, two = self.norms
        if self.after:
            x = one(x + self.attention(x, mask))
            return two(x + self.mixed(x))
        x = x + self.attention(one(x), mask)
        return x + self.mixed(two(x))


class RMSNorm(nn.Module):
    """Numbers divided by the root of their mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Residual(nn.Module):
    """Two convolutions, each after a group normalisation and SiLU, with a shortcut."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, before), nn.SiLU(), nn.Conv2d(before, after, 3, 1, 1),
            nn.GroupNorm(8, after), nn.SiLU(), nn.Conv2d(after, after, 3, 1, 1),
        )  # fmt: skip
        self.short = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.short(x)


class Split(nn.Module):
    """Half of the channels pass through convolutions, the others do not: a block of detectors."""

    def __init__(self, before: int, after: int, count: int) -> None:
        super().__init__()
        half = after // 2
        self.first = nn.Sequential(*normalised(before, after, 1), nn.SiLU())
        self.body = nn.ModuleList(
            nn.Sequential(*normalised(half, half), nn.SiLU(), *normalised(half, half), nn.SiLU())
            for _ in range(count)
        )
        self.last = nn.Sequential(*normalised((2 + count) * half, after, 1), nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for body in self.body:
            parts.append(parts[-1] + body(parts[-1]))
        return self.last(torch.cat(parts, 1))
