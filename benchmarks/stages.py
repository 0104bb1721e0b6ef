"""Contractions in stages of a later one (schedule/stages.py): a network with stages and without, in turn.

python -m benchmarks stages --only '^depthwise'
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

import anyrt as trt
from anyrt.api.building.config import profiles_in, settings_of
from anyrt.api.building.freeze import freeze
from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.compiler.request import BuildRequest
from anyrt.plan.file import read_plan
from anyrt.plan.report import parse_report
from anyrt.schedule.step import Strategies
from benchmarks.command import QUICK, THREADS, Command, markdown, progress, publish, ready
from benchmarks.contractions.calls import Act, Calls
from benchmarks.contractions.forms import Window
from benchmarks.contractions.in_anyrt import Layers
from benchmarks.contractions.reference import Exact
from benchmarks.engines import bind, empty, engine_of
from benchmarks.measure import Effort, Times, measure, paired
from benchmarks.mechanisms import built
from benchmarks.peers import Way
from benchmarks.probe import Probe
from benchmarks.steps import Element, Shape
from benchmarks.table import Page, Table, digits
from benchmarks.values import Array

T = TypeVar("T")
Feeds: TypeAlias = dict[str, Array]
HEAD: Final = """# Stages

Stages are contractions that one kernel computes at items of a later contraction. This table has their effect.
The networks are a depthwise convolution with the pointwise one behind it, an attention with its projection,
and two products of a perceptron. Each network is built without stages, and with those that the price of the
target permits (`backends/cpu/strategies/stages.py`). If the price refuses them, the network is built with
stages at as many items as possible. Before anything is timed, results are compared with NumPy's in float64.
Written by `python -m benchmarks stages --quick`.

Names of convolutions state images, channels, rows and columns, and the number of output maps. Names of
attentions state batch, heads, rows, keys and the size of a head. Names of perceptrons state rows, width and
inner width.
"""
PAGE: Final = Page(HEAD)
TOLERANCE: Final = 2e-5  # of the largest result: sums of float32 of at most 1024 terms
APART: Final = replace(STRATEGIES, stages=None)
# Wherever contractions can be, and at as many items as there can be.
JOINED: Final = replace(STRATEGIES, stages=lambda asked, machine: asked.items)


Network: TypeAlias = Callable[[Any, Sequence[Any]], Any]  # Any: calls of a program, and its values


@dataclass(frozen=True, slots=True)
class Case:
    """A network of several contractions: the shapes of its inputs, and the function that calls them."""

    name: str
    inputs: tuple[tuple[str, Shape], ...]
    network: Network

    def feeds(self) -> Feeds:
        """Random inputs."""
        random = np.random.default_rng(7)
        return {name: (random.normal(size=shape) / 2).astype(np.float32) for name, shape in self.inputs}

    def truth(self, **feeds: Array) -> Array:
        """The result by NumPy in float64."""
        return np.asarray(self.network(Exact(), [x.astype(np.float64) for x in feeds.values()]))

    def request(self, threads: int, strategies: Strategies | None = None) -> BuildRequest:
        """The request to the compiler."""
        _, network, config = empty(threads)
        tensors = [network.add_input(name, trt.float32, shape) for name, shape in self.inputs]
        result = self.network(Layers(network, Element.F32), tensors)
        result.name = "y"
        network.mark_output(result)
        return replace(freeze(network, profiles_in(config), settings_of(config)), strategies=strategies)


@dataclass(frozen=True, slots=True)
class Row:
    """A case with separate kernels and with stages; `taken`: whether the cost model selects stages; `ratio`:
    apart / joined, the median over rounds."""

    case: str
    taken: bool
    apart: Times
    joined: Times
    ratio: float


def depthwise(images: int, channels: int, size: int, maps: int) -> Case:
    """A depthwise convolution of 3 × 3, ReLU, a pointwise convolution."""
    inner, outer = _weights(channels, 1, 3, 3), _weights(maps, channels, 1, 1)

    def network(calls: Calls[T], values: Sequence[T]) -> T:
        y = calls.convolution(values[0], inner, None, Window((3, 3), (1, 1), (1, 1), channels))
        return calls.convolution(calls.act(y, Act.RELU), outer, None, Window((1, 1), (1, 1), (0, 0)))

    name = f"depthwise_{images}x{channels}x{size}_to_{maps}"
    return Case(name, (("x", (images, channels, size, size)),), network)


def attention(batch: int, heads: int, rows: int, keys: int, size: int) -> Case:
    """Attention, and a projection of all heads."""
    width = heads * size
    weights = _weights(width, width)

    def network(calls: Calls[T], values: Sequence[T]) -> T:
        q, k, v = values
        scores = calls.scores(q, k)
        mixed = calls.transpose(calls.product(calls.softmax(scores), v), (0, 2, 1, 3))
        return calls.product(calls.reshape(mixed, (batch, rows, width)), calls.constant(weights))

    shapes = (("q", (batch, heads, rows, size)), *((n, (batch, heads, keys, size)) for n in ("k", "v")))
    return Case(f"attention_{batch}x{heads}x{rows}x{keys}x{size}", shapes, network)


def perceptron(rows: int, width: int, inner: int) -> Case:
    """Two products with weights and a ReLU between them."""
    first, second = _weights(width, inner), _weights(inner, width)

    def network(calls: Calls[T], values: Sequence[T]) -> T:
        hidden = calls.act(calls.product(values[0], calls.constant(first)), Act.RELU)
        return calls.product(hidden, calls.constant(second))

    return Case(f"perceptron_{rows}x{width}x{inner}", (("x", (rows, width)),), network)


def _weights(*shape: int) -> Array:
    return (np.random.default_rng(sum(shape)).normal(size=shape) / 4).astype(np.float32)


# Some that the price takes, and some that it refuses.
CASES: Final = (
    depthwise(8, 144, 56, 24),
    depthwise(8, 32, 112, 16),
    depthwise(8, 128, 56, 128),
    depthwise(1, 32, 112, 16),
    depthwise(1, 384, 14, 64),
    depthwise(1, 960, 7, 160),
    attention(8, 8, 1024, 77, 80),
    attention(16, 12, 197, 197, 64),
    attention(1, 16, 4096, 16, 32),
    attention(1, 12, 512, 512, 64),
    perceptron(65536, 64, 256),
)


def rows(names: Sequence[str], threads: int, effort: Effort) -> Iterator[Row]:
    """The rows of these cases; both engines run in turn."""
    probe = Probe(threads, effort.patience_s)
    for case in (c for c in CASES if c.name in names):
        progress(case.name)
        feeds = case.feeds()
        (count, apart), (fewer, joined) = (prepared(case, s, threads, feeds) for s in (APART, STRATEGIES))
        if fewer == count:
            _, joined = prepared(case, JOINED, threads, feeds)
        before, after = measure([apart, joined], effort, probe)
        yield Row(case.name, fewer < count, before, after, paired(after, before))


def prepared(case: Case, strategies: Strategies, threads: int, feeds: Feeds) -> tuple[int, Way]:
    """(number of kernels with these strategies, the way that runs them)."""
    with built(case.request(threads, strategies)) as plan:
        return len(parse_report(read_plan(plan).plan.report).kernels), bound(case, plan, feeds)


def bound(case: Case, plan: bytes, feeds: Feeds) -> Way:
    """The engine of a plan on memory of its own; AssertionError if its results differ from the reference."""
    expected = case.truth(**feeds)
    arrays = feeds | {"y": np.empty(expected.shape, np.float32)}
    run = bind(engine_of(plan).create_execution_context(), arrays)
    run()
    off = np.abs(arrays["y"] - expected).max() / np.abs(expected).max()
    assert off < TOLERANCE, f"{case.name}: a result is off by {off:.2g} of the largest"
    return Way("", run, lambda: tuple(arrays.values()))


def table(measured: Sequence[Row], threads: int) -> Table:
    """The cases with their times."""
    return Table(
        f"Contractions at items of a later one, {threads} threads",
        ("case", "the price", "kernels of their own µs", "one kernel µs", "times faster"),
        tuple(
            (
                *(r.case, "takes it" if r.taken else "refuses it"),
                *(digits(r.apart.median), digits(r.joined.median), digits(r.ratio)),
            )
            for r in measured
        ),
        "Each case runs in turn in separate kernels and in one kernel, even if the price refuses that. Times "
        "are medians. The last column is the median of ratios of neighbouring turns.",
    )


def _run(options: argparse.Namespace, names: list[str]) -> None:
    threads, effort = ready(options)
    publish(options, [table([*rows(names, threads, effort)], threads)], PAGE)


COMMAND = Command(
    "stages",
    "measure contractions in stages of a later one",
    _run,
    (THREADS, QUICK, markdown("write the document to this file")),
    rows=lambda: (c.name for c in CASES),
)
