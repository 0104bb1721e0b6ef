"""Lengths of sequences, and where those of batches end that lie behind one another: inside what there is.

Those that the build knows, or sizes, are conditions on sizes; others are judged by each run, before anything
is computed from them.
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
    """`lengths`, (B,), all of them 0 to `most`, the size of `places`, with what must hold; `things`: what
    each is the length of."""
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
    """`ends`, (B + 1,), where each batch begins and the last one ends, none of them before the one in front
    or behind all `tokens`, with what must hold."""
    do = "give where each batch begins, and the end"
    elements = known(ends)
    if elements is None:
        ends = cast(ends, DataType.INT64)
        size = f"{tokens}" if isinstance(tokens, int) else "the number of tokens"
        rule = Assertion(CODE, layer, f"{{}} in {name}", f"numbers from 0 to {size} that ascend", do)
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
        rules += need(layer, a, Relation.LE, b, CODE, got, f"{a} not behind {b}", do)
    return ends, rules


def _judged(v: Value, lengths: Value, beyond: Value, rule: Assertion) -> Value:
    """`v`, where no length lies below 0 or `beyond`."""
    wrong = map_("or", map_("lt", lengths, scalar(0, lengths)), beyond)
    return apply(Asserted(rule), v, reshape(_wrong_number(lengths, wrong), ()))


def _wrong_number(numbers: Value, wrong: Value) -> Value:
    """One of the numbers that are wrong, FINE where none is."""
    seen = map_("max", numbers, scalar(FINE + 1, numbers))
    return reduce_("max", map_("select", wrong, seen, scalar(FINE, numbers)), (0,))
