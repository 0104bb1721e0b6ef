"""An engine for all sizes of a profile beside one for each size, in turn: `python -m benchmarks open`.

A case is a form at the minimum, optimum and maximum sizes. Where these differ, the inputs of the dynamic
engine have a dynamic dimension. At each size it runs in turn with an engine that was built for that size
only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyrt as trt
from benchmarks.command import QUICK, RUNS, THREADS, Command, progress, publish, ready, whole
from benchmarks.contractions import forms
from benchmarks.contractions.forms import Case, Convolution, Form, Group, Product, Tail, inputs
from benchmarks.contractions.reference import LANGUAGE
from benchmarks.engines import Described, built
from benchmarks.machine import this_machine
from benchmarks.measure import Effort, measure
from benchmarks.peers.anyrt import bound
from benchmarks.peers.anyrt import described as network_of
from benchmarks.probe import Probe
from benchmarks.table import Page, Table, by_threads, digits, geometric_mean

WANTED = 1.10  # times the static engine's time
SIZES = ("least", "usual", "largest")
EDGES, BATCHES, TOKENS = (14, 28, 56), (1, 2, 8), (64, 197, 512)
ROWS = (32, 197, 512)
HEAD = """# One engine for all sizes

This table compares an engine with dynamic dimensions ("open") with engines that are built for one size each
("static"). The sizes are the minimum, optimum and maximum of its profile ("least", "usual" and "largest").
Written by `python -m benchmarks open`; `benchmarks/contractions/opened.py` describes how. Times of one
machine do not carry over to another; ratios do, roughly.
"""
HOW = f"""Before anything is timed, the results of both engines are compared with float64 NumPy. Both engines
run in turn on the same memory, forwards and backwards, with a pause before each. Times are the least of all
runs, because both engines do the same each time. The goal is at most {WANTED:.2f} times the static engine's
time.
"""
PAGE, DOCUMENT = Page(HEAD, HOW), Path("docs/tables/open.md")


@dataclass(frozen=True, slots=True)
class Opened:
    """A form at the least, usual and largest sizes of a profile."""

    name: str
    forms: tuple[Form, ...]
    tail: tuple[Tail, ...] = ()

    @property
    def cases(self) -> tuple[Case, ...]:
        """A case for each size."""
        return tuple(Case(self.name, Group.OTHER, form, self.tail) for form in self.forms)


@dataclass(frozen=True, slots=True)
class Row:
    """Both engines at one size: the minimum of all runs in microseconds."""

    name: str
    size: str
    shapes: str
    threads: int
    static_us: float
    open_us: float

    @property
    def ratio(self) -> float:
        """The time of the dynamic engine divided by that of the static one."""
        return self.open_us / self.static_us


def cases() -> Iterator[Opened]:
    """Products, convolutions, attention, pooling and softmax, by their dynamic dimensions."""
    yield from _products()
    yield from _convolutions()
    for mask in forms.Mask:
        sizes = tuple(forms.Attention(12, n, n, 64, mask) for n in TOKENS)
        yield Opened(f"attention_tokens_{mask.value}", sizes)
    yield Opened("attention_cached", tuple(forms.Attention(12, 1, n, 64) for n in (128, 512, 2048)))
    for fold in forms.Fold:
        for kernel, stride in ((2, 2), (3, 1), (3, 2)):
            window = forms.Window((kernel,) * 2, (stride,) * 2, ((kernel - 1) // 2,) * 2)
            form = forms.Pool(fold, 64, (56, 56), window)
            name = f"pool_{fold.value}_k{kernel}s{stride}"
            yield Opened(f"{name}_batch", tuple(replace(form, batch=n) for n in BATCHES))
            yield Opened(f"{name}_image", tuple(replace(form, size=(n, n)) for n in (28, 56, 112)))
    yield Opened("softmax_rows", tuple(forms.Softmax(n, 197) for n in (64, 512, 2364)))
    yield Opened("softmax_length", tuple(forms.Softmax(512, n) for n in (64, 197, 1000)))


def _products() -> Iterator[Opened]:
    yield Opened("product_rows", tuple(Product(n, 768, 768) for n in ROWS))
    yield Opened("product_rows_bias_gelu", tuple(Product(n, 768, 768) for n in ROWS), (Tail.BIAS, Tail.GELU))
    for name, sizes in (
        ("columns", (Product(197, 768, n) for n in ROWS)),
        ("rows_columns", (Product(n, 768, n) for n in ROWS)),
        ("terms", (Product(197, n, 768) for n in ROWS)),
        ("batch", (Product(128, 64, 128, (n,)) for n in (4, 12, 48))),
    ):
        yield Opened(f"product_{name}", tuple(replace(form, constant=False) for form in sizes))


def _convolutions() -> Iterator[Opened]:
    for name, form, edges in (
        ("conv_k3s1", _convolution(128, 128, 3), EDGES),
        ("conv_k3s1_32", _convolution(32, 32, 3), EDGES),
        ("conv_k1s1", _convolution(128, 128, 1), EDGES),
        ("conv_k3s2", _convolution(128, 128, 3, 2), EDGES),
        ("conv_depthwise_k3s1", _convolution(96, 96, 3, groups=96), EDGES),
        ("conv_depthwise_k3s2", _convolution(96, 96, 3, 2, groups=96), EDGES),
        ("conv_depthwise_k5s1", _convolution(96, 96, 5, groups=96), EDGES),
        ("conv_first_k7s2", _convolution(3, 64, 7, 2), (112, 160, 224)),
        ("conv_first_k3s2", _convolution(3, 32, 3, 2), (112, 160, 224)),
        ("deconv_k2s2", _convolution(128, 64, 2, 2, transposed=True), EDGES),
        ("deconv_k4s2", _convolution(64, 32, 4, 2, transposed=True), EDGES),
    ):
        batched = replace(form, size=(edges[1],) * 2)
        yield Opened(f"{name}_batch", tuple(replace(batched, batch=n) for n in BATCHES), (Tail.BIAS,))
        yield Opened(f"{name}_image", tuple(replace(form, size=(n, n)) for n in edges), (Tail.BIAS,))
    for c_in, c_out, stride in ((80, 384, 1), (384, 384, 2)):
        form = Convolution(c_in, c_out, (1000,), forms.Window((3,), (stride,), (1,)))
        name = f"conv_audio_{c_in}_k3s{stride}"
        yield Opened(f"{name}_batch", tuple(replace(form, batch=n) for n in (1, 2, 4)), (Tail.BIAS,))
        yield Opened(
            f"{name}_length", tuple(replace(form, size=(n,)) for n in (200, 1000, 3000)), (Tail.BIAS,)
        )


def _convolution(
    c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1, transposed: bool = False
) -> Convolution:
    pad = ((kernel - 1) // 2,) * 2
    window = forms.Window((kernel,) * 2, (stride,) * 2, pad, groups, transposed=transposed)
    return Convolution(c_in, c_out, (1, 1), window)


ALL: tuple[Opened, ...] = tuple(cases())


# ---- engines ------------------------------------------------------------------------------------


def rows_of(opened: Opened, threads: int, effort: Effort) -> Iterator[Row]:
    """The rows of a case, one for each size."""
    probe, shared = Probe(threads, effort.patience_s), built(described(opened.cases, threads))
    for size, case in zip(SIZES, opened.cases, strict=True):
        progress(f"{opened.name}, {size}", threads)
        task, exact = LANGUAGE.task(case, threads)
        ways = [bound(task, plan, "") for plan in (built(described((case,), threads)), shared)]
        for way in ways:
            way.run()
            error, is_right = LANGUAGE.distance(case, exact, way.result())
            assert is_right, f"{opened.name} at {size}: wrong by {error:.3g} ulp"
        static, open = measure(ways, effort, probe)
        shapes = ", ".join("×".join(map(str, t.shape)) for t in inputs(case).values())
        yield Row(opened.name, size, shapes, threads, static.minimum, open.minimum)


def described(sizes: Sequence[Case], threads: int) -> Described:
    """The network with its configuration, for one size or for a profile over all sizes."""
    usual = sizes[len(sizes) // 2]
    shapes = {name: [inputs(case)[name].shape for case in sizes] for name in inputs(usual)}
    return network_of(LANGUAGE.blank(usual, threads), sizes=shapes if len(sizes) > 1 else None)


# ---- tables -------------------------------------------------------------------------------------


def tables(rows: Sequence[Row]) -> list[Table]:
    """A table for each number of threads, with a row for each case."""
    out = []
    for title, mine in by_threads(rows):
        over = sum(r.ratio > WANTED for r in mine)
        note = (
            f"Geometric mean {geometric_mean(r.ratio for r in mine):.3f}; above {WANTED:.2f}: {over} of "
            f"{len(mine)}. Shapes are those of the inputs at the usual size; times are in µs."
        )
        times = (f"{size}{what}" for size in SIZES for what in (", static", ", open", ""))
        columns = ("case", "shapes", *times)
        names = dict.fromkeys(r.name for r in mine)
        lines = tuple(_line([r for r in mine if r.name == name]) for name in names)
        out.append(Table(f"Open / static, {title}", columns, lines, note))
    return out


def _line(rows: Sequence[Row]) -> tuple[str, ...]:
    cells = []
    for r in rows:
        ratio = f"{r.ratio:.2f}"
        cells += [digits(r.static_us), digits(r.open_us), f"**{ratio}**" if r.ratio > WANTED else ratio]
    usual = rows[min(1, len(rows) - 1)]
    return (usual.name, usual.shapes, *cells)


def _run(options: argparse.Namespace, names: list[str]) -> None:
    threads, effort = ready(options)
    rows = [row for c in ALL if c.name in names for row in rows_of(c, threads, effort)]
    document = DOCUMENT if len(names) == len(ALL) and not options.quick else None
    publish(options, tables(rows), PAGE, document, this_machine({"AnyRT": trt.__anyrt_version__}, {}))


COMMAND = Command(
    "open",
    "measure engines with dynamic dimensions beside static ones",
    _run,
    (THREADS, RUNS, QUICK, whole(DOCUMENT)),
    rows=lambda: (c.name for c in ALL),
)
