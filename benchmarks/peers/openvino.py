"""OpenVINO with shared memory, in float32: by default it computes in bfloat16 where the processor can."""

from __future__ import annotations

from functools import partial
from typing import Any

import openvino as ov
from openvino._pyopenvino import InferRequest as RawRequest  # without a dictionary of results in each call

from benchmarks.cases import Case
from benchmarks.peers import Peer, Way
from benchmarks.peers.onnx_model import model_of
from benchmarks.steps import Element, types
from benchmarks.values import Array, aligned

CORE = ov.Core()
DTYPES = {
    Element.F32: ov.Type.f32,
    Element.F16: ov.Type.f16,
    Element.BF16: ov.Type.bf16,
    Element.U8: ov.Type.u8,
    Element.I8: ov.Type.i8,
}


def prepare(case: Case, x: Array, threads: int) -> tuple[Way, ...]:
    """A request with input and output tensors of its own, which are the case's memory."""
    result = types(case.steps, case.input)[-1]
    out = aligned(result)
    request = _compiled(case, threads).create_infer_request()
    given, taken = tensor(x, case.input.dtype), tensor(out, result.dtype)
    request.set_input_tensor(0, given)
    request.set_output_tensor(0, taken)
    run = partial(RawRequest.infer, request, {}, share_outputs=True, decode_strings=False)
    return (Way("", run, lambda: out),)


def plain(case: Case, x: Array, threads: int) -> tuple[Way, ...]:
    """The compiled model called with an array."""
    call = partial(_compiled(case, threads), x)
    return (Way("plain", call, lambda: call()[0]),)


def tensor(array: Array, dtype: Element) -> ov.Tensor:
    """A tensor over the memory of the array."""
    if dtype is Element.BF16:
        return ov.Tensor(array.view("uint16"), array.shape, DTYPES[dtype])
    return ov.Tensor(array, shared_memory=True)


def _compiled(case: Case, threads: int) -> Any:  # Any: OpenVINO's classes publish no types
    model = CORE.read_model(model_of(case))
    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    return CORE.compile_model(model, "CPU", options)


PEER = Peer("OpenVINO", ov.__version__.split("-")[0], prepare, plain)
