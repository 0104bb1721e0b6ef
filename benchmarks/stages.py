"""Contractions in stages of a later one (schedule/stages.py): a network with stages and without, in turn.

python -m benchmarks stages --only '^depthwise'
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

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
from benchmarks.engines import bind, empty, engine_of
from benchmarks.measure import Effort, Times, measure, paired
from benchmarks.mechanisms import built
from benchmarks.peers import Way
from benchmarks.probe import Probe
from benchmarks.table import Page, Table, digits
from benchmarks.values import Array

Feeds: TypeAlias = dict[str, Array]
HEAD: Final = """# Stages

What it gives to compute contractions at items of a later one: a depthwise convolution with the pointwise one
behind it, an attention with its projection, two products of a perceptron. Each network is built without
stages and as the price of the target says (`backends/cpu/strategies/stages.py`); where that refuses them,
with stages at as many items as there can be. Results are compared with NumPy's in float64 before anything is
timed. Written by `python -m benchmarks stages --quick`.

Names: images, channels, rows and columns of a convolution, and to how many maps; batch, heads, rows, keys and
size of a head of an attention; rows, width and inner width of a perceptron.
"""
PAGE: Final = Page(HEAD)
TOLERANCE: Final = 2e-5  # of the largest result: sums of float32 of at most 1024 terms
APART: Final = replace(STRATEGIES, stages=None)
# Wherever contractions can be, and at as many items as there can be.
JOINED: Final = replace(STRATEGIES, stages=lambda asked, machine: asked.items)


@dataclass(frozen=True, slots=True)
class Case:
    """A network of several contractions: the shapes of its inputs, the function that adds its layers and
    returns the result, and the result by NumPy in float64."""

    name: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    layers: Callable[[trt.INetworkDefinition, Sequence[trt.ITensor]], trt.ITensor]
    truth: Callable[..., Array]

    def feeds(self) -> Feeds:
        """Random inputs."""
        random = np.random.default_rng(7)
        return {name: (random.normal(size=shape) / 2).astype(np.float32) for name, shape in self.inputs}

    def request(self, threads: int, strategies: Strategies | None = None) -> BuildRequest:
        """The request to the compiler."""
        _, network, config = empty(threads)
        tensors = [network.add_input(name, trt.float32, shape) for name, shape in self.inputs]
        result = self.layers(network, tensors)
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

    def layers(network: trt.INetworkDefinition, tensors: Sequence[trt.ITensor]) -> trt.ITensor:
        first = network.add_convolution_nd(tensors[0], channels, (3, 3), inner)
        first.num_groups, first.padding_nd = channels, (1, 1)
        relu = network.add_activation(first.get_output(0), trt.ActivationType.RELU)
        return network.add_convolution_nd(relu.get_output(0), maps, (1, 1), outer).get_output(0)

    def truth(x: Array) -> Array:
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        kernel = inner[:, 0].astype(np.float64)[None, :, None, None]
        places = ((i, j) for i in range(3) for j in range(3))
        sums = sum(padded[..., i : i + size, j : j + size] * kernel[..., i, j] for i, j in places)
        return np.einsum(
            "nchw,oc->nohw", np.maximum(sums, 0), outer[:, :, 0, 0].astype(np.float64), optimize=True
        )

    name = f"depthwise_{images}x{channels}x{size}_to_{maps}"
    return Case(name, (("x", (images, channels, size, size)),), layers, truth)


def attention(batch: int, heads: int, rows: int, keys: int, size: int) -> Case:
    """Attention, and a projection of all heads."""
    width = heads * size
    weights = _weights(width, width)

    def layers(network: trt.INetworkDefinition, tensors: Sequence[trt.ITensor]) -> trt.ITensor:
        q, k, v = tensors
        plain, turned = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
        scores = network.add_matrix_multiply(q, plain, k, turned)
        soft = network.add_softmax(scores.get_output(0))
        soft.axes = 1 << 3
        mixed = network.add_matrix_multiply(soft.get_output(0), plain, v, plain)
        rows_of_heads = network.add_shuffle(mixed.get_output(0))
        rows_of_heads.first_transpose, rows_of_heads.reshape_dims = (0, 2, 1, 3), (batch, rows, width)
        factor = network.add_constant((1, width, width), weights[None]).get_output(0)
        return network.add_matrix_multiply(rows_of_heads.get_output(0), plain, factor, plain).get_output(0)

    def truth(q: Array, k: Array, v: Array) -> Array:
        scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(2, 3)
        soft = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (soft / soft.sum(-1, keepdims=True)) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(batch, rows, width) @ weights

    shapes = (("q", (batch, heads, rows, size)), *((n, (batch, heads, keys, size)) for n in ("k", "v")))
    return Case(f"attention_{batch}x{heads}x{rows}x{keys}x{size}", shapes, layers, truth)


def perceptron(rows: int, width: int, inner: int) -> Case:
    """Two products with weights and a ReLU between them."""
    first, second = _weights(width, inner), _weights(inner, width)

    def layers(network: trt.INetworkDefinition, tensors: Sequence[trt.ITensor]) -> trt.ITensor:
        plain, (tensor,) = trt.MatrixOperation.NONE, tensors
        for weights in (first, second):
            factor = network.add_constant(weights.shape, weights).get_output(0)
            tensor = network.add_matrix_multiply(tensor, plain, factor, plain).get_output(0)
            if weights is first:
                tensor = network.add_activation(tensor, trt.ActivationType.RELU).get_output(0)
        return tensor

    def truth(x: Array) -> Array:
        return np.maximum(x.astype(np.float64) @ first, 0) @ second

    return Case(f"perceptron_{rows}x{width}x{inner}", (("x", (rows, width)),), layers, truth)


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
        "Each case in turn in kernels of their own and in one, also where the price refuses that. Medians; "
        "last the median of ratios of neighbouring turns.",
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
