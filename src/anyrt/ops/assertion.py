"""Assertion: a condition that the build or each inference requires.

add_assertion(condition, "the batch is even")      # condition: bool, rank 0 or 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import FINE, Assertion, Relation
from anyrt.ir.graph import Value, apply
from anyrt.ir.symbolic import known
from anyrt.ops._check import checked, need, show
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import iota, map_, reduce_, reshape, scalar

NOWHERE: Final = (1 << 63) - 1  # after every element


@dataclass(frozen=True, slots=True)
class AssertionAttrs(Attrs):
    """Attributes of Assertion."""

    message: str = attr(Kind.TEXT, "the text of the error if the condition is False")


def expand(layer: Layer[AssertionAttrs]) -> tuple[Value, ...]:
    """`Checked` if the condition is known or follows from sizes; else `Asserted`, with the position of the
    first element that is False, a `Reduce`. The network's first output waits for it."""
    condition, do = layer.input(0), layer.attrs.message or "pass inputs that satisfy it"
    if condition.type.rank > 1:
        got = f"a condition of shape {show(condition.shape)}"
        raise ShapeError("AR124", layer.name, got, "rank 0 or 1", "reduce it with add_reduce, or reshape it")
    elements = known(condition)
    if elements is None:
        got, wanted = "False for element {} of the condition", "True for all of them"
        asserted = Asserted(Assertion("AR410", layer.name, got, wanted, do))
        return (apply(asserted, condition, _first_wrong(condition)),)
    rules = (
        need(layer.name, x, Relation.EQ, 1, "AR410", f"False for element {i} of the condition", "True", do)
        for i, x in enumerate(elements.reshape(-1).tolist())
    )
    return (checked(condition, [rule for group in rules for rule in group]),)


def _first_wrong(condition: Value) -> Value:
    """The position of the first element that is False, or FINE if all are True."""
    shape = condition.shape or (1,)
    at = iota(shape, 0, DataType.INT64)
    first = reduce_("min", map_("select", reshape(condition, shape), scalar(NOWHERE, at), at), (0,))
    holds = map_("eq", first, scalar(NOWHERE, first))
    return reshape(map_("select", holds, scalar(FINE, first), first), ())


def ref(attrs: AssertionAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The condition. Raises ValueError if it is False."""
    if not arrays[0].all():
        raise ValueError(attrs.message)
    return (arrays[0],)


def cases() -> tuple[Case[AssertionAttrs], ...]:
    """True conditions on data, and one without elements."""
    a, holds = AssertionAttrs("it holds"), DataType.BOOL
    return tuple(
        Case(a, (shape,), (holds,), (np.ones(shape, np.bool_),)) for shape in ((), (1,), (5,), (0,), (100,))
    )


def mistakes() -> tuple[Mistake[AssertionAttrs], ...]:
    """Other types and ranks."""
    a = AssertionAttrs("it holds")
    return (
        Mistake("AR124", "a condition of more than one axis", a, ((2, 2),), (DataType.BOOL,)),
        Mistake("AR202", "a condition that is not of bool", a, ((2,),), (DataType.INT32,)),
    )


OPS = (
    Op(
        layer=LayerType.ASSERTION,
        cls="IAssertionLayer",
        methods=(
            Method(
                "add_assertion",
                ("condition", "message"),
                example="equal = trt.ElementWiseOperation.EQUAL\n"
                "sizes = network.add_shape(a).get_output(0), network.add_shape(b).get_output(0)\n"
                "alike = network.add_elementwise(*sizes, equal).get_output(0)\n"
                'layer = network.add_assertion(alike, "a and b have one shape")',
            ),
        ),
        inputs=(Input("condition", frozenset({DataType.BOOL})),),
        attrs=AssertionAttrs,
        expand=expand,
        ref=ref,
        doc="Raises AR410 with the message unless all elements of a condition are True. The builder checks a "
        "known condition. A condition on sizes is checked when shapes are set. Other conditions are checked "
        "by each inference, before it writes an output. Conditions on data, and those with more than 64 "
        "elements, are extensions. The layer has no output.",
        cases=cases,
        mistakes=mistakes,
        outputs=(),
        source="operator page Assertion",
    ),
)
