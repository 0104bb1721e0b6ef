"""Pages that are tables: diagnostic codes, scalar functions, and what works."""

from __future__ import annotations

import math

from anyrt.api.convert import annotation
from anyrt.api.unfinished import signatures
from anyrt.core.codes import CODES, Code
from anyrt.core.errors import CLASSES
from anyrt.ops import OPS
from anyrt.ops._record import AnyOp, Kind
from anyrt.prims.scalar import SCALARS, ResultKind, ScalarFn
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
place of the exact result, for operands in the domain; a test measures it. 0.5 is correct rounding.

Subnormal operands and results are numbers like all others: a result below 2⁻¹²⁶ is right within its ulp,
whose unit is 2⁻¹⁴⁹ there. This, and how results are rounded, does not depend on what another library has
asked of the calling thread's processor, such as to take subnormal numbers for 0.

"""
PLATFORMS = (
    ("Linux x86-64 (AVX-512, AVX2, SSE2)", "runs, and is tested"),
    ("Linux AArch64", "machine code is emitted in tests, not run: images are made of x86-64 objects only"),
    ("macOS", "not yet, for the same reason; the thread pool and the runtime have portable fallbacks"),
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
    columns = ("function", "operands", "applies to", "result", "ulp", "domain", "note")
    return {"docs/scalar.md": head + table(columns, rows)}


def _scalar(f: ScalarFn) -> tuple[str, ...]:
    kinds = ", ".join(sorted(k.value for k in f.kinds))
    domain = "all" if math.isinf(f.domain[1]) else f"{f.domain[0]:g} … {f.domain[1]:g}"
    result = "bool" if f.result is ResultKind.BOOL else "same"
    return f"`{f.name}`", str(f.arity), kinds, result, _ulp(f), domain, f.note


def _ulp(f: ScalarFn) -> str:
    return f"{f.ulp:g}"


def works() -> str:
    """The README's tables: operators with their types and modes, what waits, platforms."""
    rows = [
        (f"[{title(op)}](docs/operators/{page_name(op)}.md)", _methods(op), _types(op), _modes(op))
        for op in OPS.values()
    ]
    waiting = ", ".join(
        f"`{name}`"
        for name in sorted(set(signatures()) - {m.name for op in OPS.values() for m in op.methods})
    )
    return (
        table(("operator", "methods", "element types", "enums of its attributes"), sorted(rows))
        + f"\nNot there yet; these methods log AR902 and answer `None`: {waiting}.\n\n"
        + table(("platform", "state"), PLATFORMS)
    )


def _methods(op: AnyOp) -> str:
    return ", ".join(f"`{m.name}`" for m in op.methods)


def _types(op: AnyOp) -> str:
    """Those of the operand that takes most."""
    return types_text(max((x.dtypes for x in op.inputs), key=len)) if op.inputs else "those of its weights"


def _modes(op: AnyOp) -> str:
    return ", ".join(f"`{annotation(s)}`" for s in op.specs() if s.kind is Kind.ENUM)
