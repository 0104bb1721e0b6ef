"""Builds collect garbage less often, and restore the program's thresholds."""

import gc

import pytest

from anyrt.compiler.garbage import EACH, rare_collections


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_last_of_several_builds_gives_the_threshold_back():
    gc.set_threshold(600, 9, 8)
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == (EACH, 9, 8)
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (EACH, 9, 8)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (600, 9, 8)


@pytest.mark.parametrize("own", [(0, 10, 10), (EACH + 1, 10, 10)])
def test_programs_that_collect_less_often_are_left_alone(own):
    gc.set_threshold(*own)
    with rare_collections():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_a_threshold_that_is_set_during_a_build_stays():
    gc.set_threshold(600, 9, 8)
    with rare_collections():
        gc.set_threshold(1234, 5, 6)
    assert gc.get_threshold() == (1234, 5, 6)


def test_a_failed_build_gives_the_threshold_back():
    gc.set_threshold(600, 9, 8)
    with pytest.raises(ValueError, match="failed"), rare_collections():
        raise ValueError("failed")
    assert gc.get_threshold() == (600, 9, 8)
