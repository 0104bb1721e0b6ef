"""ONNX Runtime with IOBinding on the case's memory."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import onnxruntime as ort

from benchmarks.onnx_writer import dtype_of
from benchmarks.peers import Model, Peer, Task, Way
from benchmarks.values import Array, fetched, packed, room

ERRORS_ONLY = 3


def prepare(task: Task) -> tuple[Way, ...]:
    """A bound session for each model of the case that ONNX Runtime accepts; an error if it accepts none."""
    ways, refused = [], list[Exception]()
    for label, make in task.models().items():
        try:
            ways.append(bound(label, make(), task.threads))
        except Exception as error:  # its classes of errors have no common one; mostly no kernel for the type
            refused.append(error)
    if not ways:
        raise refused[0]
    return tuple(ways)


def plain(task: Task) -> tuple[Way, ...]:
    """session.run with arrays."""
    call = partial(_session(task.models()[""](), task.threads).run, None, task.inputs)
    return (Way("plain", call, lambda: tuple(call())),)


def bound(label: str, model: Model, threads: int) -> Way:
    """A session with bound memory."""
    start = time.perf_counter()
    session = _session(model, threads)
    facts = (("build_s", time.perf_counter() - start),)
    binding, outs = session.io_binding(), () if model.counted else tuple(map(room, model.outputs))
    held = {name: packed(x) for name, x in model.inputs.items()}
    for name, x in model.inputs.items():
        binding.bind_input(name, "cpu", 0, dtype_of(x), x.shape, held[name].ctypes.data)
    for i, output in enumerate(session.get_outputs()):
        y = None if model.counted else model.outputs[i]
        place = () if y is None else (dtype_of(y), y.shape, outs[i].ctypes.data)
        binding.bind_output(output.name, "cpu", 0, *place)
    run = partial(session.run_with_iobinding, binding)
    return Way(label, run, partial(_results, binding, model, outs, held), facts)


def _results(binding: Any, model: Model, outs: tuple[Array, ...], held: object) -> tuple[Array, ...]:
    """held: must live as long as the way. ONNX Runtime allocates outputs of data-dependent shapes."""
    results = tuple(binding.copy_outputs_to_cpu()) if model.counted else fetched(outs, model.outputs)
    return tuple(map(model.read, results))


def _session(model: Model, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = ERRORS_ONLY
    for key, value in model.entries.items():
        options.add_session_config_entry(key, value)
    return ort.InferenceSession(model.text, options, providers=["CPUExecutionProvider"])


PEER = Peer("ONNX Runtime", ort.__version__, prepare, plain)
