"""The cases of sampled tests that run every day."""

from collections import Counter
from itertools import combinations, groupby
from types import SimpleNamespace

import pytest

from tests import sampling


def cases(name, params, stride=None, rare=False):
    """The cases of a test, described by the values of its parameters."""
    marks = {} if stride is None else {"sampled": SimpleNamespace(args=(stride,))}
    marks |= {"rare": SimpleNamespace(args=())} if rare else {}
    return [
        SimpleNamespace(
            parent=None,
            originalname=name,
            callspec=SimpleNamespace(params=values),
            get_closest_marker=marks.get,
        )
        for values in params
    ]


@pytest.fixture(autouse=True)
def _every_day(monkeypatch):
    monkeypatch.setattr(sampling, "FUZZ", 0)


def test_a_third_of_the_cases_of_a_sampled_test_runs_and_all_of_others():
    whole, some = cases("a", [{"x": n} for n in range(4)]), cases("b", [{"x": n} for n in range(7)], 3)
    results = list(sampling.everyday([*whole, *some]))
    assert results[:4] == whole
    assert len(results[4:]) == 3
    assert [case for case in some if case in results] == results[4:]


def test_a_rare_test_runs_in_a_long_run_alone(monkeypatch):
    result = cases("a", [{"x": 0}], rare=True)
    assert list(sampling.everyday(result)) == []
    monkeypatch.setattr(sampling, "FUZZ", 1)
    assert list(sampling.everyday(result)) == result


def test_values_of_a_parameter_in_turn_have_their_share():
    result = cases("a", [{"x": x, "y": y} for x in range(30) for y in ("dynamic", "static")], 2)
    assert len(list(sampling.everyday(result))) == 60  # every pair of the two
    result = [(n // 6, "static" if n % 2 else "dynamic", n) for n in range(60)]
    assert Counter(kind for _, kind, _ in sampling.sample(result, 3)) == {"static": 10, "dynamic": 10}
    assert set(Counter(x for x, _, _ in sampling.sample(result, 3)).values()) == {2}


def test_cases_that_differ_in_several_values_meet_all_pairs():
    result = cases("a", [{"x": x, "y": y, "z": z} for x in range(3) for y in range(3) for z in range(3)], 9)
    met = [case.callspec.params for case in sampling.everyday(result)]
    assert {(m["x"], m["y"]) for m in met} == {(x, y) for x in range(3) for y in range(3)}
    assert {(m["y"], m["z"]) for m in met} == {(x, y) for x in range(3) for y in range(3)}
    assert len(met) == 9


def test_a_list_is_sampled_everywhere():
    result = sampling.sample(range(1000), 10)
    assert len(result) == 100
    assert [len([n for n in result if n // 100 == k]) for k in range(10)] == [10] * 10
    assert set(Counter(n % 10 for n in result)) == set(range(10))


@pytest.mark.parametrize(("least", "expected", "most"), [(0, 0.5, 1), (2, 2.1, 3), (8, 10, 12)])
def test_a_fifth_more_or_less_and_the_next_numbers_are_fair(least, expected, most):
    assert [n for n in range(20) if sampling.fair(n, expected)] == list(range(least, most + 1))


def met(items):
    """The number of cases with each value, and with each pair of values."""
    held = [sampling.values(item) for item in items]
    return Counter(v for case in held for v in case), Counter(
        p for case in held for p in combinations(case, 2)
    )


def unfair(items):
    """The values and pairs of one test that its sample does not represent fairly."""
    some = list(sampling.everyday(items))
    (values, pairs), (kept, met_pairs) = met(items), met(some)
    expected = {value: count * len(some) / len(items) for value, count in values.items()}
    yield from (
        v for v in values if abs(kept[v] - expected[v]) >= 1 and abs(kept[v] / expected[v] - 1) > 0.2001
    )
    yield from (p for p in pairs if min(values[v] for v in p) > 1 and p not in met_pairs)


def test_every_sampled_test_of_the_suite_has_a_fair_sample(request):
    """Over all tests that pytest has collected: each value has its share, and every pair occurs."""
    tests = [list(cases) for _, cases in groupby(request.config.stash[sampling.COLLECTED], sampling.test_of)]
    marks = [{mark.name for mark in cases[0].iter_markers()} for cases in tests]
    sampled = [
        cases for cases, names in zip(tests, marks, strict=True) if "sampled" in names and "rare" not in names
    ]
    assert len(sampled) > 0
    assert [(cases[0].nodeid, *unfair(cases)) for cases in sampled if any(unfair(cases))] == []


def test_a_long_run_leaves_nothing_out(monkeypatch):
    assert (sampling.tries(5), len(sampling.sample(range(7), 3))) == (5, 3)
    monkeypatch.setattr(sampling, "FUZZ", 20)
    result = cases("a", [{"x": n} for n in range(7)], 3)
    assert list(sampling.everyday(result)) == result
    assert (sampling.tries(5), sampling.tries(50), sampling.sample(range(7), 3)) == (20, 50, range(7))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("y", [(1, 2), None, "z"])
@pytest.mark.parametrize(("a", "x"), [(1, "p"), (2, "p"), (3, "q")])
def test_pytest_reports_the_values_that_cases_share(request, a, x, y):
    """The selected cases of these nine contain every value."""
    same = [i for i in request.session.items if getattr(i, "originalname", "") == request.node.originalname]
    if len(same) > 1:  # a file, not one case by its name
        assert {i.callspec.params["y"] for i in same} == {(1, 2), None, "z"}
