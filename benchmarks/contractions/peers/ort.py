"""ONNX Runtime with IOBinding: inputs and output are the case's own memory."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from benchmarks.contractions.forms import Attention, Case, result
from benchmarks.contractions.peers import Peer
from benchmarks.contractions.peers.onnx_model import model_of
from benchmarks.peers import Way
from benchmarks.peers.onnx_model import DTYPES
from benchmarks.steps import Element, Tensor
from benchmarks.values import Array, aligned

ERRORS_ONLY = 3
HALF = (Element.F16, Element.BF16)


def prepare(case: Case, given: dict[str, Array], threads: int) -> tuple[Way, ...]:
    """Bound sessions; attention in both forms, half types in float32 between casts, too, int8 as uint8."""
    models = {"": model_of(case)}
    if isinstance(case.form, Attention) and case.dtype is Element.F32:
        models["composed"] = model_of(case, fused=False)
    if case.dtype in HALF:
        models["in float32"] = _widened(case)
    if case.dtype is Element.I8:
        models["uint8"] = model_of(case, unsigned=True)
    ways, refused = [], list[Exception]()
    for label, model in models.items():
        try:
            ways.append(_bound(case, given, threads, label, model.SerializeToString()))
        except Exception as error:  # its classes of errors have no common one; mostly no kernel for the type
            refused.append(error)
    if not ways:
        raise refused[0]
    return tuple(ways)


class _Bound:
    """A session with its binding and the memory that is bound; call it to run it."""

    __slots__ = ("binding", "held", "session")

    def __init__(
        self, session: ort.InferenceSession, binding: ort.IOBinding, held: tuple[Array, ...]
    ) -> None:
        self.session, self.binding, self.held = session, binding, held

    def __call__(self) -> None:
        self.session.run_with_iobinding(self.binding)


def _bound(case: Case, given: dict[str, Array], threads: int, label: str, model: bytes) -> Way:
    start = time.perf_counter()
    session = _session(model, threads)
    seconds = time.perf_counter() - start
    out, dtype = aligned(result(case)), case.dtype
    fetch = partial(np.asarray, out)
    if label == "uint8":
        dtype, given = Element.U8, {n: _shifted(x) for n, x in given.items()}
        fetch = partial(_shifted, out)
    binding = session.io_binding()
    for name, x in given.items():
        binding.bind_input(name, "cpu", 0, DTYPES[dtype], x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, DTYPES[dtype], out.shape, out.ctypes.data)
    run = _Bound(session, binding, tuple(given.values()))
    return Way(label, run, fetch, (("build_s", seconds),))


def _shifted(x: Array) -> Array:
    """int8 codes as uint8 ones, 128 more, or back: both flip the highest bit."""
    out = aligned(Tensor(x.shape, Element.I8))
    np.bitwise_xor(x.view(np.uint8), 128, out=out.view(np.uint8))
    return out


def _session(model: bytes, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _widened(case: Case) -> onnx.ModelProto:
    """The same in float32 between casts, weights already in float32."""
    model = model_of(replace(case, dtype=Element.F32))
    half, graph = DTYPES[case.dtype], model.graph
    ends = {v.name: f"{v.name}_half" for v in (*graph.input, *graph.output)}
    casts = [helper.make_node("Cast", [ends[v.name]], [v.name], to=TensorProto.FLOAT) for v in graph.input]
    last = helper.make_node("Cast", ["y"], [ends["y"]], to=half)
    nodes = [*casts, *graph.node, last]
    del graph.node[:]
    graph.node.extend(nodes)
    _renamed(graph, ends, half)
    return model


def _renamed(graph: onnx.GraphProto, ends: dict[str, str], half: int) -> None:
    """Names of the graph's ends stay those that memory is bound to; what is inside gets other ones."""
    inner = {name: f"{name}_wide" for name in ends}
    outer = {other: name for name, other in ends.items()}
    for node in graph.node:
        for field in (node.input, node.output):
            field[:] = [outer.get(n, inner.get(n, n)) for n in field]
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.elem_type = half


PEER = Peer("ONNX Runtime", ort.__version__, prepare)
