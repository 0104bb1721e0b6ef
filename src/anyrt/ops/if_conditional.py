"""If: one of two parts of a network is computed, as a condition says; the other one costs nothing.

conditional = network.add_if_conditional()
conditional.set_condition(flag)
x = conditional.add_input(x).get_output(0)
y = conditional.add_output(network.add_unary(x, EXP).get_output(0), x).get_output(0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from anyrt.core.counts import count
from anyrt.core.dims import add, maximum, mul
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import DTypeError, ShapeError
from anyrt.ir.graph import Shape, Value, apply, apply_all
from anyrt.ir.symbolic import known
from anyrt.ops._check import show
from anyrt.ops._math import number
from anyrt.ops._record import AnyOp, Array, Attrs, Input, Layer, Method, Op
from anyrt.ops._regions import Cut, Names, replaced
from anyrt.ops._types import EVERY
from anyrt.prims.build import const, gather, iota, map_, pad, reshape, scalar
from anyrt.prims.chosen import Chosen
from anyrt.prims.count import Count


@dataclass(frozen=True, slots=True)
class Passed:
    """A tensor that is read inside, where it is `inner`."""

    inner: Value
    tensor: Value


@dataclass(frozen=True, slots=True)
class Either:
    """An output: what it is if the condition is true, and if it is not."""

    where: str
    then: Value
    otherwise: Value

    @property
    def room(self) -> Shape:
        """The sizes of what holds either."""
        pairs = zip(self.then.shape, self.otherwise.shape, strict=True)
        return tuple(a if a == b else maximum(a, b) for a, b in pairs)


@dataclass(frozen=True, slots=True)
class Conditional:
    """A choice as its layers say."""

    where: str
    condition: Value
    passed: Sequence[Passed]
    outputs: Sequence[Either]
    name: str = ""

    def values(self, names: Names) -> tuple[Value, ...]:
        """The outputs; `names`: the layers that values belong to."""
        tensors = {p.inner: p.tensor for p in self.passed}
        branches = [[x.then for x in self.outputs], [x.otherwise for x in self.outputs]]
        elements = known(self.condition)
        if elements is not None and isinstance(flag := elements.reshape(-1)[0], int):
            chosen = branches[0 if flag else 1]
            done = replaced(chosen, tensors)
            return tuple(done[v] for v in chosen)
        for x in self.outputs:
            _check_alike(x)
        branches = [[_with_room(v, x.room) for v, x in zip(b, self.outputs, strict=True)] for b in branches]
        cut = Cut(tuple(tensors))
        cut.inside([v for branch in branches for v in branch])
        named = [(f"input{n}", v) for n, v in enumerate(tensors)]
        results = [[(f"output{n}", v) for n, v in enumerate(branch)] for branch in branches]
        then, otherwise = (cut.graph(named, found, names) for found in results)
        choice = Chosen(then, otherwise, self.name)
        made = apply_all(choice, self.condition, *tensors.values(), *cut.around)
        return tuple(_without_room(y, x, self.condition) for y, x in zip(made, self.outputs, strict=True))


def _check_alike(x: Either) -> None:
    """Both branches make one type, and one rank."""
    a, b = x.then, x.otherwise
    if a.dtype is not b.dtype:
        got = f"{short_name(a.dtype)} if true and {short_name(b.dtype)} if not"
        raise DTypeError("AR203", x.where, got, "one type", "insert a cast")
    if a.type.rank != b.type.rank:
        got, do = f"{show(a.shape)} if true and {show(b.shape)} if not", "reshape one with add_shuffle"
        raise ShapeError("AR123", x.where, got, "one rank", do)


def _with_room(value: Value, room: Shape) -> Value:
    """The value, and zeros behind it."""
    if value.shape == room:
        return value
    behind = [add(most, mul(size, -1)) for most, size in zip(room, value.shape, strict=True)]
    return pad(value, (0,) * len(room), behind, 0)


def _without_room(made: Value, x: Either, flag: Value) -> Value:
    """What was made, of the sizes that the condition decides."""
    like = const(0, DataType.INT64)
    for axis, (a, b) in enumerate(zip(x.then.shape, x.otherwise.shape, strict=True)):
        if a != b:
            size = map_("select", flag, number(a, like), number(b, like))
            sym = count(f"{x.where}: size {axis}", maximum(a, b))
            told = apply(Count(sym), size)
            shape = (*made.shape[:axis], sym.dim, *made.shape[axis + 1 :])
            last = reshape(map_("sub", told, scalar(1, told)), (1,) * len(shape))
            made = gather(made, map_("min", iota(shape, axis, DataType.INT64), last), axis)
    return made


def _expand(layer: Layer[Any]) -> NoReturn:  # Any: attributes of any of them
    raise AssertionError(f"{layer.name} means nothing without its conditional")


def _ref(attrs: Attrs, arrays: tuple[Array, ...]) -> NoReturn:
    raise AssertionError(f"{attrs} means nothing without its conditional")


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
        "What the choice depends on: a bool of rank 0.",
        outputs=(),
    ),
    _border(
        LayerType.CONDITIONAL_INPUT,
        "IIfConditionalInputLayer",
        Method("add_input", ("input",), example="layer = conditional.add_input(x)"),
        (Input("input", EVERY),),
        "A tensor as the branches read it. What is made of it is computed in the branch that is chosen, and "
        "in no other; what is made of other tensors alone is computed before, whatever is chosen.",
    ),
    _border(
        LayerType.CONDITIONAL_OUTPUT,
        "IIfConditionalOutputLayer",
        Method(
            "add_output",
            ("true_subgraph_output", "false_subgraph_output"),
            example="layer = conditional.add_output(y, z)",
        ),
        (Input("true_subgraph_output", EVERY), Input("false_subgraph_output", EVERY)),
        "The first tensor if the condition is true, else the second one, of the same type and rank. Where "
        "their sizes differ, the data decide that of the output, which is -1 before a run.",
    ),
)
