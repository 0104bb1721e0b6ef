"""Waiting requests are joined up to a limit; late, cancelled and invalid ones fail individually."""

import threading
import time

import numpy as np
import pytest

from anyrt.core.errors import BindingError
from anyrt.serve.batching import Batcher
from anyrt.serve.refused import Limits, Reason, Refused
from anyrt.serve.settings import Settings
from anyrt.serve.stats import Statistics

LIMITS = Limits()


class Engine:
    """Doubles rows, waits at a gate, and records the numbers of rows."""

    def __init__(self):
        self.gate, self.rows, self.threads = threading.Event(), [], []
        self.entered = threading.Semaphore(0)

    def __call__(self, arrays):
        x = arrays["x"]
        self.rows.append(x.shape[0])
        self.threads.append(threading.get_ident())
        self.entered.release()
        assert self.gate.wait(10)
        if (x < 0).any():
            raise BindingError("AR703", "x", "a negative number", "none")
        return {"y": 2 * x}


def rows(n, value=1.0, width=3):
    return {"x": np.full((n, width), value, np.float32)}


@pytest.fixture
def new_batcher():
    engines = []

    def make(limits=LIMITS, joins=None, **settings):
        engine, statistics = Engine(), Statistics()
        joins = settings.get("max_batch_size", 0) > 1 if joins is None else joins
        batcher = Batcher(engine, Settings(**settings), limits, statistics, joins)
        engines.append((engine, batcher))
        return engine, batcher, statistics

    yield make
    for engine, batcher in engines:
        engine.gate.set()
        batcher.close()


def busy(engine, batcher):
    """Keeps the one instance busy, so that later requests wait."""
    first = batcher.submit(rows(1))
    assert engine.entered.acquire(timeout=10)
    return first


def test_waiting_requests_are_joined_and_answered_in_their_own_sizes(new_batcher):
    engine, batcher, statistics = new_batcher(max_batch_size=8)
    busy(engine, batcher)
    answers = [batcher.submit(rows(n, value=n)) for n in (1, 2, 3)]
    engine.gate.set()
    for n, answer in zip((1, 2, 3), answers, strict=True):
        np.testing.assert_array_equal(answer.result(10)["y"], np.full((n, 3), 2 * n))
    assert engine.rows == [1, 6]
    assert (statistics.inference_count, statistics.execution_count) == (7, 2)


def test_no_more_rows_are_joined_than_allowed(new_batcher):
    engine, batcher, _ = new_batcher(max_batch_size=4)
    busy(engine, batcher)
    answers = [batcher.submit(rows(n)) for n in (3, 2, 1, 2)]
    engine.gate.set()
    assert [a.result(10)["y"].shape[0] for a in answers] == [3, 2, 1, 2]
    assert engine.rows == [1, 4, 4]


def test_other_shapes_are_not_joined(new_batcher):
    engine, batcher, _ = new_batcher(max_batch_size=8)
    busy(engine, batcher)
    answers = [batcher.submit(rows(1, width=w)) for w in (3, 5, 3)]
    engine.gate.set()
    assert [a.result(10)["y"].shape for a in answers] == [(1, 3), (1, 5), (1, 3)]
    assert engine.rows == [1, 2, 1]


@pytest.mark.parametrize("settings", [{"max_batch_size": 0}, {"max_batch_size": 8, "joins": False}])
def test_no_requests_are_joined_by_default(new_batcher, settings):
    engine, batcher, _ = new_batcher(**settings)
    busy(engine, batcher)
    answers = [batcher.submit(rows(1)) for _ in range(3)]
    engine.gate.set()
    assert [a.result(10)["y"].shape for a in answers] == [(1, 3)] * 3
    assert engine.rows == [1] * 4


def test_a_request_waits_for_others_for_the_configured_delay(new_batcher):
    engine, batcher, _ = new_batcher(max_batch_size=8, delay_seconds=0.3)
    engine.gate.set()
    start = time.perf_counter()
    first = batcher.submit(rows(1))
    second = batcher.submit(rows(1))
    first.result(10), second.result(10)
    assert 0.29 < time.perf_counter() - start < 5
    assert engine.rows == [2]


def test_a_preferred_number_of_rows_does_not_wait(new_batcher):
    engine, batcher, _ = new_batcher(max_batch_size=8, preferred=(4,), delay_seconds=9.0)
    engine.gate.set()
    answers = [batcher.submit(rows(2)) for _ in range(2)]
    assert [a.result(5)["y"].shape[0] for a in answers] == [2, 2]
    assert engine.rows == [4]


def test_one_bad_request_does_not_disturb_the_others(new_batcher):
    engine, batcher, _ = new_batcher(max_batch_size=8)
    busy(engine, batcher)
    good, bad, other = (batcher.submit(rows(1, value=v)) for v in (1, -1, 3))
    engine.gate.set()
    assert good.result(10)["y"].tolist() == [[2, 2, 2]]
    assert other.result(10)["y"].tolist() == [[6, 6, 6]]
    with pytest.raises(Refused, match="a negative number"):
        bad.result(10)


def test_a_full_queue_rejects(new_batcher):
    engine, batcher, _ = new_batcher(Limits(queue=2))
    busy(engine, batcher)
    batcher.submit(rows(1)), batcher.submit(rows(1))
    with pytest.raises(Refused) as refusal:
        batcher.submit(rows(1))
    assert refusal.value.reason is Reason.BUSY


def test_late_or_cancelled_requests_are_not_run(new_batcher):
    engine, batcher, _ = new_batcher()
    busy(engine, batcher)
    late, gone, good = batcher.submit(rows(2), 0.01), batcher.submit(rows(3)), batcher.submit(rows(4))
    assert gone.cancel()
    time.sleep(0.05)
    engine.gate.set()
    assert good.result(10)["y"].shape[0] == 4
    with pytest.raises(Refused) as refusal:
        late.result(10)
    assert refusal.value.reason is Reason.LATE
    assert engine.rows == [1, 4]


def test_closing_answers_waiting_requests_and_rejects_new_ones(new_batcher):
    engine, batcher, _ = new_batcher()
    first, second = busy(engine, batcher), batcher.submit(rows(2))
    engine.gate.set()
    batcher.close()
    assert first.done()
    assert second.result(0)["y"].shape[0] == 2
    with pytest.raises(Refused, match="unloaded"):
        batcher.submit(rows(1))


def test_instances_run_side_by_side(new_batcher):
    engine, batcher, _ = new_batcher(instances=2)
    answers = [batcher.submit(rows(1)) for _ in range(2)]
    assert all(engine.entered.acquire(timeout=10) for _ in answers)
    engine.gate.set()
    assert all(a.result(10)["y"].shape == (1, 3) for a in answers)


def test_a_full_batch_goes_before_an_older_request_at_most_three_times(new_batcher):
    engine, batcher, _ = new_batcher(max_batch_size=2)
    busy(engine, batcher)
    answers = [batcher.submit(rows(1, width=w)) for w in (5, *[3] * 8)]
    engine.gate.set()
    assert [a.result(10)["y"].shape[1] for a in answers] == [5, *[3] * 8]
    assert engine.rows == [1, 2, 2, 2, 1, 2]


def known_to_be_short(batcher, monkeypatch):
    """Records a finished run of one row that, for the batcher, took no time."""
    monkeypatch.setattr("anyrt.serve.batching.SHORT", 1 << 60)
    batcher.submit(rows(1)).result(10)
    until = time.monotonic() + 10
    while batcher.at_once(rows(1)) is None:
        assert time.monotonic() < until


def test_short_runs_are_made_by_the_caller_when_nothing_waits(new_batcher, monkeypatch):
    engine, batcher, statistics = new_batcher(max_batch_size=8)
    engine.gate.set()
    assert batcher.at_once(rows(1)) is None  # the duration of a run is not known yet
    known_to_be_short(batcher, monkeypatch)
    assert batcher.at_once(rows(1))["y"].tolist() == [[2, 2, 2]]
    assert engine.threads[1:] == [threading.get_ident()] * 2
    assert batcher.at_once(rows(1, width=4)) is None
    with pytest.raises(Refused, match="a negative number"):
        batcher.at_once(rows(1, value=-1))
    assert (statistics.inference_count, statistics.execution_count) == (3, 3)


def test_the_caller_makes_no_run_while_instances_are_busy_or_closed(new_batcher, monkeypatch):
    engine, batcher, _ = new_batcher()
    engine.gate.set()
    known_to_be_short(batcher, monkeypatch)
    engine.gate.clear()
    while engine.entered.acquire(blocking=False):
        pass
    first = busy(engine, batcher)
    assert batcher.at_once(rows(1)) is None
    engine.gate.set()
    first.result(10)
    batcher.close()
    assert batcher.at_once(rows(1)) is None


def test_long_runs_are_left_to_other_threads(new_batcher, monkeypatch):
    engine, batcher, _ = new_batcher()
    engine.gate.set()
    known_to_be_short(batcher, monkeypatch)
    monkeypatch.setattr("anyrt.serve.batching.SHORT", 0)
    batcher.submit(rows(1)).result(10)
    batcher.close()
    assert not batcher._short
