"""ONNX Runtime with IOBinding: input and output are the case's own memory."""

from __future__ import annotations

from functools import partial

import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as Unknown

from benchmarks.cases import Case
from benchmarks.peers import Peer, Way
from benchmarks.peers.onnx_model import DTYPES, model_of, widened
from benchmarks.steps import types
from benchmarks.values import Array, aligned

ERRORS_ONLY = 3


def prepare(case: Case, x: Array, threads: int) -> tuple[Way, ...]:
    """Bound sessions; half types also in float32 between casts, which often is faster, or all there is."""
    wide = widened(case)
    if wide is None:
        return (_bound(case, x, threads, ""),)
    ways, refused = [], list[Exception]()
    for form, label in ((case, ""), (wide, "in float32")):
        try:
            ways.append(_bound(form, x, threads, label))
        except (Unknown, Fail) as error:  # no kernel for the type; LayerNorm that is fused with a cast
            refused.append(error)
    if not ways:
        raise refused[0]
    return tuple(ways)


def _bound(case: Case, x: Array, threads: int, label: str) -> Way:
    session = _session(case, threads)
    result = types(case.steps, case.input)[-1]
    out = aligned(result)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, DTYPES[case.input.dtype], x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, DTYPES[result.dtype], out.shape, out.ctypes.data)
    return Way(label, partial(session.run_with_iobinding, binding), lambda: out)


def plain(case: Case, x: Array, threads: int) -> tuple[Way, ...]:
    """session.run with arrays."""
    session = _session(case, threads)
    call = partial(session.run, None, {"x": x})
    return (Way("plain", call, lambda: call()[0]),)


def _session(case: Case, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    return ort.InferenceSession(model_of(case), options, providers=["CPUExecutionProvider"])


PEER = Peer("ONNX Runtime", ort.__version__, prepare, plain)
