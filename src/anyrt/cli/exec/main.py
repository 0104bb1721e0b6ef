"""Builds, runs and reports, with the output lines of trtexec in their order.

&&&& RUNNING TensorRT.trtexec … # trtexec --onnx=model.onnx
…
&&&& PASSED TensorRT.trtexec … # trtexec --onnx=model.onnx
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from statistics import median

import numpy as np

import anyrt
from anyrt.api.edge.interfaces import ILogger
from anyrt.api.model.state import state_of
from anyrt.api.run.engine import ICudaEngine
from anyrt.api.run.runtime import Runtime
from anyrt.cli.exec.arrays import write_outputs
from anyrt.cli.exec.build import libraries, plan_of
from anyrt.cli.exec.debugs import save_debug_tensors
from anyrt.cli.exec.flags import Given, read, usage
from anyrt.cli.exec.refits import show_refittable, time_refit
from anyrt.cli.exec.runs import Stream, Totals, measured, profiled
from anyrt.cli.exec.times import EXPLANATIONS, Results, averages, measurements, summary, write_times
from anyrt.cli.libraries import loaded
from anyrt.cli.show import print_json
from anyrt.core.enums import EngineStat, LayerInformationFormat, Severity
from anyrt.core.errors import AnyrtError, ArgumentError
from anyrt.core.flags import strict
from anyrt.plan.disk import write_atomically
from anyrt.plan.file import FORMAT, map_plan
from anyrt.plan.report import by_layer, parse_report

LETTERS = {
    Severity.INTERNAL_ERROR: "E",
    Severity.ERROR: "E",
    Severity.WARNING: "W",
    Severity.INFO: "I",
    Severity.VERBOSE: "V",
}


class Lines(ILogger):
    """trtexec's lines: `[11/23/2026-10:00:00] [I] text`."""

    def __init__(self, verbose: bool) -> None:
        ILogger.__init__(self)
        self._least = Severity.VERBOSE if verbose else Severity.INFO
        self._last = ""

    def log(self, severity: Severity, msg: str) -> None:
        """One line, on stderr from errors on."""
        self._last = msg
        if severity <= self._least:
            self.say(f"[TRT] {msg}", severity)

    def say(self, text: str, severity: Severity = Severity.INFO) -> None:
        """Print a line of the program itself."""
        if severity <= self._least:
            stamp = time.strftime("%m/%d/%Y-%H:%M:%S")
            where = sys.stderr if severity <= Severity.ERROR else sys.stdout
            print(f"[{stamp}] [{LETTERS[severity]}] {text}", file=where, flush=True)

    def fail(self, error: AnyrtError) -> None:
        """Print an error, unless the library logged it in its last line."""
        if str(error) != self._last:
            self.say(str(error), Severity.ERROR)


def execute(words: Sequence[str], program: str) -> int:
    """Execute the options; returns the exit status: 0, or 1 on failure. With --json, stdout has only the
    results of a successful execution, as JSON; trtexec's lines go to stderr."""
    major, minor, patch = (int(x) for x in anyrt.__version__.split("."))
    name = f"TensorRT.trtexec [TensorRT v{major * 10000 + minor * 100 + patch}] [AnyRT]"
    line = " ".join([program, *words])
    lines = Lines("--verbose" in words or "-v" in words)
    as_json = "--json" in words
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        print(f"&&&& RUNNING {name} # {line}", flush=True)
        results = _attempt(words, lines)
        print(f"&&&& {'FAILED' if results is None else 'PASSED'} {name} # {line}", flush=True)
    if as_json and results is not None:
        print_json(results)
    return int(results is None)


def _attempt(words: Sequence[str], lines: Lines) -> Results | None:
    """The results, or None after an error, which is logged."""
    try:
        options = read(words)
        with strict(), loaded(libraries(options)):
            return _execute(options, lines)
    except AnyrtError as error:
        lines.fail(error)
    except OSError as error:
        lines.say(f"{error.filename}: {error.strerror}" if error.filename else str(error), Severity.ERROR)
    return None


def _execute(options: Given, lines: Lines) -> Results:
    if options.has("help") or not options.values:
        print(usage())
        return {}
    for name, why in options.idle.items():
        lines.say(f"--{name} has no effect: {why}", Severity.WARNING)
    if options.has("getPlanVersionOnly"):
        map_plan(Path(options.text("loadEngine")))
        lines.say(f"Plan was created in format {FORMAT}, which this version reads")
        return {"plan_format": FORMAT}
    began = time.perf_counter()
    engine = _engine(options, lines)
    results: Results = {"build_s" if options.has("onnx") else "load_s": time.perf_counter() - began}
    _show_engine(options, engine, lines)
    if options.has("dumpRefit"):
        show_refittable(engine, lines)
    if options.has("timeRefit"):
        time_refit(options, engine, lines)
    if options.has("skipInference") or options.has("buildOnly"):
        return results
    if options.has("weightStreamingBudget"):
        engine.weight_streaming_budget_v2 = _budget(options, engine)
    if engine.get_engine_stat(EngineStat.STRIPPED_WEIGHTS_SIZE):
        lines.say("The plan contains no weights, so it is not run; refit the engine first", Severity.WARNING)
        return results
    return results | _infer(options, engine, lines)


def _engine(options: Given, lines: Lines) -> ICudaEngine:
    if options.has("onnx") == options.has("loadEngine"):
        names, do = "of --onnx and --loadEngine", "write --onnx=model.onnx"
        raise ArgumentError("AR304", "anyrt exec", f"neither or both {names}", f"one {names}", do)
    runtime = Runtime(lines)
    if options.has("onnx"):
        lines.say("=== Model Options ===")
        lines.say("Format: ONNX")
        lines.say(f"Model: {options.text('onnx')}")
        began = time.perf_counter()
        plan = plan_of(options, lines)
        lines.say(f"Engine built in {time.perf_counter() - began:g} sec.")
        if options.has("saveEngine"):
            write_atomically(Path(options.text("saveEngine")), [memoryview(plan)])
            lines.say(f"Engine saved to {options.text('saveEngine')}, {memoryview(plan).nbytes} bytes")
        return runtime.deserialize_cuda_engine(plan)
    began = time.perf_counter()
    engine = runtime.deserialize_cuda_engine(Path(options.text("loadEngine")))
    lines.say(f"Engine deserialized in {time.perf_counter() - began:g} sec.")
    return engine


def _show_engine(options: Given, engine: ICudaEngine, lines: Lines) -> None:
    inspector = engine.create_engine_inspector()
    if options.has("dumpLayerInfo"):
        lines.say("Layer Information:")
        print(inspector.get_engine_information(LayerInformationFormat.ONELINE))
    if options.has("exportLayerInfo"):
        text = inspector.get_engine_information(LayerInformationFormat.JSON)
        write_atomically(Path(options.text("exportLayerInfo")), [text.encode()])
    if options.has("dumpOptimizationProfile"):
        for i in range(engine.num_optimization_profiles):
            for name in engine:
                low, best, high = (tuple(d) for d in engine.get_tensor_profile_shape(name, i))
                lines.say(f"Profile {i}: {name}: {low} to {high}, best {best}")


def _infer(options: Given, engine: ICudaEngine, lines: Lines) -> Results:
    streams = [Stream(engine, options, seed) for seed in range(max(1, options.count("infStreams", 1)))]
    for stream in streams[:1]:
        for name, array in stream.arrays.items():
            lines.say(f"Created {'x'.join(map(str, array.shape)) or 'scalar'} {array.dtype} for {name}")
    if streams[0].guessed:
        shapes = ",".join(streams[0].guessed)
        text = f"Dynamic dimensions without shapes are overridden to 1: --shapes={shapes}"
        lines.say(text, Severity.WARNING)
    save_debug_tensors(options, streams[0].context)
    lines.say("Starting inference")
    runs, warm, warm_ms = measured(streams, options)
    lines.say(f"Warmup completed {warm} queries over {warm_ms:g} ms")
    lines.say(f"Timing trace has {len(runs)} queries over {runs[-1].end / 1000:g} s")
    lines.say("")
    lines.say("=== Trace details ===")
    lines.say(f"Trace averages of {max(1, options.count('avgRuns', 10))} runs:")
    for line in averages(runs, max(1, options.count("avgRuns", 10))):
        lines.say(line)
    for line in summary(runs, _percents(options)):
        lines.say(line)
    for line in EXPLANATIONS:
        lines.say(line, Severity.VERBOSE)
    lines.say("")
    if options.has("exportTimes"):
        write_times(runs, Path(options.text("exportTimes")))
    _outputs(options, streams[0], lines)
    if options.has("dumpProfile") or options.has("exportProfile"):
        _profile(options, streams[0], lines)
    return measurements(runs, _percents(options))


def _budget(options: Given, engine: ICudaEngine) -> int:
    """The weight streaming budget in bytes; −1 means automatic, −2 means all weights."""
    text = options.text("weightStreamingBudget")
    share = text.endswith("%")
    try:
        number = float(text.rstrip("%"))
    except ValueError:
        number = math.nan
    if not ((share and 0 <= number <= 100) or (not share and number >= -2 and number == int(number))):
        raise ArgumentError(
            "AR304", "--weightStreamingBudget", repr(text), "bytes, -1, -2, or 0% to 100%", "write 50%"
        )
    if share:
        return int(engine.streamable_weights_size * number / 100)
    some = {-1: engine.get_weight_streaming_automatic_budget(), -2: engine.streamable_weights_size}
    return some.get(int(number), int(number))


def _percents(options: Given) -> list[float]:
    text = options.text("percentile", "90,95,99")
    try:
        percents = [float(p) for p in text.split(",")]
    except ValueError:
        percents = [-1.0]
    if not all(0 <= p <= 100 for p in percents):
        raise ArgumentError("AR304", "--percentile", repr(text), "numbers from 0 to 100", "write 90,95,99")
    return percents


def _outputs(options: Given, stream: Stream, lines: Lines) -> None:
    outputs = stream.outputs()
    if options.has("dumpOutput"):
        lines.say("Output Tensors:")
        for name, x in outputs.items():
            lines.say(f"{name}: ({'x'.join(map(str, x.shape))})")
            print(" ".join(f"{v:g}" for v in x.reshape(-1).astype(np.float64)))
    if options.has("exportOutput"):
        write_outputs(outputs, Path(options.text("exportOutput")))
    if options.has("dumpRawBindingsToFile"):
        for name, x in outputs.items():
            shape = ".".join(map(str, x.shape))
            path = Path(f"{name.replace('/', '_')}.output.{shape}.{x.dtype.name}.raw")
            write_atomically(path, [x.tobytes()])


def _profile(options: Given, stream: Stream, lines: Lines) -> None:
    count = max(1, options.count("iterations", 10))
    rows = profile_rows(profiled(stream.context, count))
    if options.has("dumpProfile"):
        lines.say(f"=== Profile ({count} iterations ) ===")
        lines.say("   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer")
        for name, total, mean, middle, share in rows:
            lines.say(f"{total:11.4f} {mean:12.4f} {middle:12.4f} {share:9.1f}   {name}")
        kernels = parse_report(state_of(stream.engine).plan.report).kernels
        totals = by_layer([(name, total) for name, total, *_ in rows[:-1]], kernels)
        lines.say("=== Layers, with the times of their kernels; those of fused kernels are shared evenly ===")
        lines.say("   Time(ms)   Layer")
        for name, total in totals.items():
            lines.say(f"{total:11.4f}   {name}")
    if options.has("exportProfile"):
        records: list[dict[str, object]] = [{"count": count}]
        for name, total, mean, middle, share in rows[:-1]:  # without the sum, as trtexec has it
            records.append(
                {"name": name, "timeMs": total, "averageMs": mean, "medianMs": middle, "percentage": share}
            )
        write_atomically(Path(options.text("exportProfile")), [json.dumps(records, indent=1).encode()])


def profile_rows(totals: Totals) -> list[tuple[str, float, float, float, float]]:
    """Name, sum, mean and median in milliseconds, and share of each layer; the sum of all last."""
    whole = sum(map(sum, totals.times.values())) or 1.0
    runs = max((len(t) for t in totals.times.values()), default=1)
    rows = [(n, sum(t), sum(t) / len(t), median(t), 100 * sum(t) / whole) for n, t in totals.times.items()]
    return [*rows, ("Total", whole, whole / runs, whole / runs, 100.0)]


def trtexec() -> int:
    """The program `trtexec`."""
    return execute(sys.argv[1:], "trtexec")
