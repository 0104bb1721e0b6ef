"""The cost of rounding each tensor to its type: half-type cases with rounding, and with excess precision.

python -m benchmarks rounding --only '^chain'
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyrt as trt
from anyrt.backends import loader
from anyrt.compiler.driver import lower_plan
from anyrt.ir.kerneltext import print_kernels
from anyrt.plan.file import read_plan
from benchmarks.command import QUICK, THREADS, Command, markdown, progress, publish, ready
from benchmarks.contractions import cases as contraction_cases
from benchmarks.engines import Described, bound, built
from benchmarks.language import language_of
from benchmarks.layers import cases as layer_cases
from benchmarks.measure import Effort, Times, measure, paired
from benchmarks.peers.anyrt import described as network_of
from benchmarks.probe import Probe
from benchmarks.steps import Element
from benchmarks.table import Page, Table, digits, geometric_mean

HALVES: Final = frozenset({Element.F16, Element.BF16})
SAME: Final = "the same kernels"
PAGE: Final = Page("""# Rounding to half types

Each tensor of a half type has the value of its layer's reference, rounded to the type, whatever is fused.
This table has the cost of that: it compares the same network with `BuilderFlag.EXCESS_PRECISION` and without.
Written by `python -m benchmarks rounding --quick`. Rows whose kernels are the same are not timed.
""")


@dataclass(frozen=True, slots=True)
class Row:
    """A case with excess precision and with rounding; `ratio`: rounded / excess, the median over rounds;
    times are None if both have the same kernels."""

    case: str
    excess: Times | None = None
    rounded: Times | None = None
    ratio: float = 1.0


def described() -> dict[str, Callable[[int], Described]]:
    """The networks of half types by name; each takes a number of threads."""
    chains = (c for c in layer_cases.ALL if any(t.dtype in HALVES for t in c.tensors))
    every = (*chains, *(c for c in contraction_cases.ALL if c.dtype in HALVES))
    return {c.name: partial(_network, c) for c in every}


def _network(case: Any, threads: int) -> Described:  # Any: of a language
    return network_of(language_of(case).blank(case, threads))


def rows(names: Sequence[str], threads: int, effort: Effort) -> Iterator[Row]:
    """The rows of these cases; both engines run in turn."""
    probe, every = Probe(threads, effort.patience_s), described()
    for name in names:
        progress(name)
        plans = [plan(every[name](threads), flag) for flag in (trt.BuilderFlag.EXCESS_PRECISION, None)]
        if kernels(plans[0]) == kernels(plans[1]):
            yield Row(name)
            continue
        excess, rounded = measure([bound(p) for p in plans], effort, probe)
        yield Row(name, excess, rounded, paired(excess, rounded))


def plan(network: Described, flag: trt.BuilderFlag | None) -> bytes:
    """The plan of a network, with a flag if there is one."""
    if flag is not None:
        network[2].set_flag(flag)
    return bytes(built(network))


def kernels(plan: bytes) -> str:
    """The kernels of a plan, as text."""
    return print_kernels(lower_plan(read_plan(plan), loader.target()).module.kernels)


def table(measured: Sequence[Row], threads: int) -> Table:
    """The cases, slower ones first."""
    slower = sorted(measured, key=lambda r: -r.ratio)
    lines = tuple(
        (r.case, digits(r.excess.median), digits(r.rounded.median), digits(r.ratio))
        if r.excess is not None and r.rounded is not None
        else (r.case, SAME, SAME, "1.00")
        for r in slower
    )
    mean = geometric_mean([r.ratio for r in measured])
    return Table(
        f"Rounding to half types, {threads} threads",
        ("case", "excess precision µs", "rounded µs", "times as long"),
        lines,
        "Each case runs in turn with EXCESS_PRECISION and without. Times are medians. The geometric mean of "
        f"the ratios is {digits(mean)}.",
    )


def _run(options: argparse.Namespace, names: list[str]) -> None:
    threads, effort = ready(options)
    publish(options, [table([*rows(names, threads, effort)], threads)], PAGE)


COMMAND = Command(
    "rounding",
    "measure the cost of rounding each tensor to its half type",
    _run,
    (THREADS, QUICK, markdown("write the table to this file")),
    rows=described,
)
