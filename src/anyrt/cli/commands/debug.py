"""`anyrt debug`: find the cause of a problem in an ONNX model.

anyrt debug precision model.onnx --accuracy 1e-2
    find the fewest layers that must stay float32, as options of anyrt exec
anyrt debug reduce model.onnx -o small.onnx
    write the smallest part that is still rejected, or still differs
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyrt.cli.command import Command
from anyrt.cli.show import counted, print_json, print_table, print_text
from anyrt.core.errors import ArgumentError

if TYPE_CHECKING:
    from anyrt.ops._record import Array

KINDS: Final = ("fp16", "bf16")


def options(parser: ArgumentParser) -> None:
    """The search, the model, and the tolerance."""
    parser.description = __doc__
    add = parser.add_argument
    add("search", choices=tuple(SEARCHES), help="the search, see the examples above")
    add("model", type=Path, help="an ONNX file")
    add("-o", "--output", type=Path, help="output file: the options (precision) or the model (reduce)")
    add(
        "--accuracy",
        type=float,
        default=1e-2,
        help="precision: allowed error, relative to the largest output (default: %(default)s)",
    )
    add("--type", choices=KINDS, default="fp16", help="precision: type of the other layers (default: fp16)")
    add(
        "--against",
        choices=("onnxruntime", "reference"),
        help="reduce: runtime to compare with (default: onnxruntime if installed)",
    )
    add("--rtol", type=float, default=1e-3, help="reduce: relative tolerance (default: %(default)s)")
    add("--atol", type=float, default=1e-4, help="reduce: absolute tolerance (default: %(default)s)")
    add("--shapes", default="", help="shapes of dynamic inputs, such as x:1x3x224x224")
    add("--seed", type=int, default=0, help="seed of the random inputs (default: %(default)s)")


def run(args: Namespace) -> None:
    """Execute the search."""
    SEARCHES[args.search](args)


def precision(args: Namespace) -> None:
    """Print the options that keep some layers in float32, and write them to the output file."""
    from anyrt.cli.debug.precision import Trials, fewest, options_of
    from anyrt.plan.disk import write_text

    trials = Trials(args.model, args.type, _feeds(args))
    layers = trials.layers()
    result = fewest(layers, trials.error, args.accuracy)
    words = options_of(args.type, result.kept)
    if args.output:
        write_text(args.output, f"{words}\n")
    if args.json:
        facts = {"kept": list(result.kept), "layers": len(layers), "error": result.error}
        print_json({**facts, "without": result.without, "options": words, "builds": result.builds})
        return
    print_text(f"error {result.without:.3g} with all of {counted(len(layers), 'layer')} in {args.type}")
    print_table(("layer that stays float32",), [(name,) for name in result.kept])
    print_text(
        f"error {result.error:.3g} with {counted(len(result.kept), 'layer')} in float32; "
        f"{result.builds} builds"
    )
    print(words)


def reduce(args: Namespace) -> None:
    """Write the smallest part of a model with the same failure; exit status 1 if the model does not fail."""
    import onnx

    from anyrt.cli.debug.reduce import Judge, reduced, values_of
    from anyrt.onnx.reference import load_model, runner

    if args.output is None:
        raise ArgumentError("AR304", "debug reduce", "no output file", "an output file", "add -o small.onnx")
    name, other = runner(args.against)
    model, feeds = load_model(args.model, False), _feeds(args)
    judge = Judge(args.model.absolute().parent, other, args.rtol, args.atol)
    result = reduced(model.proto, feeds, values_of(args.model, feeds, other), judge)
    if result is None:
        print_text(f"{args.model} builds, and agrees with {name}")
        raise SystemExit(1)
    onnx.save(result.model, args.output)
    nodes = [node.op_type for node in result.model.graph.node]
    if args.json:
        print_json({"file": str(args.output), "reason": result.reason, "nodes": nodes, "tried": result.tried})
        return
    why = f"differs from {name}" if result.reason == "differs" else f"is rejected with {result.reason}"
    print_text(f"{args.output}: {counted(len(nodes), 'node')} of {len(model.proto.graph.node)}, which {why}")
    print_text(f"{', '.join(nodes)}; {result.tried} parts were tried")


def _feeds(args: Namespace) -> dict[str, Array]:
    from anyrt.cli.exec.flags import Given
    from anyrt.cli.exec.shapes import shapes
    from anyrt.cli.guess import Guess
    from anyrt.onnx.reference import load_model

    model, guess = load_model(args.model, False), Guess()
    requested = shapes(Given({"shapes": args.shapes}).pairs("shapes"), "--shapes")
    sizes = guess.of_model(model, requested)
    guess.warn("debug")
    return dict(model.inputs(sizes, args.seed))


SEARCHES: Final = {"precision": precision, "reduce": reduce}
COMMAND = Command("find layers that need float32, or the smallest part of a model that fails", options, run)
