"""Pages with tables: error codes, scalar functions, supported and missing names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from anyrt.api.derived.convert import annotation
from anyrt.api.edge.missing import LAYERS, OTHERS, REMOVED
from anyrt.core.codes import CODES, Code
from anyrt.core.errors import CLASSES
from anyrt.ops import OPS
from anyrt.ops._record import AnyOp, Kind
from anyrt.ops._types import OWN
from anyrt.prims.scalar import SCALARS, ResultKind, ScalarFn
from anyrt.prims.scalar import Kind as Numbers
from docgen.operators import NOTE, page_name, table, title, types_text

CODES_HEAD = """# Error codes

Every error has a code that does not change between versions. `anyrt codes CODE` explains a code, and
[troubleshooting.md](troubleshooting.md) shows the usual causes and fixes. By default, a method logs the error
and returns `None` or `False`. The error recorder receives the member of `ErrorCodeTRT` in the last column.
With `anyrt.strict()` or `ANYRT_STRICT=1` the method raises the class in the fifth column.

"""
COLUMNS = ("code", "title", "explanation", "what to do", "class", "reported as")
SCALARS_HEAD = """# Scalar functions

The primitive `Map` applies these functions to each element. AnyRT expands them into kernel expressions and
calls no mathematics library. *ulp* bounds the error of the float32 expansion in units of the last place of
the exact result, for operands in the domain. *ulp of double* bounds the error of float64 for all operands.
Tests measure both; 0.5 means correct rounding.

Subnormal operands and results are not flushed to zero. A float32 result below 2⁻¹²⁶ is within its bound in
units of 2⁻¹⁴⁹, a float64 result below 2⁻¹⁰²² in units of 2⁻¹⁰⁷⁴. Rounding and subnormals do not depend on
the floating-point mode that another library sets in the calling thread.

"""
MISSING_HEAD = """# Missing names

These names of TensorRT's API are not implemented. Using one raises AR902, an `AttributeError`, so `hasattr`
returns `False`. `from anyrt import CaffeParser` raises `ImportError`.

"""
REMOVED_HEAD = """
## Names of TensorRT 8.6

TensorRT 10 removed these names. Only programs that are run with `python -m anyrt.compat --api 8.6` have
them. Otherwise they raise AR903, an `AttributeError`, because programs select their branch by
`hasattr(engine, "num_bindings")`.

"""
SUPPORTED_HEAD = """# Supported layers and platforms

## Layers

The table lists each operator with the methods that add it, the element types of its main input, and the
enums of its attributes. The page of each operator has its modes, limits and errors.

"""
OWN_INTRO = (
    "AnyRT adds the element types that ONNX has and TensorRT lacks:\n"
    "{}.\n"
    "It computes them as NumPy does.\n"
    "`trt.nptype` returns the NumPy or ml_dtypes type of each."
)
MISSING_INTRO = (
    "## Names that are not supported\n\n"
    "Missing names raise `AttributeError` (AR902) with a suggested replacement; `hasattr` returns `False`.\n"
    "[missing.md](missing.md) lists every name."
)
PLATFORM_INTRO = "## Platforms"
SHOWN = 6
PLATFORMS = (
    ("Linux x86-64 (AVX-512, AVX2, SSE2)", "supported and tested"),
    (
        "Linux AArch64 (NEON)",
        "tested in emulators only. All tests of kernels pass under Unicorn (`make neon`; `make test` runs a"
        " part of them), those by SMMLA and BFMMLA with a model of these two. The demo's sentences and 200"
        " tests, chosen by the hash of their names, ran under Debian's QEMU 7.2 (`tools/arm64.py`, 8 to 22"
        " minutes): 191 passed, 9 were skipped; and so did kernels by SDOT, BFDOT, SMMLA and BFMMLA beside"
        " the interpreter",
    ),
    (
        "macOS on Apple silicon",
        "implemented but never run: code pages, one register fewer, threads that sleep in Python",
    ),
    ("Windows", "not supported"),
)


def codes() -> dict[str, str]:
    """The page of diagnostics."""
    head = NOTE.format("src/anyrt/core/codes.py") + CODES_HEAD
    return {"docs/codes.md": head + table(COLUMNS, _codes())}


def _codes() -> list[tuple[str, ...]]:
    return [(c.id, c.title, c.explanation, c.do, _error(c), f"{c.trt.name}") for c in CODES.values()]


def _error(code: Code) -> str:
    return f"`{CLASSES[code.kind].__name__}`"


def scalars() -> dict[str, str]:
    """The page of scalar functions."""
    head = NOTE.format("src/anyrt/prims/scalar/") + SCALARS_HEAD
    rows = [_scalar(f) for f in SCALARS.values()]
    columns = ("function", "operands", "applies to", "result", "ulp", "ulp of double", "domain", "note")
    return {"docs/scalar.md": head + table(columns, rows)}


def _scalar(f: ScalarFn) -> tuple[str, ...]:
    kinds = ", ".join(sorted(k.value for k in f.kinds))
    domain = "all" if math.isinf(f.domain[1]) else f"{f.domain[0]:g} … {f.domain[1]:g}"
    result = "bool" if f.result is ResultKind.BOOL else "same"
    return f"`{f.name}`", str(f.arity), kinds, result, f"{f.ulp:g}", _double_ulp(f), domain, f.note


def _double_ulp(f: ScalarFn) -> str:
    return f"{f.error(Numbers.DOUBLE)[0]:g}" if Numbers.DOUBLE in f.kinds else ""


def supported() -> dict[str, str]:
    """The page of supported operators with their types and modes, missing names, and platforms."""
    return {"docs/supported.md": NOTE.format("the operators' records") + SUPPORTED_HEAD + works()}


def works() -> str:
    """The tables of that page."""
    rows = [
        (f"[{title(op)}](operators/{page_name(op)}.md)", _methods(op), _types(op), _modes(op))
        for op in OPS.values()
    ]
    missing = [("layers", _code(_waiting())), *((t.title, _some(t.names)) for t in OTHERS)]
    return (
        table(("operator", "methods", "element types", "enums of its attributes"), sorted(rows))
        + f"\n{OWN_INTRO.format(types_text(OWN))}\n\n{MISSING_INTRO}\n\n"
        + table(("kind", "names"), missing)
        + f"\n{PLATFORM_INTRO}\n\n"
        + table(("platform", "state"), PLATFORMS)
    )


def extensions() -> str:
    """The sentences in operators' texts about behaviour that TensorRT does not document."""
    rows = [
        (f"[{title(op)}](operators/{page_name(op)}.md)", _about_extensions(op.doc)) for op in OPS.values()
    ]
    return table(("layer", "extension"), sorted(row for row in rows if row[1]))


def _about_extensions(doc: str) -> str:
    sentences = re.split(r"(?<=[.;]) ", " ".join(doc.split()))
    return " ".join(s.rstrip(";.") + "." for s in sentences if "extension" in s)


def missing() -> dict[str, str]:
    """The page of missing names."""
    layers = [(f"`{m}`", _code(LAYERS[m][0].split()), LAYERS[m][1]) for m in _waiting()]
    others = [(t.title, _code(t.names), t.do) for t in OTHERS]
    removed = [
        (f"`{'' if owner == 'anyrt' else owner + '.'}{name}`", successor)
        for owner, names in REMOVED.items()
        for name, successor in names.items()
    ]
    text = (
        NOTE.format("src/anyrt/api/edge/missing.py")
        + MISSING_HEAD
        + "## Layers\n\n"
        + table(("method", "classes", "use instead"), layers)
        + "\n## Others\n\n"
        + table(("kind", "names", "use instead"), others)
        + REMOVED_HEAD
        + table(("name", "replacement"), removed)
    )
    return {"docs/missing.md": text}


def _waiting() -> list[str]:
    """The methods of layers that no operator implements."""
    return sorted(set(LAYERS) - {m.name for op in OPS.values() for m in op.methods})


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _some(names: tuple[str, ...]) -> str:
    """The first names, and the number of the others."""
    rest = len(names) - SHOWN
    return _code(names) if rest <= 1 else f"{_code(names[:SHOWN])} and {rest} more"


def _methods(op: AnyOp) -> str:
    return ", ".join(f"`{m.name}`" for m in op.methods)


def _types(op: AnyOp) -> str:
    """The types of the operand that accepts most; required operands only, if there are any."""
    if not op.inputs:
        return "those of its weights"
    most = max((x.dtypes for x in [x for x in op.inputs if x.required] or op.inputs), key=len)
    return f"{types_text(most - OWN)}, AnyRT's own" if most >= OWN else types_text(most)


def _modes(op: AnyOp) -> str:
    return _code(dict.fromkeys(annotation(s) for s in op.specs() if s.kind is Kind.ENUM))
