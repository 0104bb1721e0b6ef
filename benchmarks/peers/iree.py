"""IREE: JAX's export of the case, compiled for this processor, executed by its task system."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any

import iree.compiler as compiler
import iree.runtime as runtime
import jax
import numpy as np

from benchmarks.layers.arrays import Run
from benchmarks.peers import Cannot, Kept, Peer, Task, Way
from benchmarks.peers.jax import whole
from benchmarks.steps import Reshape
from benchmarks.values import Array

FLAGS = ("--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3")
DRIVER = "local-task"


def prepare(task: Task) -> tuple[Way, ...]:
    """The compiled case; resizes gather, as matrix products take seconds."""
    if all(isinstance(s, Reshape) for s in task.case.steps):
        raise Cannot("gives its input back, and copies nothing")
    return (_way(whole(task.case), task.inputs["x"], task.threads),)


def _way(function: Run, x: Array, threads: int) -> Way:
    text = str(jax.jit(function).lower(jax.ShapeDtypeStruct(x.shape, x.dtype)).compiler_ir("stablehlo"))
    binary = compiler.compile_str(
        text, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=list(FLAGS)
    )
    config = _config(threads)
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, binary))
    call = Kept(_bound(context, x, config))
    return Way("", call, lambda: (_host(call.value, config),))


@cache
def _config(threads: int) -> Any:  # Any: IREE's classes publish no types
    """One for the process: the process crashes if a device is destroyed before its modules."""
    runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    return runtime.Config(device=runtime.get_driver(DRIVER).create_default_device())


def _bound(context: Any, x: Array, config: Any) -> Callable[[], object]:  # Any: see above
    """A call below the Python layer, which inspects the arguments of each call."""
    entry = context.modules["jit_run"]["main"].vm_function
    operands = runtime.VmVariantList(1)
    operands.push_ref(runtime.asdevicearray(config.device, x)._buffer_view)
    invoke = context.vm_context.invoke

    def call() -> object:
        taken = runtime.VmVariantList(1)
        invoke(entry, operands, taken)
        return taken

    return call


def _host(result: Any, config: Any) -> Array:  # Any: see above
    view = result.get_as_object(0, runtime.HalBufferView)
    return np.asarray(runtime.DeviceArray(config.device, view, implicit_host_transfer=True).to_host())


PEER = Peer("IREE", version("iree-base-runtime"), prepare)
