"""OpenVINO with shared memory, in float32."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import openvino as ov
from openvino._pyopenvino import InferRequest as RawRequest  # without a dictionary of results in each call

from benchmarks.families.case import fetched, packed, room
from benchmarks.families.peers import Peer, Results, Task, made
from benchmarks.families.peers.onnx_model import model_of
from benchmarks.peers.openvino import CORE
from benchmarks.values import Array

ODD = {
    np.dtype(ml_dtypes.float8_e4m3fn): (ov.Type.f8e4m3, np.uint8),
    np.dtype(ml_dtypes.int4): (ov.Type.i4, np.uint8),
}


def prepare(task: Task) -> tuple[Results, ...]:
    """A request with tensors of its own, which are the case's memory."""
    model = model_of(task)
    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": task.threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled: Any = CORE.compile_model(CORE.read_model(model.text), "CPU", options)  # Any: no types
    request, outs = compiled.create_infer_request(), tuple(map(room, model.results))
    held = {name: packed(x) for name, x in model.given.items()}
    for port in compiled.inputs:
        request.set_tensor(port, _tensor(held[port.any_name], model.given[port.any_name]))
    if task.case.counted:  # it makes memory for what it finds
        run = partial(_run, request, tuple(held.values()))
        return (made("", run, partial(_copied, request, len(model.results))),)
    for i, (y, out) in enumerate(zip(model.results, outs, strict=True)):
        request.set_output_tensor(i, _tensor(out, y))
    run = partial(_run, request, tuple(held.values()))
    return (made("", run, partial(fetched, outs, model.results)),)


def _run(request: Any, held: object) -> None:  # Any: see above
    RawRequest.infer(request, {}, share_outputs=True, decode_strings=False)


def _copied(request: Any, count: int) -> tuple[Array, ...]:  # Any: see above
    return tuple(request.get_output_tensor(i).data.copy() for i in range(count))


def _tensor(held: Array, like: Array) -> ov.Tensor:
    if like.dtype in ODD:
        kind, word = ODD[like.dtype]
        return ov.Tensor(held.view(word), like.shape, kind)
    return ov.Tensor(held, shared_memory=True)


PEER = Peer("OpenVINO", ov.__version__.split("-")[0], prepare)
