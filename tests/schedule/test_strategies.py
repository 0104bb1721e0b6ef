"""Strategies are lists: steps are left out, or others put in their places."""

import pytest

from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.ir.rewrite import Fail
from anyrt.schedule.step import Step

IDLE = Step("idle", lambda kernel, context: Fail("idle"))


def names(strategy) -> list[str]:
    return [step.name for step in strategy]


def test_a_step_that_is_left_out_is_gone_from_every_list():
    edited = STRATEGIES.without("tile", "prefetch")
    assert "tile" not in edited.names
    assert names(edited.of("reduction")) == [n for n in names(STRATEGIES.of("reduction")) if n != "prefetch"]
    assert STRATEGIES.without() == STRATEGIES != edited


def test_a_step_that_is_gone_already_may_be_left_out_again():
    assert STRATEGIES.without("tile").without("tile") == STRATEGIES.without("tile")


def test_another_step_stands_where_the_first_one_stood():
    edited = STRATEGIES.instead("tile", IDLE)
    assert names(edited.of("map")).index("idle") == names(STRATEGIES.of("map")).index("tile")
    assert names(edited.of("stencil")).index("idle") == names(STRATEGIES.of("stencil")).index("tile")
    assert edited.of("reduction") == STRATEGIES.of("reduction")


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
    assert "; reduction: collapse, leave tiles, interleave, " in text
    assert "; stencil: idle, collapse, " in text
    assert text.endswith("; pieces: model")
