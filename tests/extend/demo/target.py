"""A backend in one folder: a strategy, a C code generator, and the code that compiles and calls the result.

Kernels stay serial loops; only the loops of maps are merged. All backends share the walk over the host
program (backends/steps.py).
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from anyrt.backends.steps import run
from anyrt.codegen.target import Answer, Job
from anyrt.core.dims import Dim, Sym
from anyrt.core.dimtext import print_dim
from anyrt.core.errors import NotSupportedError
from anyrt.core.machine import Machine
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Cast,
    Const,
    Expr,
    Fold,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Stmt,
    Store,
)
from anyrt.ir.prim import Array
from anyrt.ir.statements import loops
from anyrt.loops.collapse import collapse
from anyrt.schedule.step import Step, Strategies

TYPES = {
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.I32: "int32_t",
    Scalar.I64: "int64_t",
    Scalar.BOOL: "bool",
}
OPERATORS = {
    Op.ADD: "+",
    Op.SUB: "-",
    Op.MUL: "*",
    Op.DIV: "/",
    Op.LT: "<",
    Op.LE: "<=",
    Op.EQ: "==",
    Op.AND: "&",
    Op.OR: "|",
}
FUNCTIONS = {Op.MIN: "min_", Op.MAX: "max_", Op.SQRT: "std::sqrt", Op.ABS: "std::abs", Op.NEG: "-"}
PRELUDE = """#include <cmath>
#include <cstdint>
template <class T> static T min_(T a, T b) { return a != a || a < b ? a : b; }
template <class T> static T max_(T a, T b) { return a != a || a > b ? a : b; }
static int64_t floordiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static int64_t mod(int64_t a, int64_t b) { return a - floordiv(a, b) * b; }
static int64_t min(int64_t a, int64_t b) { return min_(a, b); }
static int64_t max(int64_t a, int64_t b) { return max_(a, b); }
"""


class DemoTarget:
    """Kernels in C."""

    intrinsics = ()  # the kernels of its strategies use none
    strategies = Strategies({"map": (Step("collapse", lambda kernel, c: collapse(kernel, c.names)),)})

    def limited(self, machine: Machine) -> Machine:
        """C has every feature that kernels use, so there is nothing to limit."""
        return machine

    def run(self, job: Job, feeds: Mapping[str, Array]) -> Answer:
        """The outputs."""
        inner = sum(1 for k in job.kernels for _ in loops(k.body))
        return Answer(run(job, feeds, call), f"kernels in C: {len(job.kernels)}, loops of items: {inner}")


def call(kernel: Kernel, memory: Mapping[Buffer, Array], sizes: Mapping[str, int]) -> None:
    """Run a kernel whose loops have known lengths."""
    text = "".join(f"{line}\n" for line in written(kernel, memory))
    compiled(PRELUDE + text)(*(ctypes.c_void_p(x.ctypes.data) for x in memory.values()))


@cache
def compiled(text: str) -> ctypes._NamedFuncPointer:
    """The compiled function of a text."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "kernel.so")
        words = ("c++", "-x", "c++", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-", "-o", str(library))
        subprocess.run(words, input=text, text=True, check=True)
        return ctypes.CDLL(str(library)).kernel


def written(kernel: Kernel, memory: Iterable[Buffer]) -> Iterator[str]:
    """A function in C, line by line."""
    yield f'extern "C" void kernel({", ".join(f"{TYPES[b.stored]} *{b.name}" for b in memory)}) {{'
    yield from loop(For(kernel.var, None, kernel.body))
    yield "}"


def statement(stmt: Stmt) -> Iterator[str]:
    """A statement in C."""
    match stmt:
        case For():
            yield from loop(stmt)
        case If(condition=condition, body=body):
            yield from (f"if ({value(condition)}) {{", *block(body), "}")
        case Let(var=var, value=size):
            yield f"int64_t {name(var)} = {place(size)};"
        case Alloc(buffer=buffer, value=first):
            assert buffer.space is Space.REGISTER
            assert buffer.size == 1
            yield f"{TYPES[buffer.stored]} {buffer.name}[1] = {{{value(first)}}};"
        case Store(buffer=buffer, index=at, value=x):
            yield f"{buffer.name}[{place(at)}] = {value(x)};"
        case Fold(buffer=buffer, op=op, value=x, index=at):
            element = f"{buffer.name}[{place(at)}]"
            yield f"{element} = {applied(op, (element, value(x)))};"
        case _:
            raise NotSupportedError(
                "AR901", "backend demo", got=type(stmt).__name__, wanted="loops and stores"
            )


def loop(stmt: For) -> Iterator[str]:
    """A loop in C, its iterations one after the other."""
    i = name(stmt.var)
    yield f"for (int64_t {i} = 0; {i} < {place(stmt.var.extent or 0)}; {i}++) {{"
    yield from block(stmt.body)
    yield "}"


def block(body: Iterable[Stmt]) -> Iterator[str]:
    """Statements in order."""
    for stmt in body:
        yield from statement(stmt)


def value(x: Expr) -> str:
    """An expression in C."""
    match x:
        case Const(value=number, type=type):
            literal = float(number).hex() if type.is_float else str(int(number))
            return f"({TYPES[type]}){literal}"
        case Index(dim=dim):
            return f"(int64_t)({place(dim)})"
        case Load(buffer=buffer, index=at, word=False):
            return f"{buffer.name}[{place(at)}]"
        case Cast(arg=arg, type=type):
            return f"({TYPES[type]})({value(arg)})"
        case Alu(op=Op.SELECT, args=(condition, then, otherwise)):
            return f"({value(condition)} ? {value(then)} : {value(otherwise)})"
        case Alu(op=op, args=args):
            return applied(op, tuple(map(value, args)))
    raise NotSupportedError("AR901", "backend demo", got=repr(x), wanted="an element")


def applied(op: Op, args: tuple[str, ...]) -> str:
    """An instruction in C."""
    if op in OPERATORS:
        return f"({OPERATORS[op].join(args)})"
    if op in FUNCTIONS:
        return f"{FUNCTIONS[op]}({', '.join(args)})"
    raise NotSupportedError("AR901", "backend demo", got=op.value, wanted="arithmetic")


def place(size: Dim) -> str:
    """A dimension in C, whose functions are defined in the text."""
    return print_dim(size, name)


def name(sym: Sym) -> str:
    """A variable."""
    return f"i_{sym.name.replace('.', '_')}"
