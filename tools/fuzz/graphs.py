"""Random graphs of primitives: native code compared with the interpreter, kernel by kernel and as a whole."""

from __future__ import annotations

import random

from anyrt.core.machine import REFERENCE
from anyrt.passes import PASSES, passes_for
from benchmarks.random_graphs import Seeded, filtered_case, random_case
from tests.codegen.test_random_graphs import LEVELS, assert_agrees


def wrong(seed: int) -> str:
    """How code for the graph of a seed differs; "" if it does not."""
    dice = Seeded(random.Random(seed))
    tiles = seed % 10 == 0
    case = filtered_case(dice) if tiles else random_case(dice)
    level, optimise, checked = dice.pick(*LEVELS), tiles or dice.flag(), dice.flag()
    graph = case.graph
    if not case.sizes:  # sizes for which the graph is invalid
        return ""
    for step in (passes_for(REFERENCE, (dice.pick(2, 4),), True) if tiles else PASSES) if optimise else ():
        graph = step.run(graph)
    try:
        assert_agrees(case, graph, level, checked)
    except AssertionError as error:
        return f"{error} {case!r}"[:2000]
    return ""
