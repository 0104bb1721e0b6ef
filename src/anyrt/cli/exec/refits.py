"""Refittable weights of an engine: lists them, and measures a refit."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from anyrt.api.run.engine import ICudaEngine
from anyrt.api.run.refitter import Refitter
from anyrt.cli.exec.flags import Given
from anyrt.core.errors import ArgumentError, RefitError
from anyrt.onnx.refitter import OnnxParserRefitter

if TYPE_CHECKING:
    from anyrt.cli.exec.main import Lines

ROUNDS = 10


def show_refittable(engine: ICudaEngine, lines: Lines) -> None:
    """Print each refittable layer with its roles, and the names of refittable weights."""
    refitter = _refitter("dumpRefit", engine, lines)
    lines.say("Refittable layers and weights:")
    for layer, role in zip(*refitter.get_all(), strict=True):
        lines.say(f"  {layer}: {role.name}")
    for name in refitter.get_all_weights():
        lines.say(f"  weights {name}")


def time_refit(options: Given, engine: ICudaEngine, lines: Lines) -> None:
    """Measure how long a refit with all weights of the model of --onnx takes."""
    if not options.has("onnx"):
        raise ArgumentError(
            "AR304", "--timeRefit", "no model", "a model with the weights", "add --onnx=model.onnx"
        )
    refitter = _refitter("timeRefit", engine, lines)
    times = []
    for _ in range(ROUNDS + 1):
        parser = OnnxParserRefitter(refitter, lines)
        if not parser.refit_from_file(options.text("onnx")):
            raise RefitError("AR844", "--timeRefit", parser.get_error(0).desc(), "weights for all layers")
        begin = time.perf_counter()
        refitter.refit_cuda_engine()
        times.append(1e3 * (time.perf_counter() - begin))
    rest = times[1:]  # the first one maps memory
    summary = f"min = {min(rest):g} ms, max = {max(rest):g} ms, median = {median(rest):g} ms"
    lines.say(f"Engine refitted {ROUNDS} times: {summary}")


def _refitter(option: str, engine: ICudaEngine, lines: Lines) -> Refitter:
    if not engine.refittable:
        do = "add --refit or --stripWeights"
        raise RefitError("AR841", f"--{option}", "an engine with fixed weights", "a refittable engine", do)
    return Refitter(engine, lines)
