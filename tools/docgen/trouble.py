"""The page of errors by code: meaning, the message that a test provokes, and the cure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from anyrt.core.codes import CODES, Code
from anyrt.core.errors import CLASSES
from docgen.operators import NOTE

MESSAGES = Path(__file__).resolve().parents[2] / "tests" / "e2e" / "messages.txt"
HEAD = """# Troubleshooting

What to do about an error, by its code. The examples are messages that tests provoke; `N` stands for a number
that differs from run to run. `anyrt codes CODE` prints the entry of a code.

## How to read a message

```text
[AR501] x (net.py:12): got shape (-1,) and no profile, wanted a profile; call profile.set_shape(…)
 code   place          what was passed                what is accepted   what to do
```

The place names the layer or tensor, and the line of your program that created it, if it is known.

## A method returned None or False

As in TensorRT, methods log an error and return `None` or `False`. To get an exception with a traceback, set
`ANYRT_STRICT=1`, or use `with anyrt.strict():` around the call. If nothing is logged, the severity of the
logger is too high: use `trt.Logger(trt.Logger.WARNING)`.

## The program runs, but results are wrong

1. `anyrt compare model.onnx --layers` names the first tensor that differs from ONNX Runtime.
2. `ANYRT_VERIFY=full` compares each kernel with an interpreter during the build (AR805).
3. `ANYRT_CHECKED=1` checks every access to memory (AR810), also those of plug-ins (AR825).
4. `BuilderFlag.FP16`, `BF16` and `INT8` allow less precise results; build without them to compare.
5. In int8, look at the calibration cache: a range of 0 or of infinity ruins a layer.

## The build or the load is slow

See [tuning.md](tuning.md#the-cache-of-compiled-code). A warning that begins with `kernel cache not used` or
`kernel cache not written` says why the cache does not help ([deploying.md](deploying.md)).

## A report of an internal error

AR805, AR807, AR808 and AR810 are errors in AnyRT. Report the message, the output of `anyrt info`, and the
network: the ONNX file, or the program that builds it.
"""
FAMILIES = {
    "1": "AR1xx: shapes",
    "2": "AR2xx: element types",
    "3": "AR3xx: arguments and attributes",
    "4": "AR4xx: the network or model",
    "5": "AR5xx: optimization profiles",
    "6": "AR6xx: plans",
    "7": "AR7xx: addresses and arrays of an inference",
    "8": "AR8xx: resources, internal errors, plug-ins, refitting",
    "9": "AR9xx: features that are not supported",
}


def pages() -> dict[str, str]:
    """Path and text of the page."""
    lines = NOTE.format("src/anyrt/core/codes.py and tests/e2e/messages.txt") + HEAD
    lines_of_codes = [line for line in MESSAGES.read_text(encoding="utf-8").splitlines() if "\t" not in line]
    examples = {line[1:6]: line for line in lines_of_codes}
    for digit, codes in groupby(sorted(CODES.values(), key=lambda c: c.id), lambda c: c.id[2]):
        lines += f"\n## {FAMILIES[digit]}\n"
        lines += "".join("\n" + "".join(_entry(code, examples.get(code.id))) for code in codes)
    return {"docs/troubleshooting.md": lines}


def _entry(code: Code, example: str | None) -> Iterator[str]:
    yield f"### {code.id}: {code.title}\n\n{code.explanation}. (`{CLASSES[code.kind].__name__}`)\n\n"
    if example is not None:
        yield f"```text\n{example}\n```\n\n"
    yield f"What to do: {code.do}.\n"
