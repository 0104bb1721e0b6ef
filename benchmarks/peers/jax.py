"""JAX on XLA: inputs on the device, the last result donated as memory for the next; and the steps of a case
as JAX functions, which IREE gets exported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.layers.arrays import Library, Run, chained, functions, operations
from benchmarks.layers.cases import Case
from benchmarks.peers import Peer, Task, Way
from benchmarks.steps import Element, Grid, Mode, Resize, Silu, Tensor, infer

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_enable_async_dispatch", False)  # a call returns when it is done: less to do


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


def prepare(task: Task) -> tuple[Way, ...]:
    """The compiled case; resizes in both forms. XLA uses as many threads as the process has processors."""
    case, x = task.case, jax.device_put(task.inputs["x"])
    forms: list[tuple[str, Run]] = [("", whole(case))]
    if has_library_resize(case):
        forms.append(("image.resize", whole(case, RESIZING)))
    return tuple(_way(label, f, x, case.result) for label, f in forms)


def _way(label: str, function: Run, x: jax.Array, result: Tensor) -> Way:
    def into(a: jax.Array, b: jax.Array) -> jax.Array:
        return function(a)

    compiled = jax.jit(into, donate_argnums=1, keep_unused=True)
    last = [compiled(x, jax.device_put(np.zeros(result.shape, result.dtype.numpy)))]
    return Way(label, _call(compiled, x, last), lambda: (np.asarray(last[0]).copy(),))


def _call(compiled: Callable[..., jax.Array], x: jax.Array, last: list[jax.Array]) -> Callable[[], None]:
    def run() -> None:
        last[0] = compiled(x, last[0]).block_until_ready()

    return run


PEER = Peer("JAX", jax.__version__, prepare)
