"""Strategies are lists: steps can be removed or replaced."""

from dataclasses import replace

import pytest

from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.core.dims import Sym
from anyrt.core.machine import REFERENCE
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import Names
from anyrt.schedule.cost import Sizes
from anyrt.schedule.step import Context, Step, carry_out, names_of, recipe

KERNEL = Kernel("k", Sym("p", extent=1), ())
CONTEXT = Context(Names(), None, Sizes({}), REFERENCE, None, 1, lambda: None, {}, {})
IDLE = Step("idle", lambda kernel, context: Fail("idle"))


def test_a_step_that_is_left_out_is_gone_from_every_list():
    edited = STRATEGIES.without("tile", "prefetch")
    assert "tile" not in edited.names
    usual = names_of(STRATEGIES.of("reduction"))
    assert names_of(edited.of("reduction")) == tuple(n for n in usual if n != "prefetch")
    assert STRATEGIES.without() == STRATEGIES != edited


def test_a_step_that_is_gone_already_may_be_left_out_again():
    assert STRATEGIES.without("tile").without("tile") == STRATEGIES.without("tile")


def test_another_step_stands_where_the_first_one_stood():
    edited = STRATEGIES.instead("tile", IDLE)
    assert names_of(edited.of("map")).index("idle") == names_of(STRATEGIES.of("map")).index("tile")
    assert names_of(edited.of("stencil")).index("idle") == names_of(STRATEGIES.of("stencil")).index("tile")
    assert edited.of("reduction") == STRATEGIES.of("reduction")


def test_steps_that_share_a_decision_are_left_out_and_replaced_like_others():
    idle = Step("idle too", IDLE.apply)
    edited = STRATEGIES.without("peel").instead("accumulate", IDLE).instead("idle", idle)
    usual = names_of(STRATEGIES.of("contraction"))
    expected = tuple("idle too" if n == "accumulate" else n for n in usual if n != "peel")
    assert names_of(edited.of("contraction")) == expected


def test_a_decision_is_taken_once_of_the_kernel_that_steps_before_have_left():
    seen = []
    steps = {n: lambda kernel, c, choice: seen.append(choice) or Fail("seen") for n in ("one", "two")}
    part = recipe(lambda kernel, c: seen.append("choose") or kernel.name, steps)
    begin = Step("named", lambda kernel, c: replace(kernel, name="after"))
    carry_out((begin, part), KERNEL, CONTEXT)
    assert seen == ["choose", "after", "after"]


def test_no_step_applies_where_its_decision_fails():
    part = recipe(lambda kernel, c: Fail("no sum"), {"one": lambda kernel, c, choice: kernel})
    (step,) = part.steps(KERNEL, CONTEXT)
    assert step.apply(KERNEL, CONTEXT) == Fail("no sum")


def test_a_name_that_no_step_has_is_a_mistake():
    with pytest.raises(AssertionError, match="no step is called tiles"):
        STRATEGIES.without("tiles")
    with pytest.raises(AssertionError, match="no step is called tiles"):
        STRATEGIES.instead("tiles", IDLE)


def test_a_step_that_does_something_else_needs_a_name_of_its_own():
    with pytest.raises(AssertionError, match="there is a step called tile"):
        STRATEGIES.instead("collapse", Step("tile", IDLE.apply))


def test_strategies_print_the_names_of_their_steps():
    text = str(STRATEGIES.without("fold across").instead("sliding window", IDLE))
    assert "; reduction: fold along, collapse, leave tiles, interleave, " in text
    assert "; stencil: idle, collapse, " in text
    assert text.endswith("; pieces: model; stages")
