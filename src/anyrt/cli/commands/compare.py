"""`anyrt compare MODEL`: compare AnyRT with ONNX Runtime or ONNX's reference.

anyrt compare net.onnx                        compare each output, at two
                                              guesses of dynamic sizes
anyrt compare net.onnx --layers               name the first node that differs
anyrt compare net.onnx --shapes x:1x3x8x8     use this shape; repeatable
anyrt compare net.onnx --load-inputs in.json  use inputs of Polygraphy's file
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anyrt.cli.command import Command
from anyrt.cli.guess import ONES, ROUNDS, Guess
from anyrt.cli.show import print_json, print_table, print_text
from anyrt.core.errors import AnyrtError, BindingError

if TYPE_CHECKING:
    from anyrt.onnx.reference import Compared, Difference, Feeds
    from anyrt.ops._record import Array

RUNNERS: Final = ("onnxruntime", "reference")
COLUMNS: Final = ("output", "shape", "largest", "relative", "agrees")


@dataclass(frozen=True, slots=True)
class Trial:
    """One inference of both: the inputs' shapes, and the difference of each output."""

    shapes: Mapping[str, tuple[int, ...]]
    rows: tuple[Difference, ...]

    @property
    def wrong(self) -> list[Difference]:
        """The outputs that differ, in the order of the model."""
        return [row for row in self.rows if not row.agrees]


def options(parser: ArgumentParser) -> None:
    """The model, the other runtime, the inputs and the tolerances."""
    parser.description = __doc__
    add = parser.add_argument
    add("model", type=Path, help="an ONNX file")
    add("--against", choices=RUNNERS, help="runtime to compare with (default: onnxruntime if installed)")
    add("--layers", action="store_true", help="compare the output of each node")
    add("--shapes", action="append", default=[], help="shapes of dynamic inputs, such as x:1x3x224x224,y:8")
    add("--seed", type=int, default=0, help="seed of the random inputs (default: %(default)s)")
    add("--rtol", type=float, default=1e-3, help="relative tolerance (default: %(default)s)")
    add("--atol", type=float, default=1e-4, help="absolute tolerance (default: %(default)s)")
    add("--load-inputs", type=Path, help="read the inputs from this file, in Polygraphy's JSON")
    add("--save-inputs", type=Path, help="write the inputs of the last run to this file")
    add("--save-outputs", type=Path, help="write the outputs of both runtimes to this file")


def run(args: Namespace) -> None:
    """Print one row per output; exit with status 1 if any output differs."""
    from anyrt.onnx.reference import load_model, runner

    model = load_model(args.model, args.layers)
    name, other = runner(args.against)
    session = model.session().run
    trials = [_trial(args, model, feeds, name, session, other) for feeds in _feeds(args, model, session)]
    wrong = [(t, row) for t in trials for row in t.wrong]
    first = wrong[0][1] if wrong else None
    if args.json:
        settings = {"seed": args.seed, "rtol": args.rtol, "atol": args.atol, "against": name}
        runs = [{"shapes": t.shapes, "outputs": [asdict(row) for row in t.rows]} for t in trials]
        print_json({**settings, "agrees": not wrong, "first": first and first.name, "runs": _finite(runs)})
    else:
        _print(args, model, trials, name)
    if wrong:
        raise SystemExit(1)


def _print(args: Namespace, model: Compared, trials: list[Trial], name: str) -> None:
    print_text(
        f"seed {args.seed}; tolerances: relative {args.rtol:g}, absolute {args.atol:g}; against {name}"
    )
    for trial in trials:
        print_text("inputs " + ", ".join(f"{n} {s}" for n, s in trial.shapes.items()))
        print_table(COLUMNS, [row.row() for row in trial.rows])
    wrong = [row for trial in trials for row in trial.wrong]
    if wrong:
        print_text(f"first difference from {name}: {wrong[0].name}{model.maker(wrong[0].name)}")
    else:
        print(f"{len(trials[0].rows)} agree with {name}")


def _feeds(args: Namespace, model: Compared, session: Callable[[Feeds], object]) -> Iterator[Feeds]:
    """The inputs of each inference: from a file, of the requested shapes, or of guessed shapes."""
    from anyrt.cli.main import complain
    from anyrt.cli.polygraphy import read_inputs

    if args.load_inputs:
        yield read_inputs(args.load_inputs)
        return
    for text in args.shapes:
        yield model.inputs(_shapes(text, model), args.seed)
    if args.shapes:
        return
    for number in range(ROUNDS):
        guess = Guess(number)
        feeds = model.inputs(guess.of_model(model), args.seed)
        try:
            session(feeds)
        except AnyrtError as error:
            complain(
                f"anyrt compare: warning: {guess.text()}; these shapes are rejected: {error}; using 1 for all"
            )
            feeds = model.inputs(Guess(ONES).of_model(model), args.seed)
            number = ROUNDS
        yield feeds
        if not guess.guessed or number == ROUNDS:
            return


def _trial(
    args: Namespace,
    model: Compared,
    feeds: Feeds,
    name: str,
    session: Callable[[Feeds], dict[str, Array]],
    other: Callable[[Compared, Feeds], dict[str, Array]],
) -> Trial:
    from anyrt.cli.polygraphy import write_inputs, write_outputs
    from anyrt.onnx.reference import compare

    if args.save_inputs:
        write_inputs(feeds, args.save_inputs)
    got, expected = session(feeds), other(model, feeds)
    if args.save_outputs:
        write_outputs({"anyrt": got, name: expected}, args.save_outputs)
    rows = [compare(n, got[n], expected[n], args.rtol, args.atol) for n in model.outputs if n in expected]
    return Trial({n: tuple(x.shape) for n, x in feeds.items()}, tuple(rows))


def _finite(value: Any) -> Any:  # Any: of JSON
    """The same, infinities and NaN as text."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value if not isinstance(value, float) or abs(value) < float("inf") else str(value)


def _shapes(text: str, model: Compared) -> Mapping[str, tuple[int, ...]]:
    from anyrt.cli.exec.flags import Given
    from anyrt.cli.exec.shapes import shapes

    requested, known = shapes(Given({"shapes": text}).pairs("shapes"), "--shapes"), model.signatures()
    for name in requested:
        if name not in known:
            raise BindingError("AR706", "--shapes", repr(name), f"one of {', '.join(known)}")
    return requested


COMMAND = Command("compare a model with another runtime", options, run)
