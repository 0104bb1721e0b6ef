"""`anyrt run NETWORK`: run one inference on arrays from files.

anyrt run net.plan --input x=photo.npy --output y=result.npy
anyrt run cnn.onnx --input photo.jpg           read the only input
anyrt run cnn.onnx --input arrays.npz          read inputs by name
anyrt run net.py:tiny --random                 use random inputs
anyrt run net.plan --random --backend interp   use the interpreter

An image is resized to the input. For float inputs it is also scaled to 0 … 1
and normalised with --mean and --std.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from anyrt.cli.command import Command
from anyrt.cli.exec.arrays import npy
from anyrt.cli.inputs import FORMS, Array, Pixels, feeds_of
from anyrt.cli.libraries import loaded
from anyrt.cli.show import print_json, print_table
from anyrt.core.counts import at_most
from anyrt.core.errors import ArgumentError, BindingError
from anyrt.plan.disk import write_atomically
from anyrt.plan.file import PlanFile
from anyrt.plan.plan import Plan, SymbolRecord

NATIVE: Final = "cpu"


def options(parser: ArgumentParser) -> None:
    """The network, its inputs, and the files for its outputs."""
    parser.description = __doc__
    add = parser.add_argument
    add("network", help="a plan, an ONNX model, or FILE.py:FUNCTION")
    add("--input", action="append", default=[], metavar="NAME=FILE", help=f"read an input from {FORMS}")
    add("--random", action="store_true", help="use random numbers for inputs without a file")
    add("--shapes", default="", help="shapes of random inputs, such as x:1x3x224x224")
    add("--seed", type=int, default=0, help="seed of the random numbers (default: %(default)s)")
    add("--mean", default="0", help="mean of an image's channels, such as 0.485,0.456,0.406")
    add("--std", default="1", help="standard deviation of its channels, such as 0.229,0.224,0.225")
    add("--output", action="append", default=[], metavar="NAME=FILE", help="write an output to a .npy file")
    add("--plugins", action="append", default=[], metavar="FILE", help="load this plug-in library first")
    add("--backend", default=NATIVE, help="backend: cpu (default), interp or null")


def run(args: Namespace) -> None:
    """Run the network, print one line per output, and write the requested outputs."""
    from anyrt.cli.script import plan_file, plan_source

    with loaded(args.plugins):
        source = plan_source(args.network)
        file = plan_file(source)
        pixels = Pixels(_numbers("--mean", args.mean), _numbers("--std", args.std))
        feeds = feeds_of(args.input, file.plan.bindings, pixels)
        feeds |= _missing(args, file.plan, feeds)
        targets = _targets(file.plan, args.output)
        outputs = _native(source, feeds) if args.backend == NATIVE else _other(file, feeds, args.backend)
    rows = [_row(*x) for x in outputs.items()]
    if args.json:
        print_json([_record(*x) for x in outputs.items()])
    else:
        print_table(("output", "type", "shape", "minimum", "mean", "maximum"), rows)
    for name, path in targets.items():
        if name not in outputs:
            got = f"backend {args.backend!r}, which computes no outputs"
            do = f"use --backend {NATIVE}"
            raise BindingError("AR706", f"--output {name}", got, "a backend that computes", do)
        # The file name that `numpy.save` uses.
        write_atomically(Path(path if path.endswith(".npy") else f"{path}.npy"), [npy(outputs[name])])


def _targets(plan: Plan, words: Sequence[str]) -> dict[str, str]:
    """The file of each requested output."""
    targets = dict(_pairs("--output", words))
    known = [b.name for b in plan.bindings if not b.is_input]
    for name in targets:
        if name not in known:
            do = "check the spelling"
            raise BindingError("AR706", "--output", repr(name), f"one of {', '.join(known)}", do)
    return targets


def _missing(args: Namespace, plan: Plan, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Random arrays for the inputs without a file."""
    from anyrt.cli.exec.arrays import drawn
    from anyrt.cli.exec.flags import Given
    from anyrt.cli.exec.shapes import shapes
    from anyrt.cli.guess import Guess

    missing = [b for b in plan.bindings if b.is_input and b.name not in feeds]
    if missing and not args.random:
        do = f"add --input {missing[0].name}=FILE, or --random"
        raise BindingError("AR701", missing[0].name, "no array", "an array for each input", do)
    requested, guess = shapes(Given({"shapes": args.shapes}).pairs("shapes"), "--shapes"), Guess()
    for name in requested:
        if name not in {b.name for b in missing}:
            known = ", ".join(b.name for b in missing) or "none"
            raise BindingError("AR706", "--shapes", repr(name), f"an input without a file: {known}")
    out = {}
    for binding in missing:
        shape = requested.get(binding.name) or guess.of_input(plan, binding)
        out[binding.name] = drawn(binding.dtype, shape, args.seed)
    guess.warn("run")
    return out


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise ArgumentError("AR304", option, repr(text), "numbers separated by commas") from None


def _pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    split = [text.partition("=") for text in texts]
    for name, equals, path in split:
        if not (name and equals and path):
            got, do = repr(name + equals + path), f"write {option} x=x.npy"
            raise ArgumentError("AR304", option, got, "NAME=FILE", do)
    return [(name, path) for name, _, path in split]


def _native(plan: bytes | Path, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
    from anyrt.api.run.runtime import Runtime
    from anyrt.cli.progress import Lines
    from anyrt.core.flags import strict

    with strict():
        runtime = Runtime(Lines())
        runtime.check_weights = False  # `run` has checked them
        engine = runtime.deserialize_cuda_engine(plan)
        assert engine is not None, "strict() makes it an error"
        return engine.run(**feeds)


def _other(file: PlanFile, feeds: Mapping[str, Array], name: str) -> Mapping[str, Array]:
    from anyrt.api.edge.module import get_plugin_registry
    from anyrt.api.plugins.interpreter import callable_plugins
    from anyrt.backends.loader import all_backends
    from anyrt.compiler.driver import lower_plan
    from anyrt.compiler.trial import job
    from anyrt.runtime.formats import from_memory, to_memory
    from anyrt.runtime.shapes import check_shape, value_of

    backends = all_backends()
    if name not in backends:
        wanted, do = f"one of {', '.join(backends)}", "`anyrt info` lists the backends"
        raise ArgumentError("AR304", "--backend", repr(name), wanted, do)
    target = backends[name].target()
    lowered = lower_plan(file, target)
    bindings = {b.name: b for b in file.plan.bindings}
    for tensor, array in feeds.items():
        check_shape(bindings[tensor], array.shape, None)
    sizes = _sizes(file.plan, feeds)
    memory = {n: to_memory(bindings[n], x) for n, x in feeds.items()}
    work = job(lowered, at_most(sizes, file.plan.sym_by_name.values()))  # if data-dependent
    external = callable_plugins(work.external, get_plugin_registry())
    answer = target.run(replace(work, external=external), memory)
    print(answer.notes)
    counts = {s.tensor for s in file.plan.symbols} - feeds.keys()
    outputs = {n: x for n, x in answer.outputs.items() if n not in counts}
    sizes |= _sizes(file.plan, answer.outputs)
    shapes = {n: tuple(value_of(d, sizes) for d in bindings[n].shape) for n in outputs}
    return {n: from_memory(bindings[n], x, shapes[n]) for n, x in outputs.items()}


def _sizes(plan: Plan, arrays: Mapping[str, Array]) -> dict[str, int]:
    """The values of symbolic dimensions that these arrays determine."""
    return {s.name: _size(s, arrays[s.tensor]) for s in plan.symbols if s.tensor in arrays}


def _size(symbol: SymbolRecord, array: Array) -> int:
    return int(array.reshape(-1)[symbol.axis]) if symbol.is_value else array.shape[symbol.axis]


def _row(name: str, x: Array) -> tuple[str, ...]:
    return name, str(x.dtype), str(x.shape), *(f"{v:.6g}" for v in _range(x))


def _range(x: Array) -> tuple[float, float, float]:
    shown = x.astype(np.float64) if x.size else np.array([np.nan])
    return float(shown.min()), float(shown.mean()), float(shown.max())


def _record(name: str, x: Array) -> dict[str, object]:
    low, mean, high = (v if np.isfinite(v) else str(v) for v in _range(x))
    values = {"minimum": low, "mean": mean, "maximum": high}
    return {"output": name, "type": str(x.dtype), "shape": list(x.shape), **values}


COMMAND = Command("run a plan, a model or a script on arrays from files", options, run)
