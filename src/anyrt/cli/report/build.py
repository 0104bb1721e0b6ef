"""A report of a model, a script, a plan, or an engine.

write_report(report_of("model.onnx"), Path("report.html"))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

from anyrt.api.building.builder import Builder
from anyrt.cli.draw.fold import folded
from anyrt.cli.draw.picture import Picture
from anyrt.cli.draw.svg import svg
from anyrt.cli.progress import Silent
from anyrt.cli.report import facts
from anyrt.cli.report.page import page
from anyrt.cli.script import plan_source
from anyrt.compiler.verify import random_inputs, reference
from anyrt.core.dimvalues import evaluate
from anyrt.core.units import byte_count
from anyrt.onnx.parser import OnnxParser
from anyrt.onnx.reference import compare, failures, load_model, runner
from anyrt.onnx.session import network_of
from anyrt.plan.disk import write_text
from anyrt.plan.json import Json

WHOLE: Final = 40  # kernels that are drawn without folding
DRAWN: Final = 400  # kernels; placing more takes longer than the page may take to open
ROWS: Final = 4000  # errors that are listed
NOT_BUILT: Final = "not built: no drawing, kernels, times, errors or memory use; correct these problems"
RTOL, ATOL = 1e-3, 1e-4


def report_of(place: str) -> str:
    """The page of an ONNX model, FILE.py:FUNCTION or a plan; for a rejected model, its problems."""
    path = Path(place)
    model = path if path.suffix == ".onnx" else None
    problems = [] if model is None else problems_of(model)
    if problems:
        return page(path.name, {"problems": problems, "kernels": [], "layers": []}, "", [NOT_BUILT])
    built = facts.Built.of(plan_source(place))
    built.guess.warn("report", "")
    return _report(built, path.name, model)


def problems_of(path: Path) -> list[Json]:
    """The problems of a model, each with its cure."""
    network = network_of(Builder(Silent()))
    parser = OnnxParser(network, Silent())
    if parser.parse_from_file(str(path)):
        return []
    errors = [parser.get_error(i) for i in range(parser.num_errors)]
    if len(errors) == 1 and errors[0]._failure.error.code == "AR416":
        raise errors[0]._failure.error.at(str(path))
    return [{"node": e.node_name(), "operator": e.node_operator(), "problem": e.desc()} for e in errors]


def report(source: bytes | Path, title: str) -> str:
    """The page of a plan."""
    return _report(facts.Built.of(source), title)


def _report(built: facts.Built, title: str, model: Path | None = None) -> str:
    """The page of a plan; `model`: its source, which another runtime executes, too."""
    times, most = built.milliseconds(), facts.limits()
    kernels = facts.kernels(built, times, most)
    against, errors = model_errors(model, built) if model is not None else plan_errors(built)
    held: dict[str, Json] = {
        "kernels": kernels,
        "layers": facts.layers(built, kernels),
        "latencies": list(facts.latencies(built)),
        "stored": facts.not_fused(built),
        "memory": facts.memory(built),
        "constants": facts.constants(built.file),
        "against": against,
        "errors": errors[:ROWS],
    }
    notes = [
        built.picture.legend,
        f"{sum(times.values()):.4g} ms: the sum over all kernels",
        f"limits of this machine per second, measured with NumPy: {byte_count(int(1e3 * most.bytes))} of "
        f"memory, {byte_count(int(1e3 * most.near))} of caches near cores, {most.operations / 1e6:.4g} GFLOP",
    ]
    notes += [built.guess.text("")] * bool(built.guess.guessed)
    drawing, drawn_notes = drawn(built.picture, times)
    notes += drawn_notes
    return page(title, held, drawing, notes)


def drawn(picture: Picture, times: Mapping[str, float]) -> tuple[str, list[str]]:
    """The drawing of a network, with repeated blocks drawn once, and its notes."""
    shown = folded(picture) if len(picture.frames) > WHOLE else picture
    if len(shown.frames) > DRAWN:
        return "", [f"no drawing: {len(shown.frames)} kernels exceed the limit of {DRAWN}"]
    is_folded = len(shown.frames) < len(picture.frames)
    notes = [
        f"drawn: {len(shown.frames)} kernels; a kernel with ×N represents the same kernel of N equal blocks"
    ] * is_folded
    return svg(shown, (), None if is_folded else [times.get(n, 0.0) for n in shown.frames]), notes


def model_errors(path: Path, built: facts.Built) -> tuple[str, list[Json]]:
    """The difference of each node's result from that of ONNX Runtime or ONNX's reference; only of outputs if
    the model cannot return all."""
    inputs = (b for b in built.file.plan.bindings if b.is_input)
    shapes = {b.name: tuple(evaluate(d, built.sizes) for d in b.shape) for b in inputs}
    for layers in (True, False):
        try:
            model = load_model(path, layers)
            feeds = model.inputs(shapes)
            name, other = runner(None)
            outputs, expected = model.session().run(feeds), other(model, feeds)
        except failures() as error:
            note = f"no other runtime: {error}"
            continue
        rows = [compare(n, outputs[n], expected[n], RTOL, ATOL) for n in model.outputs if n in expected]
        return name, [_finite(asdict(row)) for row in rows]
    return note, []


def plan_errors(built: facts.Built) -> tuple[str, list[Json]]:
    """The difference of each output from that of the graph, computed in float64."""
    from anyrt.api.edge.interfaces import Logger
    from anyrt.api.run.runtime import Runtime
    from anyrt.core.enums import Severity

    engine = Runtime(Logger(Severity.INTERNAL_ERROR)).deserialize_cuda_engine(built.source)
    feeds = random_inputs(built.lowered.graph, built.sizes)
    outputs, graph = engine.run(**feeds), built.lowered.graph
    held = {value: feeds[name] for name, value in graph.inputs}
    rows = list[Json]()
    for name, value in graph.outputs:
        if name in outputs:
            expected = np.asarray(reference(value, held, built.sizes).array)
            rows.append(_finite(asdict(compare(name, outputs[name], expected, RTOL, ATOL))))
    return "the graph in float64", rows


def _finite(row: Mapping[str, Json]) -> Json:
    return {k: v if not isinstance(v, float) or np.isfinite(v) else str(v) for k, v in row.items()}


def write_report(text: str, path: Path) -> None:
    """Write the page to a file."""
    write_text(path, text)
