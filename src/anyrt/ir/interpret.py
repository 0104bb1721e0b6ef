"""The reference interpreter: a graph computed node by node with NumPy, by the primitives' references.

Floats are float64 and are rounded only at outputs (ir/reference.py), and by the stores of statements, as in
any backend.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyrt.core.dims import Dim, as_symbol, symbols
from anyrt.core.dimvalues import evaluate, substitute
from anyrt.core.dtype import cast
from anyrt.core.errors import BindingError
from anyrt.ir.attributes import with_sizes
from anyrt.ir.compute import Extern
from anyrt.ir.counted import computed_inside, computed_sizes, results
from anyrt.ir.graph import Graph, Node, Type, Value, walk
from anyrt.ir.prim import Array, Prim
from anyrt.ir.reference import widen
from anyrt.ir.symbolic import known


def interpret(
    graph: Graph, feeds: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """The outputs by name, each of its NumPy type, for inputs by name.

    `sizes`: the symbols' values by name; by default they are read from the shapes and values of the
    inputs."""
    for name, value in graph.inputs:
        if name not in feeds:
            raise BindingError("AR701", name, got="no array", wanted=f"one of {value.type}")
    if sizes is None:
        sizes = infer_sizes(graph, feeds)
    fed = tuple(_fed(name, feeds[name], value, sizes) for name, value in graph.inputs)
    arrays = _outputs(graph, fed, sizes)
    return {name: cast(array, v.dtype) for (name, v), array in zip(graph.outputs, arrays, strict=True)}


def run_region(region: Graph, args: tuple[Array, ...]) -> tuple[Array, ...]:
    """The results of a region for its inputs, both in order and as the interpreter holds them. References
    call it; their sizes are numbers, except for those that the region computes."""
    for (name, value), array in zip(region.inputs, args, strict=True):
        assert array.shape == value.shape, f"{name} of a region: got {array.shape} instead of {value.type}"
    return _outputs(region, args, {})[: len(results(region))]


def _outputs(graph: Graph, args: tuple[Array, ...], sizes: Mapping[str, int]) -> tuple[Array, ...]:
    arrays = {value: array for (_, value), array in zip(graph.inputs, args, strict=True)}
    for value in walk((*(v for _, v in computed_sizes(graph)), *(v for _, v in graph.outputs))):
        if value not in arrays:
            results = all_results(value.node, tuple(arrays[a] for a in value.args), sizes)
            arrays |= {Value(value.node, k): array for k, array in enumerate(results)}
            if value.op.tells is not None:
                sizes = {**sizes, value.op.tells.name: int(results[0])}
    return tuple(arrays[v] for _, v in graph.outputs)


def _fed(name: str, array: Array, value: Value, sizes: Mapping[str, int]) -> Array:
    expected = _shape(value.type, sizes)
    if array.shape != expected:
        raise BindingError("AR704", name, got=f"shape {array.shape}", wanted=f"{expected} ({value.type})")
    return widen(array, value.dtype)


def compute(value: Value, args: tuple[Array, ...], sizes: Mapping[str, int]) -> Array:
    """One value, for the arrays of its operands."""
    return all_results(value.node, args, sizes)[value.index]


def all_results(node: Node, args: tuple[Array, ...], sizes: Mapping[str, int]) -> tuple[Array, ...]:
    """All results of a node for the arrays of its operands, as the interpreter holds them."""
    shapes = [_shape(of, sizes) for of in node.types]
    results = concrete(node.op, sizes).results(args, shapes[0])
    got = [r.shape for r in results]
    assert got == shapes, f"{Value(node)}: the reference gave {got} instead of {shapes}"
    if isinstance(Value(node).compute, Extern):
        return tuple(widen(cast(r, of.dtype), of.dtype) for r, of in zip(results, node.types, strict=True))
    return results


def infer_sizes(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, int]:
    """The value of every symbol that is a size or a followed element of an input."""
    sizes: dict[str, int] = {}
    for name, value in graph.inputs:
        array, elements = feeds[name], known(value)
        if array.ndim != value.type.rank:
            raise BindingError("AR704", name, got=f"shape {array.shape}", wanted=f"{value.type}")
        pairs = list(zip(value.shape, array.shape, strict=True))
        if elements is not None:
            pairs += [(d, int(n)) for d, n in zip(elements.ravel().tolist(), array.flat, strict=False)]
        sizes |= {sym.name: n for d, n in pairs if (sym := as_symbol(d)) is not None}
    return sizes


def concrete(op: Prim, sizes: Mapping[str, int]) -> Prim:
    """`op` with every size in its attributes evaluated, except for those that its regions compute."""
    own = computed_inside(op) if op.regions else frozenset()

    def known(size: Dim) -> Dim:
        if own.isdisjoint(symbols(size)):
            return evaluate(size, sizes)
        return substitute(size, {s: sizes[s.name] for s in symbols(size) - own})

    return with_sizes(op, known)


def _shape(of: Type, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, sizes) for d in of.shape)
