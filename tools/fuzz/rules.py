"""Inverted rules: graphs of the results of rules, and the same graphs with each rule undone, must be equal.

Two graphs grow in parallel. A step draws a rule and an example that the rule matches; one graph gets the
example, the other one the rule's result for it, on the same operands, which are results of earlier steps if
the types fit. Then the interpreter returns the same for both, bit for bit if all rules are exact, and native
code of the first graph after all passes agrees with the second one."""

from __future__ import annotations

import random

import numpy as np

from anyrt.backends import loader
from anyrt.compiler.trial import constant_offsets
from anyrt.ir.graph import Graph, Value, walk
from anyrt.ir.interpret import interpret
from anyrt.ir.rewrite import with_args
from anyrt.passes import PASSES
from anyrt.passes.rules import RULES
from anyrt.prims import build
from anyrt.prims.const import Param
from anyrt.schedule.cost import Sizes
from tests import native
from tests.codegen.test_random_graphs import whole_run
from tests.passes.test_rules import bits, special

STEPS = 5


def wrong(seed: int) -> str:
    """How the two graphs of a seed differ; "" if they do not."""
    result, built, exact, names = pair(random.Random(seed))
    rng = random.Random(seed)
    feeds = {name: special(value, rng) for name, value in built.inputs}
    with np.errstate(all="ignore"):
        if exact:
            one, other = interpret(result, feeds), interpret(built, feeds)
            odd = [y for y in one if bits(one[y]) != bits(other[y])]
            if odd:
                return f"{names}: the interpreter gives {one[odd[0]]} for {other[odd[0]]} of {feeds}"
        graph = result
        for step in PASSES:
            graph = step.run(graph)
        lowered = native.lower(graph, constant_offsets(graph), Sizes({}))
        differ = {
            name: count
            for name, count in whole_run(native.load(lowered, loader.target()), {}, built).items()
            if count
        }
    return f"{names}: native code differs in {differ}" if differ else ""


def pair(dice: random.Random) -> tuple[Graph, Graph, bool, list[str]]:
    """A graph of examples, one of the rules' results, whether all rules are exact, and their names."""
    pool: list[tuple[Value, Value]] = []
    params: dict[str, Value] = {}
    names, exact = [], True
    for _ in range(dice.randint(1, STEPS)):
        rule = dice.choice(RULES)
        before = rule.example(dice.randrange)
        after = rule.apply(before)
        if not isinstance(after, Value):
            raise AssertionError(f"{rule.name}: its example does not fit: {after}")
        left, right = dict[Value, Value](), dict[Value, Value]()
        for value in walk([before, after]):
            if isinstance(value.op, Param):
                fits = [p for p in pool if p[0].type == value.type]
                if fits and dice.random() < 0.8:
                    left[value], right[value] = dice.choice(fits)
                else:
                    name = f"x{len(params)}"
                    params[name] = left[value] = right[value] = build.param(name, value.shape, value.dtype)
        pool.append((_with(before, left), _with(after, right)))
        names.append(rule.name)
        exact &= not rule.tolerance
    outputs = [(f"y{n}", p) for n, p in enumerate(pool)]
    inputs = tuple(params.items())
    graphs = [Graph(inputs, tuple((name, p[side]) for name, p in outputs)) for side in (0, 1)]
    return graphs[0], graphs[1], exact, names


def _with(root: Value, others: dict[Value, Value]) -> Value:
    """The value with other operands."""
    done = dict(others)
    for value in walk([root]):
        if value not in done:
            done[value] = with_args(value, [done[a] for a in value.args])
    return done[root]
