"""JAX on XLA: inputs on the device, the last result donated as memory for the next."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from benchmarks.layers.arrays import Run
from benchmarks.layers.jax_steps import RESIZING, has_library_resize, whole
from benchmarks.peers import Peer, Task, Way
from benchmarks.steps import Tensor

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_enable_async_dispatch", False)  # a call returns when it is done: less to do


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
