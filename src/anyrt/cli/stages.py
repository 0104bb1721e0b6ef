"""The stages of a plan as text, whole or for one node: graph, kernels, the steps of their loops, host
program, LLVM text, assembly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from anyrt.backends import loader
from anyrt.codegen import llvm
from anyrt.codegen.llvmtext import symbol
from anyrt.compiler import native
from anyrt.core.dimtext import print_dim
from anyrt.core.errors import ArgumentError
from anyrt.ir.graph import Graph, Value, users, walk
from anyrt.ir.kernel import Kernel
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.program import print_call, print_module
from anyrt.ir.rewrite import Fail
from anyrt.ir.text import print_graph
from anyrt.prims.table import named_blobs, vocabulary
from anyrt.schedule.launch import Launch, Schedule
from anyrt.schedule.step import Trace
from anyrt.schedule.versions import versions

FEW = 6  # names that are listed in full
NEAREST = 3  # names that are suggested
NO_KERNEL = "(no kernel: this is an input or a constant, or no output depends on it)\n"


@dataclass(frozen=True, slots=True)
class Stages:
    """A lowered plan, or the part of it for `node`: the name of a layer or input, or a part of several."""

    lowered: native.Lowered
    target: native.Target
    node: str | None = None

    def graph(self) -> str:
        """The graph, or the values of the node."""
        graph = self.lowered.graph
        text = print_graph(graph, vocabulary(named_blobs(graph)))
        if self.node is None:
            return text
        nodes = dict.fromkeys(v.node for v in walk(v for _, v in (*graph.inputs, *graph.outputs)))
        mine = {v.node for v in values_of(graph, self.node)}
        kept = {f"v{k}" for k, node in enumerate(nodes) if node in mine}
        statements = re.split(r"\n(?![ }])", text)  # regions take more lines
        return "".join(f"{s}\n" for s in statements if s.split(":", 1)[0] in kept)

    def kernels(self) -> str:
        """The kernels that compute the node, after fusing; first those that fill tables of taps.

        If sizes may broadcast in several ways there are several versions, each with its guard.
        """
        tables = [] if self.node else self.lowered.module.tables
        parts = [print_kernels(tables)] if tables else []
        for heading, _, launches in self._versions():
            parts += [heading] if heading else []
            parts.append(print_kernels([x.kernel for x in launches]) if launches else NO_KERNEL)
        return "\n".join(parts)

    def loops(self) -> str:
        """The same kernels after each step of their strategies, with the reasons of steps that did not
        apply."""
        return self._traced(lambda trace: trace)

    def steps(self) -> str:
        """The same for applied steps only."""
        return self._traced(lambda trace: [t for t in trace if isinstance(t.result, Kernel)])

    def _traced(self, shown: Callable[[Sequence[Trace]], Sequence[Trace]]) -> str:
        parts: list[str] = []
        for heading, schedule, launches in self._versions():
            parts += [heading] if heading else []
            parts += ["".join(_steps(shown(schedule.trace(x)))) for x in launches] or [NO_KERNEL]
        return "\n".join(parts)

    def program(self) -> str:
        """The host program: the calls of kernels with their buffers and guards."""
        if self.node is None:
            return print_module(self.lowered.module)
        return "".join(f"{print_call(x.call)}\n" for _, _, launches in self._versions() for x in launches)

    def llvm(self) -> str:
        """The LLVM text of these kernels, before LLVM's own passes."""
        text = native.text(self.lowered, self.target)
        if self.node is None:
            return text + "\n"
        called, shared = self._names()
        patterns = [rf"^define [^\n]*@{re.escape(symbol(name))}\(.*?^}}$" for name in called]
        return _matches(text, patterns + [rf"^@{re.escape(symbol(name))} = alias [^\n]*$" for name in shared])

    def assembly(self) -> str:
        """Their assembly, after LLVM's own passes."""
        text = native.text(self.lowered, self.target)
        if self.node is None:
            return self.target.assembly(text)
        called, shared = ([llvm.quoted(x) for x in names] for names in self._names())
        assembly = self.target.assembly(text)
        codes = assembly_of(assembly)
        aliases = _matches(assembly, [rf'^"?{re.escape(name)}"? = [^\n]*$' for name in shared])
        return "".join(f"{codes[name]}\n\n" for name in called if name in codes) + aliases

    def _versions(self) -> Iterator[tuple[str, Schedule, list[Launch]]]:
        """Each version with its heading, if there are several, and the kernels of the node."""
        variants = versions(self.lowered.graph)
        for version, schedule in zip(variants, self.lowered.schedules, strict=True):
            heading = f"version for {print_dim(version.guard)}\n" if len(variants) > 1 else ""
            mine = None if self.node is None else _own(version.graph, self.node)
            launches = schedule.launches
            yield (
                heading,
                schedule,
                [x for x in launches if mine is None or mine.intersection((*x.makes, *x.inlined))],
            )

    def _names(self) -> tuple[list[str], list[str]]:
        """The functions of the node, with the name of the first call of each, and the other names."""
        calls = [x.call for _, _, launches in self._versions() for x in launches]
        functions = dict.fromkeys(c.kernel.name for c in calls)
        return [*functions], [c.name for c in calls if c.name not in functions]


def assembly_of(assembly: str) -> dict[str, str]:
    """The assembly of each function, by its name as `llvm.quoted` returns it."""
    codes = re.finditer(r"^\t\.type\t(.+),[@%]function\n(\1:[\s\S]*?^\t\.size\t\1,.*$)", assembly, re.M)
    return {re.sub(r'^"(.*)"$', r"\1", code[1]): code[2] for code in codes}


def _matches(text: str, patterns: Iterable[str]) -> str:
    matches = (re.search(p, text, re.M | re.S) for p in patterns)
    return "".join(f"{match[0]}\n\n" for match in matches if match is not None)


def _steps(trace: Sequence[Trace]) -> Iterator[str]:
    """The declarations, then for each step its name with the kernel after it, or the reason."""
    whole = print_kernels([step.result for step in trace if isinstance(step.result, Kernel)])
    first, *kernels = re.split(r"(?<=^}\n)", whole, flags=re.M)
    declared, kernel = re.split(r"^(?=kernel )", first, flags=re.M)
    kernels.insert(0, kernel)
    yield declared
    for step in trace:
        if isinstance(step.result, Fail):
            yield f"# {step.step}: {step.result.reason}\n"
        else:
            yield f"# {step.step}\n{kernels.pop(0)}"


def names_of(graph: Graph) -> list[str]:
    """The valid names: layers and inputs, in the order of the graph."""
    order = walk([v for _, v in (*graph.inputs, *graph.outputs)])
    return list(dict.fromkeys(graph.names[v] for v in order if v in graph.names))


def named_like(graph: Graph, part: str) -> list[str]:
    """The layer or input of this name, otherwise all whose names contain it, in the order of the graph."""
    names = names_of(graph)
    matches = [n for n in names if n == part] or [n for n in names if part.lower() in n.lower()]
    if matches:
        return matches
    if len(names) <= FEW:
        raise ArgumentError("AR304", "--node", repr(part), f"one of {', '.join(names)}")
    near = get_close_matches(part, names, NEAREST, cutoff=0.0)
    wanted = f"a part of one of the {len(names)} names"
    raise ArgumentError("AR304", "--node", repr(part), wanted, f"try {', '.join(near)}")


def values_of(graph: Graph, part: str) -> frozenset[Value]:
    """The values of the layers that `part` names: those with their names, and the unnamed ones that they
    depend on."""
    names = set(named_like(graph, part))
    todo = [v for v, name in graph.names.items() if name in names]
    values: set[Value] = set()
    while todo:
        value = todo.pop()
        if value not in values:
            values.add(value)
            todo += [a for a in value.args if a not in graph.names]
    return frozenset(values)


def _own(graph: Graph, part: str) -> frozenset[Value]:
    """The same without values that other layers also depend on."""
    mine, uses = set(values_of(graph, part)), users(graph)
    for value in reversed(list(walk(mine))):
        if value in mine and value not in graph.names and not mine.issuperset(uses.get(value, ())):
            mine.remove(value)
    return frozenset(mine)


def choose_target(level: str | None) -> native.Target:
    """The host, or the baseline processor of a level, which this machine need not support."""
    return loader.target().named(level)
