"""The steps of a case as JAX functions, for XLA and, exported, for IREE."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from benchmarks.layers.arrays import Library, Run, chained, functions, operations
from benchmarks.layers.cases import Case
from benchmarks.steps import Element, Grid, Mode, Resize, Silu, Tensor, infer


def _stored(y: jax.Array, dtype: Element) -> jax.Array:
    return (y if dtype.is_float else jnp.clip(jnp.round(y), *dtype.ends)).astype(dtype.numpy)


def _by_library(step: Resize, x: Tensor, library: Library, out: None) -> Run:
    """jax.image.resize, which multiplies matrices."""
    after = infer(step, x)
    return lambda y: _stored(
        jax.image.resize(
            y if x.dtype.is_float else y.astype(jnp.float32), after.shape, "bilinear", antialias=False
        ),
        x.dtype,
    )


# Statistics are computed in float32, resizes by gathering.
LIBRARY = Library(
    operations(jnp),
    constant=lambda a, dtype: jnp.asarray(a.astype(dtype.numpy)),
    cast=lambda y, dtype: y.astype(dtype.numpy),
    stored=_stored,
    take=lambda y, at, axis: jnp.take(y, at, axis, mode="clip"),
    wide=lambda y: y.astype(jnp.float32),
    own={Silu: lambda step, x, library, out: jax.nn.silu},
)
RESIZING = replace(LIBRARY, own={**LIBRARY.own, Resize: _by_library})


def whole(case: Case, library: Library = LIBRARY) -> Run:
    """The function of the whole case."""
    return chained(functions(case, library))


def has_library_resize(case: Case) -> bool:
    """Whether jax.image.resize computes the same: half-pixel, linear."""
    steps = [s for s in case.steps if isinstance(s, Resize)]
    return bool(steps) and all(s.grid is Grid.HALF_PIXEL and s.mode is Mode.LINEAR for s in steps)
