"""A summary of a network: its layers, the kernels that compute them, and the fusions that failed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Final

from anyrt.cli.guess import Guess
from anyrt.cli.show import print_heading, print_table, print_text
from anyrt.cli.stages import Stages, named_like
from anyrt.compiler.cached import build_seconds
from anyrt.compiler.report import build_report
from anyrt.core.dimtext import print_dim
from anyrt.core.dtype import short_name
from anyrt.core.units import byte_count, counted
from anyrt.ir.graph import Value
from anyrt.plan.json import Json
from anyrt.plan.plan import Plan
from anyrt.plan.report import KernelTraffic, Report, parse_report, short_text
from anyrt.schedule.cost import Sizes

ROWS: Final = 16  # layers in a table, and kernels of a node
LAYERS: Final = ("name", "kind", "result", "inputs", "kernel")
DECLARED: Final = ("symbol ", "buffer ")
TEXT: Final = 30  # lines of a node's kernels
CELL: Final = 40  # characters


@dataclass(frozen=True, slots=True)
class Page:
    """The output of `anyrt explain` without a stage; `again`: the command, for its hints."""

    plan: Plan
    stages: Stages
    again: str

    def print(self) -> None:
        """Layers and kernels, those of a node with their text."""
        report = self._report()
        layers = counted(len(self.plan.layers), "layer")
        kernels = counted(len(report.kernels), "kernel")
        print(f"{self.plan.name!r}: {layers} in {kernels}")
        if self.stages.node is None:
            self._print_network(report)
        else:
            self._print_node(report, named_like(self.stages.lowered.graph, self.stages.node))

    def as_json(self) -> dict[str, Json]:
        """The same as JSON: all layers, or those of the node, and the whole report."""
        report, node = self._report(), self.stages.node
        names = None if node is None else set(named_like(self.stages.lowered.graph, node))
        rows = [row for row in self._layers(report) if names is None or row[0] in names]
        layers: list[Json] = [dict(zip(LAYERS, row, strict=True)) for row in rows]
        return {"name": self.plan.name, "layers": layers, "report": report.as_json()}

    def _report(self) -> Report:
        """The report for the selected processor, which may differ from that of the build."""
        guess, at = Guess(), parse_report(self.plan.report).at
        sizes = Sizes(guess.of_plan(self.plan))
        guess.warn("explain", "")
        return build_report(self.stages.lowered, sizes, [f"{n} {s}" for n, s in guess.guessed.items()] or at)

    def _print_network(self, report: Report) -> None:
        print_heading("layers")
        self._print_layers(report, {b.name for b in self.plan.bindings} | {x.name for x in self.plan.layers})
        print_heading("kernels")
        print_text(short_text(report, build_seconds(self.plan)))
        print()
        print_text(
            f"`{self.again} --node PART` shows the layers with PART in their names, and their kernels;"
        )
        print_text(
            "`--stage` prints one of graph, kernels, loops, program, llvm, asm, or, as `all`, all but loops"
        )

    def _print_node(self, report: Report, names: Collection[str]) -> None:
        print_heading("layers")
        self._print_layers(report, names)
        kernels = [k for k in report.kernels if not set(names).isdisjoint(k.layers)]
        print_heading("kernels")
        rows = [
            (k.name, byte_count(k.reads), byte_count(k.writes), _cut(", ".join(k.layers))) for k in kernels
        ]
        print_table(("kernel", "reads", "writes", "layers"), rows[:ROWS])
        self._print_rest(len(rows), "kernel", "kernels")
        whole = self.stages.kernels().rstrip().splitlines()
        lines = [line for line in whole if line and not line.startswith(DECLARED)]
        print_heading("loops")
        print_text("\n".join(lines[:TEXT]))
        self._print_rest(len(lines), "line", "kernels", TEXT)

    def _print_layers(self, report: Report, names: Collection[str]) -> None:
        rows = [row for row in self._layers(report) if row[0] in names]
        shown = [tuple(map(_cut, row)) for row in rows[:ROWS]]
        print_table(LAYERS, shown)
        self._print_rest(len(rows), "layer", "graph")

    def _print_rest(self, count: int, what: str, stage: str, most: int = ROWS) -> None:
        if count > most:
            node = "" if self.stages.node is None else f" --node {quote(self.stages.node)}"
            hint = f"`{self.again}{node} --stage {stage}` prints all"
            print_text(f"and {counted(count - most, what)} more; {hint}")

    def _layers(self, report: Report) -> list[tuple[str, ...]]:
        """Inputs, then layers, each with its result, its operands, and its kernels."""
        graph = self.stages.lowered.graph
        results = {name: _type(v) for v, name in graph.names.items()}
        inputs = [
            (b.name, "input", results.get(b.name, ""), "", "") for b in self.plan.bindings if b.is_input
        ]
        makers = {tensor: layer.name for layer in self.plan.layers for tensor in layer.outputs}
        rows = [
            (
                layer.name,
                layer.kind,
                results.get(layer.name, ""),
                ", ".join(makers.get(t, t) for t in layer.inputs),
                _kernels(report.kernels, layer.name) or _without(layer.kind, layer.name in results),
            )
            for layer in self.plan.layers
        ]
        return [*inputs, *rows]


def _kernels(kernels: Sequence[KernelTraffic], layer: str) -> str:
    return ", ".join(k.name for k in kernels if layer in k.layers)


def _without(kind: str, is_left: bool) -> str:
    """The remark for a layer without a kernel."""
    if kind == "Constant":
        return "weights"
    return "computed by the builder" if is_left else "rewritten"


def _type(value: Value) -> str:
    return f"{short_name(value.dtype)} ({', '.join(map(print_dim, value.shape))})"


def _cut(text: str) -> str:
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"
