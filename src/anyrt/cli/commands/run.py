"""`anyrt run PLAN --input x=x.npy`: run one inference on arrays from files.

anyrt run net.plan --input x=photo.npy --output y=result.npy
anyrt run net.plan --input x=photo.npy --backend interp      run the kernels in the interpreter
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anyrt.cli.command import Command
from anyrt.cli.exec.arrays import npy
from anyrt.cli.libraries import loaded
from anyrt.cli.show import print_table
from anyrt.compiler.cached import mixer
from anyrt.core.counts import at_most
from anyrt.core.dtype import numpy_dtype
from anyrt.core.errors import ArgumentError, BindingError
from anyrt.plan.disk import open_regular, write_atomically
from anyrt.plan.file import PlanFile, map_plan
from anyrt.plan.plan import Plan, SymbolRecord

Array = NDArray[Any]  # Any: of whatever element type the file has
NATIVE: Final = "cpu"


def options(parser: ArgumentParser) -> None:
    """The plan, its inputs, and the files for its outputs."""
    parser.description = __doc__
    parser.add_argument("plan", type=Path, help="a plan file")
    add = parser.add_argument
    add("--input", action="append", default=[], metavar="NAME=FILE", help="read an input from a .npy file")
    add("--output", action="append", default=[], metavar="NAME=FILE", help="write an output to a .npy file")
    add("--plugins", action="append", default=[], metavar="FILE", help="load this plug-in library first")
    add("--backend", default=NATIVE, help="backend: cpu (default), interp or null")


def run(args: Namespace) -> None:
    """Run the plan, print one line per output, and write the requested outputs."""
    file = map_plan(args.plan, mixer=mixer)
    feeds = {name: _read(file, name, Path(path)) for name, path in _pairs("--input", args.input)}
    missing = [b.name for b in file.plan.bindings if b.is_input and b.name not in feeds]
    if missing:
        do = f"add --input {missing[0]}=FILE.npy"
        raise BindingError("AR701", missing[0], "no array", "an array for each input", do)
    targets = dict(_pairs("--output", args.output))
    known = [b.name for b in file.plan.bindings if not b.is_input]
    for name in targets:
        if name not in known:
            do = "check the spelling"
            raise BindingError("AR706", "--output", repr(name), f"one of {', '.join(known)}", do)
    with loaded(args.plugins):
        outputs = _native(args.plan, feeds) if args.backend == NATIVE else _other(file, feeds, args.backend)
    print_table(
        ("output", "type", "shape", "minimum", "mean", "maximum"), [_row(*x) for x in outputs.items()]
    )
    for name, path in targets.items():
        if name not in outputs:
            got = f"backend {args.backend!r}, which computes no outputs"
            raise BindingError(
                "AR706", f"--output {name}", got, "a backend that computes", f"use --backend {NATIVE}"
            )
        # As `numpy.save` names files.
        write_atomically(Path(path if path.endswith(".npy") else f"{path}.npy"), [npy(outputs[name])])


def _pairs(option: str, given: Sequence[str]) -> list[tuple[str, str]]:
    split = [text.partition("=") for text in given]
    for name, equals, path in split:
        if not (name and equals and path):
            raise ArgumentError(
                "AR304", option, repr(name + equals + path), "NAME=FILE", f"write {option} x=x.npy"
            )
    return [(name, path) for name, _, path in split]


def _read(file: PlanFile, name: str, path: Path) -> Array:
    """The array in a file. NumPy loads types that it does not know, such as bfloat16, as raw bytes."""
    inputs = {b.name: b for b in file.plan.bindings if b.is_input}
    if name not in inputs:
        raise BindingError(
            "AR706", "--input", repr(name), f"one of {', '.join(inputs)}", "check the spelling"
        )
    try:
        with open_regular(path, name) as opened:  # NumPy cannot read a FIFO, but waits for one
            array: Array = np.load(opened, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise BindingError(
            "AR705", name, f"{path}, which NumPy cannot read", "a .npy file", "write it with numpy.save"
        ) from error
    wanted = numpy_dtype(inputs[name].dtype)
    return (
        array.view(wanted) if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize else array
    )


def _native(plan: Path, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
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
    from anyrt.api.plugins.called import callable_plugins
    from anyrt.backends.loader import all_backends
    from anyrt.compiler.driver import lower_plan
    from anyrt.compiler.trial import job
    from anyrt.runtime.formats import from_memory, to_memory
    from anyrt.runtime.shapes import check_shape, value_of

    found = all_backends()
    if name not in found:
        raise ArgumentError(
            "AR304", "--backend", repr(name), f"one of {', '.join(found)}", "`anyrt info` lists the backends"
        )
    target = found[name].target()
    lowered = lower_plan(file, target)
    bindings = {b.name: b for b in file.plan.bindings}
    for tensor, array in feeds.items():
        check_shape(bindings[tensor], array.shape, None)
    sizes = _sizes(file.plan, feeds)
    memory = {n: to_memory(bindings[n], x) for n, x in feeds.items()}
    asked = job(lowered, at_most(sizes, file.plan.sym_by_name.values()))  # where data decide
    external = callable_plugins(asked.external, get_plugin_registry())
    answer = target.run(replace(asked, external=external), memory)
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
    shown = x.astype(np.float64) if x.size else np.array([np.nan])
    return name, str(x.dtype), str(x.shape), *(f"{v:.6g}" for v in (shown.min(), shown.mean(), shown.max()))


COMMAND = Command("run a plan on arrays from .npy files", options, run)
