"""How each program loads a model, from a file to a callable."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.engines import arrays_in, bind, dtype_of, empty
from benchmarks.peers import Cannot, Kept, Model, Way
from benchmarks.values import Array

Given: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its package, its module, imported before timing, and the function that loads a model."""

    name: str
    package: str
    module: str
    load: Callable[..., Way]  # (the module, the file, inputs, threads), OpenVINO's also with a precision

    def ready(self, path: Path, inputs: Given, threads: int) -> tuple[Way, ...]:
        """The loaded model."""
        return (self.load(importlib.import_module(self.module), path, inputs, threads),)


def anyrt(trt: Any, path: Path, inputs: Given, threads: int) -> Way:  # Any: as in `Program`
    """An engine that is built from the file."""
    return bound(*engine_of(trt, path, threads), inputs)


def bound(engine: Any, context: Any, inputs: Given) -> Way:  # Any: of the public API
    """An engine on memory of its own; with data-dependent shapes, `run` returns arrays."""
    shapes = {n: tuple(engine.get_tensor_shape(n)) for n in engine}
    if any(-1 in s for s in shapes.values()):
        call = Kept(partial(engine.run, **inputs))
        return Way("", call, lambda: arrays_in(call))
    arrays = {n: np.zeros(s, dtype_of(engine, n)) for n, s in shapes.items()}
    for name, x in inputs.items():
        arrays[name][...] = x
    run = bind(context, arrays)
    return Way("", run, lambda: tuple(x for name, x in arrays.items() if name not in inputs))


def engine_of(trt: Any, path: Path, threads: int) -> tuple[Any, Any]:  # Any: as in `Program`
    """An engine of a model, and a context."""
    builder, network, config = empty(threads)
    with trt.strict():
        trt.OnnxParser(network, builder.logger).parse_from_file(str(path))
        engine = builder.build_engine_with_config(network, config)
        return engine, engine.create_execution_context()


def ort(peer: Any, path: Path, inputs: Given, threads: int) -> Way:  # Any: as in `Program`
    """A session with bound inputs; ONNX Runtime allocates the outputs."""
    return peer.bound("", Model(str(path), inputs, counted=True), threads)


def openvino(
    peer: Any, path: Path, inputs: Given, threads: int, precision: str = "f32"
) -> Way:  # Any: as in `Program`
    """A request with its inputs set, in float32 or another precision."""
    return peer.bound("", Model(str(path), inputs, counted=True, precision=precision), threads)


def torch(module: Any, path: Path, inputs: Given, threads: int) -> Way:  # Any: as in `Program`
    """The module itself."""
    return called(module, _unfinished(path), inputs, threads, lambda x: x)


def compiled(module: Any, path: Path, inputs: Given, threads: int) -> Way:  # Any: as in `Program`
    """The module, compiled by torch.compile."""
    return called(module, _unfinished(path), inputs, threads, partial(module.compile, dynamic=False))


def _unfinished(path: Path) -> Any:  # Any: a module
    network = importlib.import_module("benchmarks.models.networks").network_of(path.stem)
    if network.finish is not None:
        raise Cannot("has no suppression of boxes")
    return network.module


def called(
    module: Any, network: Any, inputs: Given, threads: int, change: Callable[[Any], Any]
) -> Way:  # Any: modules
    """A network after `change`, called with inputs of its parameters' type."""
    module.set_grad_enabled(False)
    module.set_num_threads(threads)
    dtype = next(iter(network.parameters())).dtype
    tensors = (module.from_numpy(x.copy()) for x in inputs.values())
    call = Kept(partial(change(network), *(x.to(dtype) if x.is_floating_point() else x for x in tensors)))
    return Way("", call, lambda: _arrays(module, call))


def _arrays(module: Any, call: Kept) -> tuple[Array, ...]:  # Any: see above
    held: Any = call.value  # Any: a tensor or several
    every = held if isinstance(held, tuple) else (held,)
    return tuple((x.float() if x.dtype == module.bfloat16 else x).numpy() for x in every)


PROGRAMS = {
    p.name: p
    for p in (
        Program("AnyRT", "anyrt", "anyrt", anyrt),
        Program("ONNX Runtime", "onnxruntime", "benchmarks.peers.ort", ort),
        Program("OpenVINO", "openvino", "benchmarks.peers.openvino", openvino),
        Program("PyTorch", "torch", "torch", torch),
        Program("torch.compile", "torch", "torch", compiled),
    )
}
OURS = "AnyRT"


def versions(names: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """(versions of programs but ours, why others are missing)."""
    here, missing = {}, {}
    for name in names:
        if name != OURS:
            try:
                here[name] = version(PROGRAMS[name].package)
            except PackageNotFoundError as error:
                missing[name] = str(error)
    return here, missing
