"""If: a condition selects one of two branches of a network; only that branch is computed.

conditional = network.add_if_conditional()
conditional.set_condition(flag)
x = conditional.add_input(x).get_output(0)
y = conditional.add_output(network.add_unary(x, EXP).get_output(0), x).get_output(0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from anyrt.core.counts import counts, is_open
from anyrt.core.dims import Sym, bounds, maximum
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import DTypeError, ShapeError
from anyrt.ir.counted import mentioned
from anyrt.ir.graph import Shape, Value, apply_all, walk
from anyrt.ir.symbolic import known
from anyrt.ops._check import show
from anyrt.ops._record import AnyOp, Array, Attrs, Input, Layer, Method, Op
from anyrt.ops._regions import (
    Network,
    Region,
    Results,
    Tells,
    depending,
    replaced,
    size_of,
    telling,
    with_room,
    without_counts,
    without_room,
)
from anyrt.ops._types import EVERY
from anyrt.prims.chosen import Chosen


@dataclass(frozen=True, slots=True)
class Passed:
    """A tensor that the branches read as `inner`."""

    inner: Value
    tensor: Value


@dataclass(frozen=True, slots=True)
class Either:
    """An output: its value if the condition is true, and if it is false."""

    where: str
    then: Value
    otherwise: Value

    def room(self, inside: frozenset[Sym]) -> Shape:
        """The shape that can hold either value; `inside`: the data-dependent dimensions of the branches."""
        shapes = (without_counts(v.shape, inside) for v in (self.then, self.otherwise))
        return tuple(a if a == b else maximum(a, b) for a, b in zip(*shapes, strict=True))

    def open(self, inside: frozenset[Sym]) -> tuple[int, ...]:
        """The axes whose dimensions depend on the selected branch."""
        pairs = enumerate(zip(self.then.shape, self.otherwise.shape, strict=True))
        return tuple(k for k, (a, b) in pairs if a != b or counts(a) & inside)


@dataclass(frozen=True, slots=True)
class Conditional:
    """A conditional, as its layers describe it."""

    where: str
    condition: Value
    passed: Sequence[Passed]
    outputs: Sequence[Either]
    name: str = ""

    def values(self, network: Network) -> Results:
        """The outputs in the enclosing network."""
        tensors = {p.inner: p.tensor for p in self.passed}
        branches = [[x.then for x in self.outputs], [x.otherwise for x in self.outputs]]
        tells = telling([v for branch in branches for v in branch], network)
        flag = self._flag()
        if flag is not None:
            chosen = branches[0 if flag else 1]
            done = replaced([*chosen, *tells.values()], tensors)
            return Results(tuple(done[v] for v in chosen), tuple(done[v] for v in tells.values()))
        for x in self.outputs:
            _check_alike(x)
        branches, before = _counted_before(branches, tells, tensors)
        tells |= before
        dynamic = depending([], tensors, tells)
        inside = frozenset(sym for sym, value in tells.items() if value in dynamic)
        branches = [self._results(branch, inside) for branch in branches]
        region = Region(tuple(tensors), tells)
        region.inside([v for branch in branches for v in branch])
        named = [(f"input{n}", v) for n, v in enumerate(tensors)]
        results = [[(f"output{n}", v) for n, v in enumerate(branch)] for branch in branches]
        then, otherwise = (region.graph(named, outcome, network.names) for outcome in results)
        choice = Chosen(then, otherwise, self.name)
        items = iter(apply_all(choice, self.condition, *tensors.values(), *region.around))
        ends = [(next(items), {axis: next(items) for axis in x.open(inside)}, x.where) for x in self.outputs]
        return Results(tuple(without_room(*end) for end in ends), tuple(before.values()))

    def _flag(self) -> int | None:
        """The condition, if it is constant or has one value for all shapes that the profiles permit."""
        elements = known(self.condition)
        low, high = (0, 1) if elements is None else bounds(elements.reshape(-1)[0])
        return int(low) if low == high else None

    def _results(self, branch: Sequence[Value], inside: frozenset[Sym]) -> list[Value]:
        """A branch's results: outputs in the shape that holds both, then their dimensions on open axes."""
        results = list[Value]()
        for value, x in zip(branch, self.outputs, strict=True):
            results.append(with_room(value, x.room(inside)))
            results += [size_of(value.shape[axis]) for axis in x.open(inside)]
        return results


def _counted_before(
    branches: Sequence[Sequence[Value]], tells: Tells, tensors: Mapping[Value, Value]
) -> tuple[list[list[Value]], dict[Sym, Value]]:
    """The branches, and the values that compute dimensions without an upper bound. Memory is allocated before
    a branch is selected, so these are computed before, from the tensors that are passed in."""
    early = {sym: value for sym, value in tells.items() if is_open(sym)}
    while missing := (mentioned(walk(early.values())) & tells.keys()) - early.keys():
        early |= {sym: tells[sym] for sym in missing}
    outside = replaced(early.values(), tensors)
    before = {sym: outside[value] for sym, value in early.items()}
    roots = [v for branch in branches for v in branch]
    done = replaced(roots, {value: outside[value] for value in early.values()})
    return [[done[v] for v in branch] for branch in branches], before


def _check_alike(x: Either) -> None:
    """Check that both branches return the same type and rank."""
    a, b = x.then, x.otherwise
    if a.dtype is not b.dtype:
        got = f"{short_name(a.dtype)} if true and {short_name(b.dtype)} if false"
        raise DTypeError("AR203", x.where, got, "one type in both branches", "insert a cast")
    if a.type.rank != b.type.rank:
        got, wanted = f"{show(a.shape)} if true and {show(b.shape)} if false", "one rank in both branches"
        do = "reshape one with add_shuffle, or make the condition constant"
        raise ShapeError("AR123", x.where, got, wanted, do)


def _expand(layer: Layer[Any]) -> NoReturn:  # Any: attributes of any of them
    raise AssertionError(f"{layer.name} is expanded by its conditional")


def _ref(attrs: Attrs, arrays: tuple[Array, ...]) -> NoReturn:
    raise AssertionError(f"{attrs} have no reference outside their conditional")


def _border(
    layer: LayerType,
    cls: str,
    method: Method,
    inputs: tuple[Input, ...],
    doc: str,
    outputs: tuple[str, ...] = ("output",),
) -> AnyOp:
    return Op(
        layer=layer,
        cls=cls,
        methods=(method,),
        inputs=inputs,
        attrs=Attrs,
        expand=_expand,
        ref=_ref,
        doc=doc,
        cases=tuple,
        onnx=("If",),
        outputs=outputs,
        source="operator page If",
        within="IIfConditional",
    )


OPS = (
    _border(
        LayerType.CONDITION,
        "IConditionLayer",
        Method("set_condition", ("condition",), example="conditional.set_condition(flag)"),
        (Input("condition", frozenset({DataType.BOOL})),),
        "The condition that selects the branch: a bool of rank 0.",
        outputs=(),
    ),
    _border(
        LayerType.CONDITIONAL_INPUT,
        "IIfConditionalInputLayer",
        Method("add_input", ("input",), example="layer = conditional.add_input(x)"),
        (Input("input", EVERY),),
        "Passes a tensor to the branches. Layers that depend on it are computed only in the selected "
        "branch. The exceptions are data-dependent dimensions without an upper bound and layers that depend "
        "only on other tensors: these are computed before, whichever branch is selected.",
    ),
    _border(
        LayerType.CONDITIONAL_OUTPUT,
        "IIfConditionalOutputLayer",
        Method(
            "add_output",
            ("true_subgraph_output", "false_subgraph_output"),
            example="layer = conditional.add_output(y, z)",
            label="Output",
        ),
        (Input("true_subgraph_output", EVERY), Input("false_subgraph_output", EVERY)),
        "Returns the first tensor if the condition is true, else the second one. Both have the same type "
        "and rank. If their dimensions differ, or one is data-dependent inside a branch, the dimension of "
        "the output is data-dependent: it is -1 before an inference.",
    ),
)
