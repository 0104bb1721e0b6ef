"""OpenVINO with shared memory, in float32 but for bfloat16, where it computes in that."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import onnx
import openvino as ov
from openvino._pyopenvino import InferRequest as RawRequest  # without a dictionary of results in each call

from benchmarks.contractions.forms import Attention, Case, result
from benchmarks.contractions.peers import Peer
from benchmarks.contractions.peers.onnx_model import model_of
from benchmarks.peers import Way
from benchmarks.peers.openvino import CORE, tensor
from benchmarks.steps import Element
from benchmarks.values import Array, aligned

PRECISIONS = {Element.BF16: "bf16", Element.F16: "f16"}


def prepare(case: Case, given: dict[str, Array], threads: int) -> tuple[Way, ...]:
    """Requests with tensors of their own, which are the case's memory; attention in both forms."""
    models = {"": model_of(case)}
    if isinstance(case.form, Attention) and case.dtype is Element.F32:
        models["composed"] = model_of(case, fused=False)
    return tuple(_bound(case, given, threads, *item) for item in models.items())


def _bound(case: Case, given: dict[str, Array], threads: int, label: str, model: onnx.ModelProto) -> Way:
    options = {
        "INFERENCE_PRECISION_HINT": PRECISIONS.get(case.dtype, "f32"),
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    start = time.perf_counter()
    compiled: Any = CORE.compile_model(  # Any: OpenVINO's classes publish no types
        CORE.read_model(model.SerializeToString()), "CPU", options
    )
    seconds = time.perf_counter() - start
    request, out = compiled.create_infer_request(), aligned(result(case))
    for port in compiled.inputs:
        request.set_tensor(port, tensor(given[port.any_name], case.dtype))
    request.set_output_tensor(0, tensor(out, case.dtype))
    run = partial(RawRequest.infer, request, {}, share_outputs=True, decode_strings=False)
    return Way(label, run, lambda: out, (("build_s", seconds),))


PEER = Peer("OpenVINO", ov.__version__.split("-")[0], prepare)
