"""OpenVINO with shared memory, in float32 unless the model sets a precision: its default may be bfloat16."""

from __future__ import annotations

import time
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import openvino as ov
from openvino._pyopenvino import InferRequest as RawRequest  # without a dictionary of results in each call

from benchmarks.peers import Model, Peer, Task, Way
from benchmarks.values import Array, fetched, packed, room

FORMS = ("", "composed")
# Types that NumPy lacks: OpenVINO's type, and the type of the words that hold them.
ODD = {
    np.dtype(ml_dtypes.bfloat16): (ov.Type.bf16, np.uint16),
    np.dtype(ml_dtypes.float8_e4m3fn): (ov.Type.f8e4m3, np.uint8),
    np.dtype(ml_dtypes.int4): (ov.Type.i4, np.uint8),
}


def prepare(task: Task) -> tuple[Way, ...]:
    """Requests on tensors of the case's memory."""
    models = task.models().items()
    return tuple(bound(label, make(), task.threads) for label, make in models if label in FORMS)


def plain(task: Task) -> tuple[Way, ...]:
    """The compiled model, called with arrays."""
    call = partial(_compiled(task.models()[""](), task.threads), *task.inputs.values())
    return (Way("plain", call, lambda: tuple(call().values())),)


def bound(label: str, model: Model, threads: int) -> Way:
    """A request with its tensors."""
    start = time.perf_counter()
    compiled = _compiled(model, threads)
    facts = (("build_s", time.perf_counter() - start),)
    request = compiled.create_infer_request()
    held = {name: packed(x) for name, x in model.inputs.items()}
    for port in compiled.inputs:
        request.set_tensor(port, _tensor(held[port.any_name], model.inputs[port.any_name]))
    outs = () if model.counted else tuple(map(room, model.outputs))
    for i, (out, y) in enumerate(zip(outs, model.outputs, strict=False)):
        request.set_output_tensor(i, _tensor(out, y))
    run = partial(RawRequest.infer, request, {}, share_outputs=True, decode_strings=False)
    return Way(label, run, partial(_results, request, model, outs, held), facts)


def _compiled(model: Model, threads: int) -> Any:  # Any: OpenVINO's classes publish no types
    options = {
        "INFERENCE_PRECISION_HINT": model.precision,
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    return _core().compile_model(_core().read_model(model.text), "CPU", options)


@cache
def _core() -> Any:  # Any: see above
    return ov.Core()


def _results(request: Any, model: Model, outs: tuple[Array, ...], held: object) -> tuple[Array, ...]:
    """held: must live as long as the way. OpenVINO allocates outputs of data-dependent shapes."""
    if model.counted:
        return tuple(request.get_output_tensor(i).data.copy() for i in range(len(request.model_outputs)))
    return fetched(outs, model.outputs)


def _tensor(held: Array, like: Array) -> ov.Tensor:
    """A tensor on the memory of an array."""
    if like.dtype in ODD:
        kind, word = ODD[like.dtype]
        return ov.Tensor(held.view(word), like.shape, kind)
    return ov.Tensor(held, shared_memory=True)


PEER = Peer("OpenVINO", ov.__version__.split("-")[0], prepare, plain)
