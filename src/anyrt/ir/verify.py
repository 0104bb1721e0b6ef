"""The rules of graphs, which every pass may rely on. Graphs are checked after every pass, and kernels by
their own rules (ir/kernelrules.py) when they are created.

The functions return violations as text (for a graph from a plan they become other errors than for a pass);
`assert_graph` and `assert_kernel` raise, since only an internal error causes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final, TypeAlias

from anyrt.core.counts import is_open
from anyrt.core.dtype import is_float, short_name
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError, CompileError
from anyrt.ir.counted import computed_sizes
from anyrt.ir.graph import Graph, Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.prim import Prim

SOUND: Final = "sound"  # key in `Graph.kept`: the graph has been checked


def assert_graph(graph: Graph, param: type[Prim], where: str, before: Graph | None = None) -> None:
    """Raises if `graph` breaks a rule; `where` names the pass that created it from `before`. The types of
    values that `before` had, too, are not inferred again if it was checked, as values never change."""
    known = set(before.values) if before is not None and SOUND in before.kept else set()
    _raise_first(graph_faults(graph, param, known), where)
    graph.kept[SOUND] = True


def assert_kernel(kernel: Kernel) -> None:
    """Raises when `kernel` breaks a rule."""
    _raise_first(kernel_faults(kernel), f"kernel {kernel.name}")


def _raise_first(faults: Iterator[str], where: str) -> None:
    first = next(faults, None)
    if first is not None:
        raise CompileError("AR807", where, got=first, do="report this as a bug")


Path: TypeAlias = "tuple[str, Path] | None"  # to a region, the innermost first


def graph_faults(graph: Graph, param: type[Prim], known: Set[Value] = frozenset()) -> Iterator[str]:
    """The violations in `graph` and its regions; inputs are created by the primitive `param`. `known`: values
    whose types were verified before."""
    todo: list[tuple[Graph, Path]] = [(graph, None)]  # regions are deeper than Python recurses
    while todo:
        inner, path = todo.pop()
        order = inner.values
        yield from (f"{_said(path)}{fault}" for fault in _faults(inner, order, param, known))
        for node in dict.fromkeys(v.node for v in order):
            for number, region in enumerate(node.op.regions):
                below = f"region {number} of {inner.name(Value(node))}", path
                yield from (f"{_said(below)}{fault}" for fault in _size_faults(region))
                todo.append((region, below))


def _said(path: Path) -> str:
    said = ""
    while path is not None:
        said, path = f"{path[0]}: {said}", path[1]
    return said


def _faults(graph: Graph, order: Sequence[Value], param: type[Prim], known: Set[Value]) -> Iterator[str]:
    """The violations in the graph itself."""
    yield from _name_faults(graph, param)
    declared = {value for _, value in graph.inputs}
    for value in order:
        if isinstance(value.op, param) and value not in declared:
            yield f"{graph.name(value)} ({value.op}) is used and is not an input"
    types = [fault for value in order if value not in known for fault in _type_faults(graph, value)]
    yield from types or _narrow_faults(graph, order)


def _size_faults(region: Graph) -> Iterator[str]:
    tells = dict(computed_sizes(region))
    for symbol in region.symbols:
        if symbol.sym not in tells:
            yield f"{symbol.sym} is read from an input that is known only at run time"
        elif is_open(symbol.sym):
            yield f"{symbol.sym} has no upper bound"


def _name_faults(graph: Graph, param: type[Prim]) -> Iterator[str]:
    for role, named in (("input", graph.inputs), ("output", graph.outputs)):
        for name, count in Counter(name for name, _ in named).items():
            if count > 1:
                yield f"{count} {role}s named {name!r}"
    for name, value in graph.inputs:
        if not isinstance(value.op, param):
            yield f"input {name!r} is a result of {type(value.op).__name__}"
    if not graph.outputs:
        yield "no outputs"
    for symbol in graph.symbols:
        is_input = symbol.tensor in {name for name, _ in graph.inputs}
        if not is_input and symbol.sym not in dict(computed_sizes(graph)):
            yield f"symbol {symbol.sym} is read from {symbol.tensor!r}, which is not an input"
    yield from _update_faults(graph)


def _update_faults(graph: Graph) -> Iterator[str]:
    inputs, outputs = dict(graph.inputs), dict(graph.outputs)
    for output, source in graph.updates:
        if output not in outputs or source not in inputs:
            yield f"{output!r} is in the memory of {source!r}, which are not an output and an input"
        elif outputs[output].type != inputs[source].type:
            yield f"{output!r} is in the memory of {source!r}, which has another type"
    for names in zip(*graph.updates, strict=True):
        yield from (f"{n!r} has two updates" for n, count in Counter(names).items() if count > 1)


def _narrow_faults(graph: Graph, order: Iterable[Value]) -> Iterator[str]:
    """float64 that depends, through floats, on a narrower float that was converted from float64, unless the
    network requests that (`Prim.narrows`). Regions are separate graphs."""
    less: set[Value] = set()
    for value in order:
        if not is_float(value.dtype) or value.op.regions:
            continue
        lossy = [a for a in value.args if a in less]
        if value.dtype is DataType.DOUBLE and lossy:
            yield f"{graph.name(value)} is float64 and was computed in {short_name(lossy[0].dtype)}"
        if value.dtype is not DataType.DOUBLE and not value.op.narrows:
            less.update({value} if lossy or any(a.dtype is DataType.DOUBLE for a in value.args) else ())


def _type_faults(graph: Graph, value: Value) -> Iterator[str]:
    try:
        inferred = value.op.types(tuple(a.type for a in value.args))
    except AnyrtError as error:
        yield f"{graph.name(value)}: {error}"
        return
    if inferred != value.node.types:
        got, wanted = (", ".join(map(repr, types)) for types in (value.node.types, inferred))
        yield f"{graph.name(value)} has type {got}, its rule infers {wanted}"
    elif not 0 <= value.index < len(inferred):
        yield f"{graph.name(value)} is result {value.index} of {len(inferred)}"
