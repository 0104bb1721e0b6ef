"""Contractions computed inside a later contraction: the benchmark times only those that agree with the
reference."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.mechanisms import built
from benchmarks.stages import APART, JOINED, attention, bound, depthwise, perceptron, prepared

SMALL = (depthwise(2, 16, 12, 24), attention(2, 3, 40, 9, 8), perceptron(96, 16, 20))


@pytest.mark.parametrize("case", SMALL, ids=lambda c: c.name)
def test_a_network_is_one_kernel_with_stages_and_right_with_and_without(case):
    (several, _), (one, _) = (prepared(case, s, 2, case.feeds()) for s in (APART, JOINED))
    assert several > one == 1


def test_entries_that_differ_from_the_reference_are_not_timed():
    case = perceptron(96, 16, 20)
    wrong = replace(case, network=lambda calls, values: case.network(calls, values) + 1)
    with built(case.request(2, APART)) as plan, pytest.raises(AssertionError, match="is off by"):
        bound(wrong, plan, case.feeds())


def test_the_truth_of_an_attention_weighs_values_by_keys():
    case = attention(1, 1, 2, 3, 4)
    same = np.ones((1, 1, 3, 4), np.float32)
    output = case.truth(q=np.zeros((1, 1, 2, 4), np.float32), k=same, v=same * [[[[1, 2, 3, 4]]]])
    assert np.allclose(output[0, 0], output[0, 1])
