"""Checks of the lengths of sequences, and of the ends of batches of packed tokens.

Lengths that the build knows, or that are sizes, are conditions on sizes. Each inference checks other lengths
before it computes anything from them.
"""

from __future__ import annotations

from anyrt.core.dims import Dim
from anyrt.core.enums import DataType
from anyrt.core.requirement import FINE, Assertion, Relation
from anyrt.ir.graph import Value, apply
from anyrt.ir.symbolic import known
from anyrt.ops._check import Requirements, need
from anyrt.ops._math import number
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import cast, map_, reduce_, reshape, scalar, slice_

CODE = "AR133"


def lengths_within(
    layer: str, lengths: Value, most: Dim, things: str, places: str
) -> tuple[Value, Requirements]:
    """`lengths`, (B,), checked to be 0 to `most`, the size of `places`; and requirements. `things`: the name
    of the elements that are counted, for messages."""
    do = f"give lengths of 0 to the size of {places}"
    elements = known(lengths)
    if elements is None:
        lengths = cast(lengths, DataType.INT64)
        size = f"{most}" if isinstance(most, int) else f"the size of {places}"
        rule = Assertion(CODE, layer, f"{things} of length {{}}", f"lengths of 0 to {size}", do)
        return _judged(lengths, lengths, map_("lt", number(most, lengths), lengths), rule), ()
    rules: Requirements = ()
    for n in elements.reshape(-1).tolist():
        rules += need(layer, 0, Relation.LE, n, CODE, f"length {n}", "0 or more", do)
        rules += need(layer, n, Relation.LE, most, CODE, f"length {n}", f"at most {most}", do)
    return lengths, rules


def ends_within(layer: str, ends: Value, tokens: Dim, name: str) -> tuple[Value, Requirements]:
    """`ends`, (B + 1,), the start of each batch and the end of the last one, checked to ascend from 0 to
    `tokens`; and requirements."""
    do = "pass the start of each batch, and the end"
    elements = known(ends)
    if elements is None:
        ends = cast(ends, DataType.INT64)
        size = f"{tokens}" if isinstance(tokens, int) else "the number of tokens"
        rule = Assertion(CODE, layer, f"{{}} in {name}", f"ascending numbers from 0 to {size}", do)
        count = ends.shape[0] + -1
        before, behind = (slice_(ends, (k,), (count,), (1,)) for k in range(2))
        wrong = map_("or", map_("lt", behind, before), map_("lt", number(tokens, behind), behind))
        shown = _wrong_number(before, map_("lt", before, scalar(0, before)))
        shown = map_("max", shown, _wrong_number(behind, wrong))
        return apply(Asserted(rule), ends, reshape(shown, ())), ()
    rules: Requirements = ()
    numbers = elements.reshape(-1).tolist()
    for a, b in zip([0, *numbers], [*numbers, tokens], strict=True):
        got = f"{name} of {', '.join(map(str, numbers))} for {tokens} tokens"
        rules += need(layer, a, Relation.LE, b, CODE, got, f"{a} <= {b}", do)
    return ends, rules


def _judged(v: Value, lengths: Value, beyond: Value, rule: Assertion) -> Value:
    """`v`, with the assertion that no length is negative or `beyond` the limit."""
    wrong = map_("or", map_("lt", lengths, scalar(0, lengths)), beyond)
    return apply(Asserted(rule), v, reshape(_wrong_number(lengths, wrong), ()))


def _wrong_number(numbers: Value, wrong: Value) -> Value:
    """One of the wrong numbers, or FINE if there is none."""
    seen = map_("max", numbers, scalar(FINE + 1, numbers))
    return reduce_("max", map_("select", wrong, seen, scalar(FINE, numbers)), (0,))
