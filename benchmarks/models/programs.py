"""How each program is asked for a model, from its file to its numbers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from anyrt.core.dtype import numpy_dtype
from benchmarks.peers import Cannot, Kept
from benchmarks.values import Array

Given: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Ready:
    """A model that a program has loaded: `run` again and again, then `result` gives its outputs in order."""

    run: Callable[[], object]
    result: Callable[[], list[Array]]


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its module and what of it loads a model; `module` is imported before time is taken."""

    name: str
    module: str
    load: Callable[[Any, Path, Given, int], Ready]  # Any: the module


def anyrt(trt: Any, path: Path, given: Given, threads: int) -> Ready:  # Any: as in `Program`
    """An engine built of the file."""
    return bound(trt, *engine_of(trt, path, threads), given)


def bound(trt: Any, engine: Any, context: Any, given: Given) -> Ready:  # Any: as in `Program`
    """An engine on memory of its own; `run` gives arrays where data decide how large outputs are."""
    shapes = {n: tuple(engine.get_tensor_shape(n)) for n in engine}
    if any(-1 in s for s in shapes.values()):
        call = Kept(partial(engine.run, **given))
        return Ready(call, lambda: [np.asarray(x) for x in _dictionary(call).values()])
    made = {n: np.zeros(s, numpy_dtype(engine.get_tensor_dtype(n))) for n, s in shapes.items()}
    for name, array in made.items():
        if name in given:
            array[...] = given[name]
        context.set_tensor_address(name, array.ctypes.data)
    return Ready(partial(context.execute_async_v3, 0), lambda: [x for n, x in made.items() if n not in given])


def engine_of(trt: Any, path: Path, threads: int) -> tuple[Any, Any]:  # Any: as in `Program`
    """An engine of a model, and a context."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = builder.create_network(), builder.create_builder_config()
    config.num_threads = threads
    with trt.strict():
        trt.OnnxParser(network, builder.logger).parse_from_file(str(path))
        engine = builder.build_engine_with_config(network, config)
        return engine, engine.create_execution_context()


def _dictionary(call: Kept) -> dict[str, Any]:  # Any: arrays
    assert isinstance(call.value, dict), "an engine gives a dict"
    return call.value


def ort(module: Any, path: Path, given: Given, threads: int) -> Ready:  # Any: as in `Program`
    """A session with bound inputs; outputs are bound to memory that it makes."""
    options = module.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = module.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in given.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    return Ready(partial(session.run_with_iobinding, binding), binding.copy_outputs_to_cpu)


def openvino(
    module: Any, path: Path, given: Given, threads: int, precision: str = "f32"
) -> Ready:  # Any: as in `Program`
    """A request with its inputs set, in float32 or another precision."""
    options = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    core = module.Core()
    request = core.compile_model(core.read_model(path), "CPU", options).create_infer_request()
    for name, array in given.items():
        request.set_tensor(name, module.Tensor(array, shared_memory=True))
    count = len(request.model_outputs)
    return Ready(
        partial(request.infer, {}, share_outputs=True),
        lambda: [request.get_output_tensor(i).data.copy() for i in range(count)],
    )


def torch(module: Any, path: Path, given: Given, threads: int) -> Ready:  # Any: as in `Program`
    """The module itself."""
    return called(module, _unfinished(path), given, threads, lambda x: x)


def compiled(module: Any, path: Path, given: Given, threads: int) -> Ready:  # Any: as in `Program`
    """The module, compiled by torch.compile."""
    return called(module, _unfinished(path), given, threads, partial(module.compile, dynamic=False))


def _unfinished(path: Path) -> Any:  # Any: a module
    found = importlib.import_module("benchmarks.models.networks").made(path.stem)
    if found.finish is not None:
        raise Cannot("has no suppression of boxes")
    return found.module


def called(
    module: Any, network: Any, given: Given, threads: int, change: Callable[[Any], Any]
) -> Ready:  # Any: modules
    """What `change` makes of a network, called with inputs of its parameters' type."""
    module.set_grad_enabled(False)
    module.set_num_threads(threads)
    dtype = next(iter(network.parameters())).dtype
    tensors = (module.from_numpy(x.copy()) for x in given.values())
    call = Kept(partial(change(network), *(x.to(dtype) if x.is_floating_point() else x for x in tensors)))
    return Ready(call, lambda: _arrays(module, call))


def _arrays(module: Any, call: Kept) -> list[Array]:  # Any: see above
    held: Any = call.value  # Any: a tensor or several
    every = held if isinstance(held, tuple) else (held,)
    return [(x.float() if x.dtype == module.bfloat16 else x).numpy() for x in every]


PROGRAMS = {
    p.name: p
    for p in (
        Program("AnyRT", "anyrt", anyrt),
        Program("ONNX Runtime", "onnxruntime", ort),
        Program("OpenVINO", "openvino", openvino),
        Program("PyTorch", "torch", torch),
        Program("torch.compile", "torch", compiled),
    )
}
OURS = "AnyRT"
