"""ONNX Runtime with IOBinding: inputs and outputs are the case's own memory."""

from __future__ import annotations

from functools import partial

import onnxruntime as ort

from benchmarks.families.case import fetched, packed, room
from benchmarks.families.peers import Peer, Results, Task, made
from benchmarks.families.peers.onnx_model import dtype_of, model_of

ERRORS_ONLY = 3


def prepare(task: Task) -> tuple[Results, ...]:
    """A bound session."""
    model, options = model_of(task), ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = task.threads, 1
    options.log_severity_level = ERRORS_ONLY
    session = ort.InferenceSession(model.text, options, providers=["CPUExecutionProvider"])
    binding, outs = session.io_binding(), () if task.case.counted else tuple(map(room, model.results))
    held = {name: packed(x) for name, x in model.given.items()}
    for name, x in model.given.items():
        binding.bind_input(name, "cpu", 0, dtype_of(x), x.shape, held[name].ctypes.data)
    for i, y in enumerate(model.results):
        place = () if task.case.counted else (dtype_of(y), y.shape, outs[i].ctypes.data)
        binding.bind_output(f"y{i}", "cpu", 0, *place)
    run = partial(_run, session, binding, tuple(held.values()))
    if task.case.counted:  # it makes memory for what it finds
        return (made("", run, lambda: tuple(binding.copy_outputs_to_cpu())),)
    return (made("", run, partial(fetched, outs, model.results)),)


def _run(session: ort.InferenceSession, binding: ort.IOBinding, held: object) -> None:
    session.run_with_iobinding(binding)


PEER = Peer("ONNX Runtime", ort.__version__, prepare)
