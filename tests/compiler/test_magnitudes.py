"""Dynamic ranges from many batches: the published search for the least divergence, and sums of histograms."""

import numpy as np
import pytest

from anyrt.compiler.magnitudes import LEVELS, STRIDE, joined, least_divergence, spread, watching
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.prims.build import param


def published(bins):
    """The published loop over ranges, level by level."""
    bins = bins.copy()
    bins[0] = bins[1]
    tried = range(LEVELS, len(bins) + 1, STRIDE)
    results = []
    for i in tried:
        level = np.digitize(range(i), np.linspace(0, i, LEVELS + 1)) - 1
        real, coded = bins[:i].copy(), np.zeros(i)
        for n in range(LEVELS):
            some = (level == n) & (bins[:i] > 0)
            coded[some] = bins[:i][some].sum() / max(some.sum(), 1)
        real[-1] += bins[i:].sum()
        p, q = real / real.sum(), coded / coded.sum()
        with np.errstate(all="ignore"):
            results.append(np.where(p > 0, p * np.log(p / q), 0).sum())
    return tried[len(results) - 1 - int(np.argmin(results[::-1]))]


@pytest.mark.parametrize("seed", range(4))
def test_the_least_divergence_is_that_of_the_published_loop(seed):
    rng = np.random.default_rng(seed)
    numbers = np.abs(rng.standard_t(3 + 2 * seed, 40000))
    bins = np.histogram(numbers, 512, (0, numbers.max()))[0].astype(np.float64)
    assert least_divergence(bins) == published(bins)


def test_a_range_of_entropy_leaves_out_what_is_rare():
    numbers = np.abs(np.random.default_rng(0).standard_normal(100_000)).astype(np.float32)
    numbers[0] = 60
    assert 3.5 < spread(numbers, 60.0).entropy() < 6


def test_counts_in_bins_of_one_width_are_those_of_a_histogram():
    numbers = np.random.default_rng(1).random(50_000).astype(np.float32) * 3
    most = float(numbers.max())
    actual, expected = spread(numbers, most).linear(64), np.histogram(numbers, 64, (0, most))[0]
    assert actual.sum() == expected.sum() == 50_000
    np.testing.assert_allclose(actual, expected, atol=12)  # those next to an edge


def test_counts_of_several_runs_add_up_in_any_order():
    parts = [np.float32([1, -2, 0.5]), np.float32([1000, 3]), np.float32([1e-3, 0])]
    spreads = [spread(p, float(np.abs(p).max())) for p in parts]
    whole = spread(np.concatenate(parts), 1000.0)
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        both = joined(joined(spreads[order[0]], spreads[order[1]]), spreads[order[2]])
        assert (both.most, both.counts.tolist()) == (1000.0, whole.counts.tolist())


def test_quantiles_are_those_of_the_numbers():
    numbers = np.random.default_rng(2).exponential(1, 100_000).astype(np.float32)
    result = spread(numbers, float(numbers.max()))
    for share in (0.5, 0.99, 0.999):
        assert result.quantile(share) == pytest.approx(np.quantile(numbers, share), rel=0.02)
    assert result.quantile(1.0) == numbers.max()


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 16, 64, 64), (1, 7, 1, 100_000), ()])
def test_a_calibration_run_samples_elements_of_every_channel_and_the_largest(shape):
    x = param("x", shape, DataType.FLOAT)
    graph = watching(Graph((("x", x),), (("0", x),)), [x], most=True, some=True)
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) - 5
    result = interpret(graph, {"x": values})
    assert result["most"].tolist() == [np.abs(values).max()]
    assert set(result["0"].tolist()) <= set(values.reshape(-1).tolist())
    assert result["0"].size == values.size if values.size < 1 << 14 else 1 << 13 < result["0"].size <= 1 << 14
    channels = {int(n + 5) // (values[0, 0].size) % shape[1] for n in result["0"]} if len(shape) == 4 else ()
    assert len(channels) in (0, *shape[1:2])
    assert len(list(walk(v for _, v in graph.outputs))) < 12
