"""Runs ONNX's backend tests through parser, plan, engine and context, and writes docs/onnx.md.

python tools/onnx_report.py                    every test; docs/onnx.md
python tools/onnx_report.py --only resize -v   those whose name contains it, with their failures
python tools/onnx_report.py --op Resize -v     those that contain the operator
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from anyrt.plan.disk import write_text

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
SUITE = 2033
PARTS = 16
LIMIT = 120  # seconds for a test


@dataclass(frozen=True, slots=True)
class Test:
    """A model, its inputs, and its expected outputs."""

    name: str
    kind: str
    model: onnx.ModelProto
    data: list[tuple[list[object], list[object]]]
    rtol: float
    atol: float

    @property
    def ops(self) -> list[str]:
        return list(dict.fromkeys(n.op_type for n in self.model.graph.node))


@dataclass(slots=True)
class Result:
    """The result of a test: "pass", or the reason."""

    name: str
    kind: str
    ops: list[str]
    opset: int
    types: list[str]
    anyrt: str = ""
    ort: str = ""


def tests() -> Iterator[Test]:
    """All tests of the suite in the package."""
    from onnx.backend.test.loader import load_model_tests

    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            if case.model is not None:
                data = [(_arrays(inputs), _arrays(outputs)) for inputs, outputs in case.data_sets or []]
                yield Test(case.name, kind, case.model, data, case.rtol, case.atol)
            elif case.model_dir and Path(case.model_dir, "model.onnx").exists():
                model = onnx.load(Path(case.model_dir, "model.onnx"))
                data = [_folder(model, p) for p in sorted(Path(case.model_dir).glob("test_data_set_*"))]
                yield Test(case.name, kind, model, data, case.rtol, case.atol)


def _arrays(values: object) -> list[object]:
    """Tensors as arrays; some tests store them as messages."""
    return [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in values]


def _folder(model: onnx.ModelProto, folder: Path) -> tuple[list[object], list[object]]:
    def read(stem: str, values: object) -> list[object]:
        out = []
        for i, value in enumerate(values):
            path = folder / f"{stem}_{i}.pb"
            if not path.exists():
                break
            proto = onnx.SequenceProto() if value.type.HasField("sequence_type") else onnx.TensorProto()
            proto.ParseFromString(path.read_bytes())
            out.append(
                numpy_helper.to_list(proto)
                if isinstance(proto, onnx.SequenceProto)
                else numpy_helper.to_array(proto)
            )
        return out

    return read("input", model.graph.input), read("output", model.graph.output)


def wrong(got: object, expected: object, rtol: float, atol: float) -> str:
    """How an output differs from the expected one; "" if it does not."""
    if not isinstance(expected, np.ndarray | np.generic) or not isinstance(got, np.ndarray):
        return f"a {type(got).__name__} for a {type(expected).__name__}"
    if got.dtype != expected.dtype:
        return f"type {got.dtype} for {expected.dtype}"
    if got.shape != expected.shape:
        return f"shape {got.shape} for {expected.shape}"
    if got.dtype.kind in "biu":
        return "" if np.array_equal(got, expected) else f"other integers: {_few(got)} for {_few(expected)}"
    if got.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # two units in the last place, as the suite's own runner permits
    a, b = got.astype(np.float64), np.asarray(expected).astype(np.float64)
    if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        return ""
    with np.errstate(all="ignore"):
        return f"largest difference {np.nanmax(np.abs(a - b)):.3g}: {_few(a)} for {_few(b)}"


def _few(x: np.ndarray) -> str:
    return np.array2string(x.reshape(-1)[:6], precision=4)


def tried(run: object, test: Test) -> str:
    """ "pass", or the reason."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"more than {LIMIT} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    try:
        for inputs, outputs in test.data:
            got = run(test.model, list(inputs))
            if len(got) != len(outputs):
                return f"{len(got)} outputs for {len(outputs)}"
            for name, g, w in zip((o.name for o in test.model.graph.output), got, outputs, strict=True):
                if reported := wrong(g, w, test.rtol, test.atol):
                    return f"{name}: {reported}"
    except Exception as error:  # any failure of a test becomes a line of the report
        if os.environ.get("TRACE"):
            traceback.print_exc()
        return f"{type(error).__name__}: {error}".splitlines()[0][:300]
    finally:
        signal.alarm(0)
    return "pass" if test.data else "no data"


def anyrt_run(model: onnx.ModelProto, inputs: list[object]) -> list[object]:
    from anyrt.onnx.backend import prepare

    return list(prepare(model).run(inputs))


def ort_run(model: onnx.ModelProto, inputs: list[object]) -> list[object]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    feed = dict(zip((i.name for i in session.get_inputs()), inputs, strict=False))
    return session.run(None, feed)


def judged(test: Test, ort: bool) -> Result:
    """The test's line of the report."""
    opset = next((o.version for o in test.model.opset_import if o.domain in ("", "ai.onnx")), 0)
    types = sorted(
        {onnx.TensorProto.DataType.Name(v.type.tensor_type.elem_type).lower() for v in test.model.graph.input}
    )
    out = Result(test.name, test.kind, test.ops, opset, types)
    out.anyrt = tried(anyrt_run, test)
    out.ort = tried(ort_run, test) if ort else ""
    return out


def main() -> None:
    """Run the tests that the command line selects."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--op", default="", help="tests that contain this operator")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th test from the i-th on")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--ort", action="store_true", help="run ONNX Runtime, too")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes, for all tests (default: 1)")
    parser.add_argument("--markdown", type=Path, help="with --jobs: write the page to this file")
    parser.add_argument("-v", action="store_true", help="show failures")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    first, step = map(int, options.part.split("/"))
    if options.jobs > 1:
        results = _parts(options.jobs, options.ort)
        _print_counts(results, options.ort)
        if options.markdown:
            write_text(options.markdown, page(results))
        return
    results = []
    for number, test in enumerate(tests()):
        if (
            number % step != first
            or options.only not in test.name
            or (options.op and options.op not in test.ops)
        ):
            continue
        result = judged(test, options.ort)
        results.append(result)
        if options.v and result.anyrt != "pass":
            print(f"{result.name}: {result.anyrt}", flush=True)
    _print_counts(results, options.ort)
    if options.json:
        write_text(Path(options.json), json.dumps([asdict(r) for r in results]))


def _print_counts(results: list[Result], ort: bool) -> None:
    ours, theirs = (sum(getattr(r, who) == "pass" for r in results) for who in ("anyrt", "ort"))
    print(f"{ours} of {len(results)} pass" + (f"; ONNX Runtime: {theirs}" if ort else ""))


def _parts(jobs: int, ort: bool) -> list[Result]:
    """All tests, in separate processes, because a test may crash its process."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{i}.json") for i in range(PARTS)]
        words = [
            [sys.executable, __file__, "--part", f"{i}/{PARTS}", "--json", str(f), *["--ort"] * ort]
            for i, f in enumerate(files)
        ]
        with ThreadPoolExecutor(jobs) as pool:
            for number, done in enumerate(pool.map(lambda w: subprocess.run(w, capture_output=True), words)):
                output = done.stdout.decode().strip() or done.stderr.decode()[-300:]
                print(f"part {number + 1} of {PARTS}: {output}", flush=True)
        results = [Result(**row) for f in files if f.exists() for row in json.loads(f.read_text())]
    return sorted(results, key=lambda r: (KINDS.index(r.kind), r.name))


def page(results: list[Result]) -> str:
    """The page docs/onnx.md."""
    import onnxruntime

    import anyrt

    ours, theirs = (sum(getattr(r, who) == "pass" for r in results) for who in ("anyrt", "ort"))
    missing = SUITE - len(results)
    lines = [
        "# ONNX\n",
        "<!-- Generated by `make onnx-report`. -->\n",
        f"This page lists which tests of onnx {onnx.__version__}'s backend suite pass. The suite has"
        f" {SUITE} tests; {missing} of them need\nmodels from the network and were not run. Each test runs"
        " the parser, the builder, the engine and a context.\n",
        "| | pass |\n| --- | --- |",
        f"| AnyRT {anyrt.__anyrt_version__} | **{ours}** |",
        f"| ONNX Runtime {onnxruntime.__version__}, in the same run | {theirs} |\n",
        "## By operator\n",
        "A test counts for the operator in its name, or else for each operator in its model.\n",
        "| operator | operator sets | types of inputs | pass | ONNX Runtime |",
        "| --- | --- | --- | --- | --- |",
    ]
    by_op: dict[str, list[Result]] = {}
    for r in results:
        for op in subjects(r):
            by_op.setdefault(op, []).append(r)
    for op, rows in sorted(by_op.items()):
        sets = ", ".join(map(str, sorted({r.opset for r in rows})))
        types = ", ".join(sorted({t for r in rows for t in r.types if t != "undefined"}))
        counts = [
            f"{sum(getattr(r, who) == 'pass' for r in rows)} of {len(rows)}" for who in ("anyrt", "ort")
        ]
        lines.append(f"| {op} | {sets} | {types} | {counts[0]} | {counts[1]} |")
    lines += ["\n## Tests that do not pass\n", "| test | reason | ONNX Runtime |", "| --- | --- | --- |"]
    for r in results:
        if r.anyrt != "pass":
            lines.append(f"| {r.name} | {_why(r.anyrt)} | {'passes' if r.ort == 'pass' else 'fails'} |")
    return "\n".join(lines) + "\n"


def subjects(result: Result) -> list[str]:
    """The operators that a test is about."""
    if result.kind != "node" or result.name.endswith("_expanded") or "_expanded_" in result.name:
        name = result.name.removeprefix("test_").partition("_")[0].lower()
        return [op for op in result.ops if op.lower() == name] or ["functions and models"]
    return result.ops[:1] or ["none"]


def _why(text: str) -> str:
    """The reason in one short cell."""
    return re.sub(r" \(onnx_report\.py:\d+\)", "", text).replace("|", "/")[:160]


if __name__ == "__main__":
    main()
    sys.exit()
