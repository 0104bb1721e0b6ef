"""`anyrt batch MODEL IN OUT`: run a model over files, in several processes.

anyrt batch model.onnx photos results --processes 2
    write results/NAME.png.npz for each image
anyrt batch model.onnx rows.parquet results
    write the table with a column for each output

A file whose results are newer than the file is skipped, so the same command
resumes an interrupted run.
"""

from __future__ import annotations

import multiprocessing
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING

from anyrt.cli.command import Command
from anyrt.cli.show import print_json
from anyrt.core.errors import AnyrtError, ArgumentError, ResourceError

if TYPE_CHECKING:
    from anyrt.cli.batch.files import Work
    from anyrt.onnx.predictor import Predictor

SHOWN = 5  # failed files that are named


def options(parser: ArgumentParser) -> None:
    """The model, its inputs, the target, and settings."""
    parser.description = __doc__
    add = parser.add_argument
    add("model", type=Path, help="an ONNX model, a plan, or FILE.py:FUNCTION")
    add("source", type=Path, metavar="IN", help="a file or a folder: .npz, .npy, images, .parquet")
    add("target", type=Path, metavar="OUT", help="folder for the results, which keep the names of the files")
    add("--processes", type=int, default=1, help="number of processes (default: 1)")
    add("--threads", type=int, help="threads of each process (default: processors / processes)")
    add("--precision", action="append", default=[], metavar="NAME", help="allow fp16, bf16 or int8")
    add("--rows", type=int, default=64, help="rows of a table for one inference (default: 64)")
    add("--mean", default="0", help="mean of the pixels, 0 to 1: one number, or one per channel (default: 0)")
    add("--std", default="1", help="standard deviation of the pixels, in the same form (default: 1)")


def run(args: Namespace) -> None:
    """Compute the missing results; print the numbers of files. ArgumentError names files that failed."""
    from rich.progress import Progress

    from anyrt.cli.batch.files import Pixels, pending, todo
    from anyrt.core.flags import processors
    from anyrt.onnx.predictor import Predictor

    if args.processes < 1 or args.rows < 1:
        raise ArgumentError("AR304", "anyrt batch", "a number below 1", "--processes and --rows of 1 or more")
    pixels = Pixels(_numbers("--mean", args.mean), _numbers("--std", args.std))
    every = todo(args.source, args.target, pixels, args.rows)
    work = list(pending(every))
    threads = args.threads or max(1, processors() // args.processes)
    predictor = Predictor(args.model, precision=args.precision, threads=threads, contexts=1)
    failed: dict[str, str] = {}
    with Progress(disable=args.json or not sys.stdout.isatty()) as bar:
        task = bar.add_task(args.model.name, total=len(every), completed=len(every) - len(work))
        for item, error in _results(predictor, work, args.processes):
            failed |= {str(item.source): error} if error else {}
            bar.advance(task)
    computed, done = len(work) - len(failed), len(every) - len(work)
    if args.json:
        print_json({"computed": computed, "up_to_date": done, "failed": failed, "files": len(every)})
    else:
        print(f"{computed} of {len(every)} files computed, {done} up to date")
    if failed:
        failures = "; ".join(f"{path}: {error}" for path, error in [*failed.items()][:SHOWN])
        raise ArgumentError("AR304", f"{len(failed)} files", failures, "files that match the model's inputs")


def _results(predictor: Predictor, work: Sequence[Work], processes: int) -> Iterator[tuple[Work, str]]:
    """Each file when it is finished, with its error or ""."""
    if processes == 1:
        for item in work:
            yield item, _one(predictor, item)
        return
    # Not fork: a child has no engine threads of its parent.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(predictor,)) as pool:
        files: dict[Future[str], Work] = {pool.submit(_in_child, item): item for item in work}
        try:
            for future in as_completed(files):
                yield files[future], future.result()
        except BrokenProcessPool:
            do = "run the command again: it computes only the missing results"
            raise ResourceError(
                "AR811", "anyrt batch", "a process that was killed", "all processes to finish", do
            ) from None


_held: list[Predictor] = []


def _begin(predictor: Predictor) -> None:
    _held.append(predictor)


def _in_child(work: Work) -> str:
    return _one(_held[0], work)


def _one(predictor: Predictor, work: Work) -> str:
    from anyrt.cli.batch.files import run as compute

    predictor.metadata()  # a model that cannot be opened is not an error of one file
    try:
        compute(predictor, work)
    except (AnyrtError, OSError, ValueError) as error:
        return str(error)
    return ""


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in text.split(","))
    except ValueError:
        raise ArgumentError("AR304", option, repr(text), "numbers separated by commas") from None


COMMAND = Command("run a model over a file or a folder of files", options, run)
