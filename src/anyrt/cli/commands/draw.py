"""`anyrt draw NETWORK -o FILE`: draw a network's layers, kernels and tensors.

anyrt draw net.plan -o net.svg            draw a picture
anyrt draw net.py -o net.html --profile   add the time of each kernel

Layers are boxes, and kernels are frames around them. A wire between two
frames is a tensor that one kernel stores and others load. Tensors inside a
frame stay in registers. A dashed box is a part of a layer, or a layer that an
earlier kernel also computes.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyrt.cli.command import Command
from anyrt.cli.show import print_json
from anyrt.core.errors import ArgumentError

if TYPE_CHECKING:
    from anyrt.cli.draw.picture import Picture

FORMATS: Final = (".svg", ".html")
OPTIMUM: Final = "sizes at the optimum of the first profile"
NAMES: Final = 4  # omitted layers


def options(parser: ArgumentParser) -> None:
    """The network, the file, and whether to measure times."""
    parser.description = __doc__
    add = parser.add_argument
    add("network", help="FILE.py, FILE.py:FUNCTION (default function: define), an ONNX model or a plan")
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="output file: .svg or .html")
    add(
        "--profile",
        action="store_true",
        help="run the network on random inputs and show the time of each kernel",
    )


def run(args: Namespace) -> None:
    """Draw the picture, write it, and print its counts."""
    from anyrt.cli.draw.svg import html, svg
    from anyrt.plan.disk import write_atomically

    if args.output.suffix not in FORMATS:
        wanted = f"a name that ends in {' or '.join(FORMATS)}"
        raise ArgumentError("AR304", "--output", repr(str(args.output)), wanted, "write -o net.svg")
    picture, notes, times = drawn(args.network, args.profile)
    write = svg if args.output.suffix == ".svg" else html
    write_atomically(args.output, [write(picture, notes, times).encode()])
    if args.json:
        kernels = {"layers": picture.layers, "kernels": len(picture.frames), "milliseconds": times}
        print_json({"file": str(args.output), **kernels})
    else:
        print(f"{args.output}: {picture.counts}")


def drawn(network: str, profile: bool) -> tuple[Picture, list[str], list[float] | None]:
    """The picture, its notes, and the time of each kernel."""
    from anyrt.cli.draw.times import RUNS
    from anyrt.cli.report.facts import Built
    from anyrt.cli.script import plan_source

    built, times = Built.of(plan_source(network)), None
    built.guess.warn("draw", "")
    picture, guessed = built.picture, built.guess.text("")
    notes = list(_notes(picture, guessed or (OPTIMUM if built.sizes else "")))
    if profile:
        every = built.milliseconds()
        times = [every.get(name, 0.0) for name in picture.frames]
        turns = [(name, every[name]) for name, _ in picture.regions if name in every]
        notes += [f"{ms:.3g} ms in all iterations of {name}" for name, ms in turns]
        total = sum(times) + sum(ms for _, ms in turns)
        notes.append(f"{total:.3g} ms: the sum of the medians of {RUNS} runs, kernel by kernel")
    return picture, notes, times


def _notes(picture: Picture, sizes: str) -> Iterator[str]:
    from anyrt.cli.draw.picture import Kind

    yield picture.legend
    if sizes:
        yield sizes
    if any(box.kind in (Kind.AGAIN, Kind.PART) for box in picture.boxes):
        yield "dashed: a part of a layer, or a layer that an earlier kernel also computes"
    if picture.left_out:
        more = f" and {len(picture.left_out) - NAMES} more" if len(picture.left_out) > NAMES else ""
        yield f"no kernel computes {', '.join(picture.left_out[:NAMES])}{more}"


COMMAND = Command("draw a network's layers, kernels and tensors as SVG or HTML", options, run)
