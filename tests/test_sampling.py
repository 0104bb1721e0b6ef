"""What of sampled tests runs every day."""

from types import SimpleNamespace

import pytest

from tests import sampling


def cases(name, params, stride=None, rare=False):
    """The cases of a test, by the values of its parameters."""
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


def test_every_third_case_of_a_sampled_test_runs_and_all_of_others():
    whole, some = cases("a", [{"x": n} for n in range(4)]), cases("b", [{"x": n} for n in range(7)], 3)
    assert list(sampling.everyday([*whole, *some])) == [*whole, some[0], some[3], some[6]]


def test_a_rare_test_runs_in_a_long_run_alone(monkeypatch):
    found = cases("a", [{"x": 0}], rare=True)
    assert list(sampling.everyday(found)) == []
    monkeypatch.setattr(sampling, "FUZZ", 1)
    assert list(sampling.everyday(found)) == found


def test_a_value_that_several_cases_share_is_met_by_one():
    found = cases("a", [{"x": x, "y": y} for y in range(2) for x in range(4)], 4)
    met = [case.callspec.params for case in sampling.everyday(found)]
    assert met == [{"x": 0, "y": 0}, {"x": 1, "y": 0}, {"x": 2, "y": 0}, {"x": 3, "y": 0}, {"x": 0, "y": 1}]


def test_cases_that_have_several_missing_values_come_first():
    found = cases("a", [{"x": x, "y": y} for y in range(3) for x in range(3)], 9)
    met = [case.callspec.params for case in sampling.everyday(found)]
    assert met == [{"x": 0, "y": 0}, {"x": 1, "y": 1}, {"x": 2, "y": 2}]


def test_a_long_run_leaves_nothing_out(monkeypatch):
    assert (sampling.tries(5), sampling.sample(range(7), 3)) == (5, range(0, 7, 3))
    monkeypatch.setattr(sampling, "FUZZ", 20)
    found = cases("a", [{"x": n} for n in range(7)], 3)
    assert list(sampling.everyday(found)) == found
    assert (sampling.tries(5), sampling.tries(50), sampling.sample(range(7), 3)) == (20, 50, range(7))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("y", [(1, 2), None, "z"])
@pytest.mark.parametrize(("a", "x"), [(1, "p"), (2, "p"), (3, "q")])
def test_pytest_tells_which_values_cases_share(request, a, x, y):
    """Of the nine cases of this test those that run have every value."""
    same = [i for i in request.session.items if getattr(i, "originalname", "") == request.node.originalname]
    if len(same) > 1:  # a file, not one case by its name
        assert {i.callspec.params["y"] for i in same} == {(1, 2), None, "z"}
