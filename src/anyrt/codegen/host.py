"""The host program: one native call runs the whole inference.

`prepare(args)` computes every value that depends on sizes only (the slots behind those the caller fills) and
the tables of taps; `run(args)` launches the kernels in order; `step(args, k)` launches one. A launch whose
estimated work is small runs in the calling thread: waking another costs more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyrt.codegen.emit import Frame, emit
from anyrt.codegen.machine import Machine
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import Values
from anyrt.codegen.writer import Writer
from anyrt.core.dims import Dim, Sym, maximum, mul
from anyrt.ir.kernel import Buffer, Kernel
from anyrt.ir.statements import buffers_of
from anyrt.plan import abi

CHUNK = 32768  # work (elements, roughly) that a thread claims at once
SERIAL = 16384  # below this a second thread does not pay


@dataclass(frozen=True, slots=True)
class Guarded:
    """The kernels of an inference in order, for sizes that make `guard` other than 0."""

    guard: Dim
    kernels: Sequence[Kernel]


@dataclass(frozen=True, slots=True)
class Module:
    """All kernels of an engine: those that fill tables, and the versions of an inference, of which the first
    whose guard holds is run."""

    tables: Sequence[Kernel]
    versions: Sequence[Guarded]
    places: Mapping[Buffer, tuple[int, Dim]]
    symbols: Sequence[Sym]
    bindings: int

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of all versions, in the order in which `step` counts them."""
        return tuple(k for v in self.versions for k in v.kernels)


@dataclass(frozen=True, slots=True)
class HostText:
    """LLVM text of a module, and how many slots it uses (the first ones are the module's symbols)."""

    text: str
    slots: int


def program(module: Module, machine: Machine) -> HostText:
    """The module as LLVM text with its three entry points."""
    slots: dict[Dim, int] = {s.dim: n for n, s in enumerate(module.symbols)}
    first = abi.slot_word(module.bindings, 0)
    frame = Frame(module.places, first)
    functions = [emit(k, frame, slots, machine) for k in (*module.tables, *module.kernels)]
    counts = [_operand(k.var.extent or 0, slots) for k in module.tables]
    versions = [
        _Version(_operand(v.guard, slots), [_Launch(k, _launch_slots(k, slots)) for k in v.kernels])
        for v in module.versions
    ]
    entries = [_prepare(module, counts, slots, first), _run(versions, first), _step(versions, first)]
    declared = sorted(frozenset().union(*(f.declared for f in functions), *(e.declared for e in entries)))
    attributes = [
        'attributes #0 = { nounwind "no-builtins" "no-jump-tables"="true" }',
        "!0 = !{}",
        "!1 = !{i32 1}",
        '!2 = !{!"branch_weights", i32 1, i32 1048576}',
    ]
    text = "\n\n".join([*declared, *(f.text for f in functions), *(e.text for e in entries), *attributes])
    return HostText(text, len(slots))


@dataclass(frozen=True, slots=True)
class _Launch:
    kernel: Kernel
    operands: tuple[str, str, str]  # items, work in all, items a thread claims at once


@dataclass(frozen=True, slots=True)
class _Version:
    guard: str
    launches: Sequence[_Launch]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry point's text and the intrinsics it declares."""

    text: str
    declared: frozenset[str]


def _launch_slots(kernel: Kernel, slots: dict[Dim, int]) -> tuple[str, str, str]:
    """Items, total work and chunk of a kernel: literals, or `slot N`."""
    items = kernel.var.extent if kernel.var.extent is not None else 0
    chunk = max(1, CHUNK // kernel.work) if isinstance(kernel.work, int) else maximum(1, CHUNK // kernel.work)
    return _operand(items, slots), _operand(mul(items, kernel.work), slots), _operand(chunk, slots)


def _operand(x: Dim, slots: dict[Dim, int]) -> str:
    return str(x) if isinstance(x, int) else f"slot {slots.setdefault(x, len(slots))}"


def _read(operand: str, lines: list[str], first: int, name: str) -> str:
    if not operand.startswith("slot "):
        return operand
    lines.append(f"  %{name}p = getelementptr i64, ptr %args, i64 {first + int(operand[5:])}")
    lines.append(f"  %{name} = load i64, ptr %{name}p")
    return f"%{name}"


def _prepare(module: Module, counts: Sequence[str], slots: dict[Dim, int], first: int) -> Entry:
    values = Values(Writer(Machine(128, has_fma=False)), {})
    scope = Scope()
    values.out.scopes.stack.append(scope)
    for n, sym in enumerate(module.symbols):
        scope.lines.append(f"  %s{n}p = getelementptr i64, ptr %args, i64 {first + n}")
        scope.lines.append(f"  %s{n} = load i64, ptr %s{n}p")
        scope.syms[sym] = f"%s{n}"
    for dim, n in list(slots.items())[len(module.symbols) :]:
        value = values.dim(dim)
        scope.lines.append(f"  %d{n}p = getelementptr i64, ptr %args, i64 {first + n}")
        scope.lines.append(f"  store i64 {value}, ptr %d{n}p")
    lines = scope.lines
    for n, (kernel, items) in enumerate(zip(module.tables, counts, strict=True)):
        count = _read(items, lines, first, f"items{n}_")
        lines.append(f"  call void @{kernel.name}(ptr %args, i64 0, i64 {count}, ptr null)")
    text = "\n".join(["define i32 @prepare(ptr %args) #0 {", *lines, "  ret i32 0", "}"])
    return Entry(text, frozenset(values.out.declared))


def _launch(n: int, launch: _Launch, first: int) -> list[str]:
    """Small work here, large work through the pool."""
    lines: list[str] = []
    items, work, chunk = (
        _read(o, lines, first, f"{stem}{n}_") for o, stem in zip(launch.operands, "iwc", strict=True)
    )
    name = launch.kernel.name
    lines += [
        f"  %small{n} = icmp slt i64 {work}, {SERIAL}",
        f"  br i1 %small{n}, label %here{n}, label %there{n}",
        f"here{n}:",
        f"  call void @{name}(ptr %args, i64 0, i64 {items}, ptr %scratch)",
        f"  br label %next{n}",
        f"there{n}:",
        f"  call void %parallel(ptr %pool, ptr @{name}, ptr %args, i64 {items}, i64 {chunk})",
        f"  br label %next{n}",
        f"next{n}:",
    ]
    return lines


def _guard(n: int, version: _Version, first: int, then: str, otherwise: str) -> list[str]:
    """Jump to `then` when the version's guard holds."""
    lines: list[str] = []
    flag = _read(version.guard, lines, first, f"g{n}")
    return [
        *lines,
        f"  %yes{n} = icmp ne i64 {flag}, 0",
        f"  br i1 %yes{n}, label %{then}, label %{otherwise}",
    ]


def _head() -> list[str]:
    return [
        "  %pool = load ptr, ptr %args",
        "  %parallel = load ptr, ptr %pool",
        f"  %scratchp = getelementptr i64, ptr %args, i64 {abi.SCRATCH}",
        "  %scratch = load ptr, ptr %scratchp",
    ]


def _run(versions: Sequence[_Version], first: int) -> Entry:
    """The first version whose guard holds."""
    body, count = ["  br label %try0"], 0
    for n, version in enumerate(versions):
        body += [f"try{n}:", *_guard(n, version, first, f"version{n}", f"try{n + 1}"), f"version{n}:"]
        for launch in version.launches:
            body += _launch(count, launch, first)
            count += 1
        body.append("  ret i32 0")
    end = [f"try{len(versions)}:", f"  ret i32 {int(abi.Status.FAILED)}", "}"]
    return Entry("\n".join(["define i32 @run(ptr %args) #0 {", *_head(), *body, *end]), frozenset())


def _step(versions: Sequence[_Version], first: int) -> Entry:
    """Kernel number k; one of a version whose guard does not hold does nothing."""
    flat = [(n, v, x) for n, v in enumerate(versions) for x in v.launches]
    cases = " ".join(f"i64 {k}, label %case{k}" for k in range(len(flat)))
    body = [f"  switch i64 %k, label %none [ {cases} ]"]
    for k, (n, version, launch) in enumerate(flat):
        earlier = [f"try{k}_{m}" for m in range(n)]
        body.append(f"case{k}:")
        for m, label in enumerate(earlier):  # not the first whose guard holds
            body += _guard(10000 * (k + 1) + m, versions[m], first, f"skip{k}", label)
            body.append(f"{label}:")
        body += _guard(k, version, first, f"go{k}", f"skip{k}")
        body += [f"go{k}:", *_launch(k, launch, first), "  ret i32 0", f"skip{k}:", "  ret i32 0"]
    text = [
        "define i32 @step(ptr %args, i64 %k) #0 {",
        *_head(),
        *body,
        "none:",
        f"  ret i32 {int(abi.Status.FAILED)}",
        "}",
    ]
    return Entry("\n".join(text), frozenset())


def touched(kernel: Kernel) -> set[Buffer]:
    """Every buffer that a kernel reads or writes."""
    return buffers_of(kernel.body)
