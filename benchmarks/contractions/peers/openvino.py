"""OpenVINO with shared memory, in float32 but for bfloat16, where it computes in that."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import openvino as ov
from openvino._pyopenvino import InferRequest as RawRequest  # without a dictionary of results in each call

from benchmarks.contractions.forms import Case, result
from benchmarks.contractions.peers import Peer
from benchmarks.contractions.peers.onnx_model import model_of
from benchmarks.peers import Way
from benchmarks.peers.openvino import CORE, tensor
from benchmarks.steps import Element
from benchmarks.values import Array, aligned

PRECISIONS = {Element.BF16: "bf16", Element.F16: "f16"}


def prepare(case: Case, given: dict[str, Array], threads: int) -> tuple[Way, ...]:
    """A request with tensors of its own, which are the case's memory."""
    options = {
        "INFERENCE_PRECISION_HINT": PRECISIONS.get(case.dtype, "f32"),
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    start = time.perf_counter()
    compiled: Any = CORE.compile_model(  # Any: OpenVINO's classes publish no types
        CORE.read_model(model_of(case).SerializeToString()), "CPU", options
    )
    seconds = time.perf_counter() - start
    request, out = compiled.create_infer_request(), aligned(result(case))
    for port in compiled.inputs:
        request.set_tensor(port, tensor(given[port.any_name], case.dtype))
    request.set_output_tensor(0, tensor(out, case.dtype))
    run = partial(RawRequest.infer, request, {}, share_outputs=True, decode_strings=False)
    return (Way("", run, lambda: out, (("build_s", seconds),)),)


PEER = Peer("OpenVINO", ov.__version__.split("-")[0], prepare)
