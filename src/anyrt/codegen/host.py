"""The host program: one native call runs the whole inference.

`prepare(args)` computes every value that depends on sizes only (the slots behind those the caller fills) and the tables of
taps; `run(args)` launches the kernels in order; `step(args, k)` launches one. A launch whose estimated work is small runs in
the calling thread: waking another costs more.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyrt.codegen.emit import Frame, Machine, buffers_of, emit
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import Values
from anyrt.core.dims import Dim, Sym, maximum, mul
from anyrt.ir.kernel import Buffer, Kernel
from anyrt.plan import abi

CHUNK = 32768   # work (elements, roughly) that a thread claims at once
SERIAL = 16384  # below this a second thread does not pay


@dataclass(frozen=True, slots=True)
class Module:
    """All kernels of an engine: those that fill tables, and those of an inference in order."""

    tables: Sequence[Kernel]
    kernels: Sequence[Kernel]
    places: Mapping[Buffer, tuple[int, Dim]]
    symbols: Sequence[Sym]
    bindings: int


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
    launches = [_launch_slots(k, slots) for k in (*module.tables, *module.kernels)]
    split = len(module.tables)
    entries = [_prepare(module, launches[:split], slots, first), _run(module, launches[split:], first),
               _step(module, launches[split:], first)]
    declared = sorted(frozenset().union(*(f.declared for f in functions), *(e.declared for e in entries)))
    attributes = ['attributes #0 = { nounwind "no-builtins" }', "!0 = !{}"]
    text = "\n\n".join([*declared, *(f.text for f in functions), *(e.text for e in entries), *attributes])
    return HostText(text, len(slots))


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


def _prepare(module: Module, launches: list[tuple[str, str, str]], slots: dict[Dim, int], first: int) -> Entry:
    values = Values(False, {})
    scope = Scope()
    values.scopes.stack.append(scope)
    for n, sym in enumerate(module.symbols):
        scope.lines.append(f"  %s{n}p = getelementptr i64, ptr %args, i64 {first + n}")
        scope.lines.append(f"  %s{n} = load i64, ptr %s{n}p")
        scope.syms[sym] = f"%s{n}"
    for dim, n in list(slots.items())[len(module.symbols):]:
        value = values.dim(dim)
        scope.lines.append(f"  %d{n}p = getelementptr i64, ptr %args, i64 {first + n}")
        scope.lines.append(f"  store i64 {value}, ptr %d{n}p")
    lines = scope.lines
    for n, (kernel, (items, _, _)) in enumerate(zip(module.tables, launches, strict=True)):
        count = _read(items, lines, first, f"t{n}")
        lines.append(f"  call void @{kernel.name}(ptr %args, i64 0, i64 {count}, ptr null)")
    text = "\n".join(["define i32 @prepare(ptr %args) #0 {", *lines, "  ret i32 0", "}"])
    return Entry(text, frozenset(values.declared))


def _launch(n: int, kernel: Kernel, slots: tuple[str, str, str], first: int) -> list[str]:
    """Small work here, large work through the pool."""
    lines: list[str] = []
    items, work, chunk = (_read(o, lines, first, f"{stem}{n}_") for o, stem in zip(slots, "iwc", strict=True))
    lines += [f"  %small{n} = icmp slt i64 {work}, {SERIAL}",
              f"  br i1 %small{n}, label %here{n}, label %there{n}", f"here{n}:",
              f"  call void @{kernel.name}(ptr %args, i64 0, i64 {items}, ptr %scratch)", f"  br label %next{n}", f"there{n}:",
              f"  call void %parallel(ptr %pool, ptr @{kernel.name}, ptr %args, i64 {items}, i64 {chunk})",
              f"  br label %next{n}", f"next{n}:"]
    return lines


def _head() -> list[str]:
    return ["  %pool = load ptr, ptr %args", "  %parallel = load ptr, ptr %pool",
            f"  %scratchp = getelementptr i64, ptr %args, i64 {abi.SCRATCH}", "  %scratch = load ptr, ptr %scratchp"]


def _run(module: Module, launches: list[tuple[str, str, str]], first: int) -> Entry:
    body = [line for n, (k, s) in enumerate(zip(module.kernels, launches, strict=True)) for line in _launch(n, k, s, first)]
    return Entry("\n".join(["define i32 @run(ptr %args) #0 {", *_head(), *body, "  ret i32 0", "}"]), frozenset())


def _step(module: Module, launches: list[tuple[str, str, str]], first: int) -> Entry:
    cases = " ".join(f"i64 {n}, label %case{n}" for n in range(len(launches)))
    body = [f"  switch i64 %k, label %none [ {cases} ]"]
    for n, (k, s) in enumerate(zip(module.kernels, launches, strict=True)):
        body += [f"case{n}:", *_launch(n, k, s, first), "  ret i32 0"]
    text = ["define i32 @step(ptr %args, i64 %k) #0 {", *_head(), *body, "none:", f"  ret i32 {int(abi.Status.FAILED)}", "}"]
    return Entry("\n".join(text), frozenset())


def touched(kernel: Kernel) -> set[Buffer]:
    """Every buffer that a kernel reads or writes."""
    return buffers_of(kernel.body)
