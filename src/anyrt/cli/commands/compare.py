"""`anyrt compare model.onnx`: compare AnyRT with ONNX Runtime or with ONNX's reference evaluator.

anyrt compare model.onnx                          compare each output and print the largest differences
anyrt compare model.onnx --layers                 compare each node and name the first that differs
anyrt compare model.onnx --load-inputs in.json    read the inputs from a file that Polygraphy saved
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anyrt.cli.command import Command
from anyrt.cli.show import print_table

RUNNERS: Final = ("onnxruntime", "reference")


def options(parser: ArgumentParser) -> None:
    """The model, the other runtime, the inputs and the tolerances."""
    parser.description = __doc__
    add = parser.add_argument
    add("model", type=Path, help="an ONNX file")
    add("--against", choices=RUNNERS, help="runtime to compare with (default: onnxruntime if installed)")
    add("--layers", action="store_true", help="compare the output of each node")
    add("--shapes", default="", help="shapes of dynamic inputs, such as x:1x3x224x224")
    add("--rtol", type=float, default=1e-3, help="relative tolerance (default: %(default)s)")
    add("--atol", type=float, default=1e-4, help="absolute tolerance (default: %(default)s)")
    add("--load-inputs", type=Path, help="read the inputs from this file, in Polygraphy's JSON")
    add("--save-inputs", type=Path, help="write the inputs to this file")
    add(
        "--save-outputs",
        type=Path,
        help="write the outputs of both runtimes to this file, in Polygraphy's JSON",
    )


def run(args: Namespace) -> None:
    """Print one row per output; exit with status 1 if any output differs."""
    from anyrt.cli.polygraphy import read_inputs, write_inputs, write_outputs
    from anyrt.onnx.reference import compare, load_model, runner

    model = load_model(args.model, args.layers)
    shapes = _shapes(args.shapes)
    feeds = read_inputs(args.load_inputs) if args.load_inputs else model.inputs(shapes)
    if args.save_inputs:
        write_inputs(feeds, args.save_inputs)
    name, other = runner(args.against)
    got, wanted = model.run(feeds), other(model, feeds)
    if args.save_outputs:
        write_outputs({"anyrt": got, name: wanted}, args.save_outputs)
    rows = [compare(n, got[n], wanted[n], args.rtol, args.atol) for n in model.outputs if n in wanted]
    print_table(("output", "shape", "largest", "relative", "agrees"), [r.row() for r in rows])
    wrong = [r for r in rows if not r.agrees]
    if wrong:
        print(f"the first that differs from {name}: {wrong[0].name}{model.maker(wrong[0].name)}")
        raise SystemExit(1)
    print(f"{len(rows)} agree with {name}")


def _shapes(text: str) -> Mapping[str, tuple[int, ...]]:
    from anyrt.cli.exec.flags import Given
    from anyrt.cli.exec.shapes import shapes

    return shapes(Given({"shapes": text}).pairs("shapes"), "--shapes")


COMMAND = Command("compare a model with another runtime", options, run)
