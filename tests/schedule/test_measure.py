"""Calls are measured alternately: the counted times, and the end of the measurement."""

import pytest

from anyrt.schedule.measure import Budget, fastest, measure


def run(seconds: list[float], budget: Budget) -> tuple[list[float] | None, str]:
    """Two calls, a and b, with these durations in order; the order in which they ran."""
    order, times = "", [0.0]
    for passed in seconds:
        times += [times[-1], times[-1] + passed]
    clock = iter(times[1:])

    def call(name: str) -> None:
        nonlocal order
        order += name

    result = measure([lambda: call("a"), lambda: call("b")], budget, clock.__next__, lambda: None)
    return result, order


def test_calls_alternate_and_the_first_round_warms_up():
    assert run([0.5, 0.5, 4.0, 2.0, 3.0, 8.0], Budget(2, 2, 99.0)) == ([3.0, 2.0], "ababab")


def test_a_round_that_is_cut_short_counts_for_none():
    assert run([1.0, 1.0, 4.0, 2.0, 1.0], Budget(2, 9, 9.0)) == ([4.0, 2.0], "ababa")


@pytest.mark.parametrize("seconds", [[9.0], [1.0, 8.0], [1.0, 1.0, 7.0]], ids=str)
def test_without_a_whole_round_after_the_first_nothing_is_known(seconds):
    assert run(seconds, Budget(2, 9, 9.0))[0] is None


def test_the_first_call_is_left_only_for_one_that_is_faster_by_more_than_noise():
    assert [fastest([1.0, t, 2.0]) for t in (0.5, 0.969, 0.971, 1.0)] == [1, 1, 0, 0]
