"""Pages that are tables: diagnostic codes, scalar functions, and what works."""

from __future__ import annotations

import math
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

CODES_HEAD = """# Diagnostics

Every error has a code that stays the same between versions. `anyrt codes CODE` explains one.
`anyrt.strict()` or `ANYRT_STRICT=1` raises errors. Otherwise the API logs them, reports them to the error
recorder as the member of `ErrorCodeTRT` in the last column, and answers `None` or `False`.

"""
COLUMNS = ("code", "title", "explanation", "what to do", "class", "reported as")
SCALARS_HEAD = """# Scalar functions

What the primitive `Map` applies to elements. Native code computes them by expansion into kernel expressions,
without calling a mathematics library. *ulp* bounds the error of the float32 expansion in units of the last
place of the exact result, for operands in the domain, and *ulp of double* that of float64, which is computed
in float64, for all operands; tests measure both. 0.5 is correct rounding.

Subnormal operands and results are numbers like all others: a result below 2⁻¹²⁶ is right within its ulp,
whose unit is 2⁻¹⁴⁹ there; of float64, 2⁻¹⁰²² and 2⁻¹⁰⁷⁴. This, and how results are rounded, does not depend
on what another library has asked of the calling thread's processor, such as to take subnormal numbers for 0.

"""
MISSING_HEAD = """# What is missing

Names of TensorRT's API that are not there yet. Asking for one raises AR902, an `AttributeError`: `hasattr`
answers `False`, and `from anyrt import CaffeParser` is an `ImportError`.

"""
REMOVED_HEAD = """
## Names of TensorRT 8.6

These exist, and work, in programs that are run by `python -m anyrt.compat --api 8.6`. Elsewhere they raise
AR903, an `AttributeError`, as programs choose their branch by `hasattr(engine, "num_bindings")`.

"""
MISSING_INTRO = (
    "What is missing looks absent to `hasattr` and says what to do instead when it is asked for (AR902);\n"
    "[docs/missing.md](docs/missing.md) lists every name."
)
OWN_INTRO = (
    "AnyRT's own element types are those that ONNX has and TensorRT has not, computed as NumPy does:\n"
    "{}.\n"
    "`trt.nptype` gives the NumPy or ml_dtypes type of each."
)
SHOWN = 6
PLATFORMS = (
    ("Linux x86-64 (AVX-512, AVX2, SSE2)", "runs, and is tested"),
    (
        "Linux AArch64 (NEON)",
        "runs, on emulators so far: all tests of kernels under Unicorn (`make neon`; a part of them is in"
        " `make test`), the demo's sentences and 200 tests chosen by the hash of their names under Debian's"
        " QEMU 7.2 (`tools/arm64.py`, 8 to 22 minutes): 191 passed, 9 were skipped",
    ),
    (
        "macOS on Apple silicon",
        "written, never run: pages of code, a register less, threads that sleep in Python",
    ),
    ("Windows", "later"),
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


def works() -> str:
    """The README's tables: operators with their types and modes, what waits, platforms."""
    rows = [
        (f"[{title(op)}](docs/operators/{page_name(op)}.md)", _methods(op), _types(op), _modes(op))
        for op in OPS.values()
    ]
    missing = [("layers", _code(_waiting())), *((t.title, _some(t.names)) for t in OTHERS)]
    return (
        table(("operator", "methods", "element types", "enums of its attributes"), sorted(rows))
        + f"\n{OWN_INTRO.format(types_text(OWN))}\n\n{MISSING_INTRO}\n\n"
        + table(("not there yet", "names"), missing)
        + "\n"
        + table(("platform", "state"), PLATFORMS)
    )


def missing() -> dict[str, str]:
    """The page of names that are missing."""
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
        + table(("method", "its classes", "instead"), layers)
        + "\n## Others\n\n"
        + table(("for", "names", "instead"), others)
        + REMOVED_HEAD
        + table(("name", "its successor"), removed)
    )
    return {"docs/missing.md": text}


def _waiting() -> list[str]:
    """The methods of layers that have no operator."""
    return sorted(set(LAYERS) - {m.name for op in OPS.values() for m in op.methods})


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _some(names: tuple[str, ...]) -> str:
    """The first names, and how many there are besides."""
    rest = len(names) - SHOWN
    return _code(names) if rest <= 1 else f"{_code(names[:SHOWN])} and {rest} more"


def _methods(op: AnyOp) -> str:
    return ", ".join(f"`{m.name}`" for m in op.methods)


def _types(op: AnyOp) -> str:
    """Those of the operand that takes most, of those that must be there where any must."""
    if not op.inputs:
        return "those of its weights"
    most = max((x.dtypes for x in [x for x in op.inputs if x.required] or op.inputs), key=len)
    return f"{types_text(most - OWN)}, AnyRT's own" if most >= OWN else types_text(most)


def _modes(op: AnyOp) -> str:
    return _code(dict.fromkeys(annotation(s) for s in op.specs() if s.kind is Kind.ENUM))
