"""Mixtures of experts: each token passes through the experts that were selected for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import anyrt as trt
from benchmarks.families.case import Case, Family, Make, Random, constant_of, normal
from benchmarks.values import Array


def cases() -> Iterator[Case]:
    """One token, a few and many; 8 experts and 64."""
    yield _experts(1, 8, 2, 512, 1024)
    yield _experts(16, 8, 2, 512, 1024)
    yield _experts(256, 8, 2, 512, 1024)
    yield _experts(1, 64, 8, 512, 256)
    yield _experts(128, 64, 8, 512, 256)


def _selected(tokens: int, count: int, each: int) -> Make:
    def make(random: Random) -> Array:
        rows = [random.permutation(count)[:each] for _ in range(tokens)]
        return np.stack(rows)[None].astype(np.int32)

    return make


def _scores(tokens: int, each: int) -> Make:
    def make(random: Random) -> Array:
        drawn = random.uniform(0.5, 1.5, (1, tokens, each))
        return (drawn / drawn.sum(-1, keepdims=True)).astype(np.float32)

    return make


def _experts(tokens: int, count: int, each: int, hidden: int, inner: int) -> Case:
    @cache
    def weights() -> list[Array]:
        """Gate, up and down; created at first use, as it takes seconds."""
        random = np.random.default_rng(1)
        shapes = ((count, hidden, inner), (count, hidden, inner), (count, inner, hidden))
        return [random.normal(0, s[1] ** -0.5, s).astype(np.float32) for s in shapes]

    def exact(x: Array, selected: Array, scores: Array) -> Array:
        out, (gate, up, down) = np.zeros((tokens, hidden)), weights()
        for t, (row, of, shares) in enumerate(
            zip(x[0].astype(np.float64), selected[0], scores[0], strict=True)
        ):
            for e, w in zip(of, shares, strict=True):
                g = row @ gate[e]
                out[t] += w * ((g / (1 + np.exp(-g)) * (row @ up[e])) @ down[e])
        return out[None].astype(np.float32)

    def ours(network: Any, x: Any, selected: Any, scores: Any) -> Any:  # Any: tensors and layers
        layer = network.add_moe(x, selected, scores)
        layer.set_gated_weights(*(constant_of(network, w) for w in weights()), trt.MoEActType.SILU)
        return layer

    def one(module: Any, rows: Any, g: Any, u: Any, d: Any) -> Any:  # Any: tensors
        return (module.nn.functional.silu(rows @ g) * (rows @ u)) @ d

    def torch(module: Any, x: Any, selected: Any, scores: Any) -> Any:  # Any: tensors
        """Expert by expert with its tokens, as transformer libraries do."""
        every = [module.from_numpy(w) for w in weights()]
        rows, out = x[0], module.zeros_like(x[0])
        for e in module.unique(selected).tolist():
            token, slot = module.where(selected[0] == e)
            answers = one(module, rows[token], *(w[e] for w in every))
            out.index_add_(0, token, answers * scores[0, token, slot, None])
        return out[None]

    def gathered(module: Any, x: Any, selected: Any, scores: Any) -> Any:  # Any: tensors
        """With a copy of the weights for each pair of a token and an expert."""
        own = [module.from_numpy(w)[selected[0]] for w in weights()]
        answers = one(module, x[0, :, None, None], *own)
        return (answers[:, :, 0] * scores[0, ..., None]).sum(1)[None]

    used = min(count, tokens * each)
    return Case(
        f"moe_{tokens}_tokens_{each}_of_{count}_{hidden}x{inner}",
        Family.EXPERT,
        {
            "x": normal(1, tokens, hidden),
            "selected": _selected(tokens, count, each),
            "scores": _scores(tokens, each),
        },
        None,
        torch,
        exact,
        ours,
        eagerly=gathered if tokens * each <= 32 else None,
        read=4 * (tokens * hidden + used * 3 * hidden * inner),
    )
