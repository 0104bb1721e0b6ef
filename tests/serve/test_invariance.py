"""Rows have the same bits alone and in every batch; numbers of rows that change bits are not joined."""

import json
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from anyrt import Predictor
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from anyrt.onnx.session import Port
from anyrt.serve.batching import Batcher
from anyrt.serve.invariance import KEPT, Trials, difference
from anyrt.serve.models import Options, open_model
from anyrt.serve.refused import Limits
from anyrt.serve.settings import Settings
from anyrt.serve.stats import Statistics

MOST = 11
MLP = """(float[n, 96] x) => (float[n, 40] y) {
    a = Gemm(x, w, b) r = Gelu(a) y0 = MatMul(r, v) y = Softmax<axis = -1>(y0) }"""
CONV = """(float[n, 3, 14, 14] x) => (float[n, 10] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, w, b) r = Relu(a) p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
    c = Conv<pads = [1, 1, 1, 1], group = 4>(p, v) m = GlobalAveragePool(c) f = Flatten(m)
    y = MatMul(f, u) }"""
ATTENTION = """(float[n, t, 32] x) => (float[n, t, 32] y) {
    q = MatMul(x, w) k = MatMul(x, v) q4 = Reshape(q, parts) k4 = Reshape(k, parts) v4 = Reshape(x, parts)
    qt = Transpose<perm = [0, 2, 1, 3]>(q4) kt = Transpose<perm = [0, 2, 3, 1]>(k4)
    vt = Transpose<perm = [0, 2, 1, 3]>(v4) s = MatMul(qt, kt) p = Softmax<axis = -1>(s) o = MatMul(p, vt)
    ot = Transpose<perm = [0, 2, 1, 3]>(o) flat = Reshape(ot, whole) r = Add(flat, x)
    y = LayerNormalization<axis = -1>(r, scale, bias) }"""
MODELS = {
    "mlp": (MLP, {"w": (96, 130), "b": (130,), "v": (130, 40)}, (96,)),
    "conv": (CONV, {"w": (16, 3, 3, 3), "b": (16,), "v": (32, 4, 3, 3), "u": (32, 10)}, (3, 14, 14)),
    "attention": (ATTENTION, {"w": (32, 32), "v": (32, 32), "scale": (32,), "bias": (32,)}, (13, 32)),
}


def model(text, weights):
    result = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {text}')
    random = np.random.default_rng(1)
    tensors = {n: random.standard_normal(s).astype(np.float32) / 8 for n, s in weights.items()}
    tensors |= {"parts": np.array([0, 0, 4, 8]), "whole": np.array([0, 0, 32])}
    kept = [numpy_helper.from_array(x, n) for n, x in tensors.items() if f"{n})" in text or f"{n}," in text]
    result.graph.initializer.extend(kept)
    return result


@pytest.fixture(params=MODELS)
def opened(request):
    text, weights, shape = MODELS[request.param]
    with Predictor(model(text, weights)) as predict:
        yield predict, np.random.default_rng(2).standard_normal((MOST, *shape)).astype(np.float32)


def test_rows_have_the_same_bits_at_every_place_of_every_batch(opened):
    predict, x = opened
    alone = [predict.run({"x": x[k : k + 1]})["y"].tobytes() for k in range(MOST)]
    for count in range(2, MOST + 1):
        for first in range(MOST):
            picked = [(first + k * k) % MOST for k in range(count)]
            y = predict.run({"x": x[picked]})["y"]
            assert [row.tobytes() for row in y] == [alone[k] for k in picked], (count, first)


KEY = (("x", (3,)),)
PORTS = (Port("x", DataType.FLOAT, (-1, 3)),)


def up(x):
    """The next larger floating-point numbers."""
    return np.nextafter(x, np.float32(np.inf), dtype=np.float32)


class Engine:
    """Doubles rows, with other last bits for some numbers of rows. It waits while its gate is closed."""

    def __init__(self, wrong=(), run=None):
        self.gate, self.rows, self.wrong, self.entered = threading.Event(), [], wrong, threading.Semaphore(0)
        self.run = run or (lambda arrays: {"y": 2 * arrays["x"]})
        self.gate.set()

    def __call__(self, arrays):
        self.rows.append(arrays["x"].shape[0])
        self.entered.release()
        assert self.gate.wait(60)
        outputs = self.run(arrays)
        return {n: up(y) for n, y in outputs.items()} if self.rows[-1] in self.wrong else outputs


class Joined:
    """A batcher with one instance, and the verdicts that it reported."""

    def __init__(self, engine, inputs=PORTS):
        self.engine, self.reports = engine, []
        trials = Trials(engine, inputs, lambda **facts: self.reports.append(facts))
        settings = Settings(max_batch_size=16)
        self.batcher = Batcher(engine, settings, Limits(), Statistics(), joins=True, trials=trials)

    def ask(self, *xs):
        """The results of requests that wait together, and the rows of the runs that computed them."""
        engine = self.engine
        self.idle()
        engine.gate.clear()
        engine.rows.clear()
        first = self.batcher.submit({"x": xs[0][:1]})
        assert engine.entered.acquire(timeout=60)
        answers = [self.batcher.submit({"x": x}) for x in xs]
        engine.gate.set()
        first.result(60)
        ys = [a.result(60)["y"] for a in answers]
        runs = []
        while sum(runs) < sum(len(x) for x in xs):
            runs.append(engine.rows[1 + len(runs)])
        return ys, runs

    def idle(self):
        """Wait until trials are over."""
        end = time.monotonic() + 60
        while self.batcher._running:
            assert time.monotonic() < end
            time.sleep(0.001)
        while self.engine.entered.acquire(blocking=False):
            pass

    @property
    def verdicts(self):
        self.idle()
        return [(facts["rows"], facts["joins"]) for facts in self.reports]


@pytest.fixture
def joined():
    opened = []

    def make(*args, **more):
        opened.append(Joined(*args, **more))
        return opened[-1]

    yield make
    for one in opened:
        one.engine.gate.set()
        one.batcher.close()


def rows(*counts):
    return [np.full((n, 3), 1 + k, np.float32) for k, n in enumerate(counts)]


def test_requests_that_are_joined_have_the_bits_of_each_alone(opened, joined):
    predict, x = opened
    one = joined(Engine(run=predict.run), predict.metadata().inputs)
    ends = np.cumsum([1, 3, 2, 1, 4])
    parts = [x[low:high] for low, high in zip((0, *ends), ends, strict=False)]
    alone = [predict.run({"x": part})["y"].tobytes() for part in parts]
    for _ in range(5):
        ys, runs = one.ask(*parts)
        assert [y.tobytes() for y in ys] == alone
    assert runs == [11]
    assert sorted(one.verdicts) == [(2, True), (3, True), (4, True), (11, True)]


def test_requests_are_run_alone_until_their_number_of_rows_was_tried(joined):
    one = joined(Engine())
    assert one.ask(*rows(1, 1, 1))[1] == [1, 1, 1]
    assert one.verdicts == [(3, True)]
    assert one.ask(*rows(1, 1, 1))[1] == [3]
    assert one.reports == [{"sizes": KEY, "rows": 3, "joins": True, "reason": None}]


def test_numbers_of_rows_that_change_bits_are_split(joined):
    one = joined(Engine(wrong=(5, 4)))
    runs = [one.ask(*rows(1, 1, 1, 1, 1)) for _ in range(4)]
    assert [sizes for _, sizes in runs] == [[1] * 5, [1] * 5, [1] * 5, [3, 1, 1]]
    assert one.verdicts[:3] == [(5, False), (4, False), (3, True)]
    assert one.ask(*rows(1, 1, 1, 1, 1))[1] == [3, 2]
    for ys, _ in runs:
        assert [y.tolist() for y in ys] == [[[2 * k] * 3] for k in range(1, 6)]


def test_a_request_whose_own_rows_change_bits_is_run_alone(joined):
    one = joined(Engine(wrong=(2,)))
    for _ in range(3):
        ys, runs = one.ask(*rows(1, 2, 1))
        assert runs == [1, 2, 1]
        assert ys[1].tolist() == [[up(4)] * 3] * 2
    assert one.verdicts == [(2, False)]


def test_other_sizes_have_a_verdict_of_their_own(joined):
    one = joined(Engine(run=lambda arrays: {"y": arrays["x"] * (1 + 1e-6 * (arrays["x"].shape == (2, 4)))}))
    for _ in range(2):
        runs = [one.ask(*[np.ones((1, n), np.float32)] * 2)[1] for n in (3, 4)]
    assert runs == [[2], [1, 1]]
    assert [(facts["sizes"][0][1], facts["joins"]) for facts in one.reports] == [((3,), True), ((4,), False)]


def test_verdicts_can_be_read_while_one_is_found():
    engine, reports = Engine(), []
    engine.gate.clear()
    trials = Trials(engine, PORTS, lambda **facts: reports.append(facts))
    trying = threading.Thread(target=trials.attempt, args=(KEY, 2))
    trying.start()
    assert engine.entered.acquire(timeout=60)
    trials.attempt(KEY, 2)  # another thread is already trying it
    assert trials.parts(KEY, [1, 1]) == ([1, 1], None)
    engine.gate.set()
    trying.join()
    assert trials.parts(KEY, [1, 1]) == ([2], None)
    assert len(reports) == 1


def test_old_verdicts_are_forgotten():
    trials = Trials(Engine(), PORTS, lambda **facts: None)
    for width in range(1, KEPT + 3):
        key = (("x", (width,)),)
        trials.attempt(key, 2)
        assert trials.parts((("x", (1,)),), [1, 1]) == ([2], None)  # used, and therefore kept
    assert len(trials) == KEPT
    assert trials.parts((("x", (2,)),), [1, 1]) == ([1, 1], 2)
    assert trials.parts(key, [1, 1]) == ([2], None)


def test_few_numbers_are_compared_more_often():
    def run(arrays):
        x = arrays["x"]
        return {"y": up(x[:, :1]) if len(x) == 2 and x[0, 0] > 1 else x[:, :1]}  # one of six trials

    assert difference(run, PORTS, KEY, 2) == "output 'y' of 2 rows differs from that of each row"


def test_integers_that_hide_differences_are_not_counted():
    def run(arrays):
        x = arrays["x"][:, :1]
        y = up(x) if len(x) == 2 and x[0, 0] > 1 else x
        return {"index": np.zeros((len(x), 99), np.int64), "y": y}

    assert "'y' of 2 rows" in difference(run, PORTS, KEY, 2)


@pytest.mark.parametrize("place", range(3))
def test_rows_that_spoil_others_are_found(place):
    def run(arrays):
        x = arrays["x"].copy()
        if len(x) > 1 and np.isnan(x).any():
            x[place] = np.nan
        return {"y": x}

    assert "depends on other rows" in difference(run, PORTS, KEY, 3)


@pytest.mark.parametrize(
    ("text", "count", "reason"),
    [
        ("(float[n, 3] x) => (float[n, 3] y) { m = ReduceMean(x, zero) y = Sub(x, m) }", 2, "of 2 rows"),
        (
            "(float[n, 3] x) => (float[n, 3] y) { m = ReduceMin(x, zero) z = Mul(m, o) y = Add(x, z) }",
            2,
            "NaN",
        ),
        (
            """(float[n, 3] x) => (float[n, 3] y) {
            s = Shape<start = 0, end = 1>(x) q = Equal(s, lot) f = Where(q, t, o) y = Mul(x, f) }""",
            13,
            "of 13 rows",
        ),
    ],
)
def test_models_whose_rows_depend_on_others_are_not_joined(text, count, reason):
    proto = model(text, {})
    kept = {
        "zero": np.array([0]),
        "o": np.full(1, "Where" in text, np.float32),
        "lot": np.array([13]),
        "t": up(np.ones(1)),
    }
    proto.graph.initializer.extend(
        numpy_helper.from_array(x, n) for n, x in kept.items() if f"{n})" in text or f"{n}," in text
    )
    with Predictor(proto) as predict:
        inputs = predict.metadata().inputs
        assert reason in difference(predict.run, inputs, KEY, count)
        assert count == 2 or difference(predict.run, inputs, KEY, count - 1) is None


def test_rows_that_cannot_be_run_are_not_joined():
    def run(arrays):
        raise ValueError("no such row")

    reasons = []
    trials = Trials(run, PORTS, lambda **facts: reasons.append(facts["reason"]))
    trials.attempt(KEY, 2)
    assert trials.parts(KEY, [1, 1]) == ([1, 1], None)
    assert reasons == ["random rows cannot be run: no such row"]


@pytest.mark.parametrize(
    "dtype", [DataType.BOOL, DataType.INT32, DataType.UINT8, DataType.HALF, DataType.BF16]
)
def test_rows_of_every_kind_are_tried(dtype):
    ports, seen = (Port("x", dtype, (-1, 3)),), []
    run = lambda arrays: seen.append(arrays["x"]) or {"y": arrays["x"]}  # noqa: E731
    assert difference(run, ports, KEY, 4) is None
    assert {x.dtype for x in seen} == {numpy_dtype(dtype)}
    assert [len(x) for x in seen[-2:]] == [4, 4]


def test_a_served_model_reports_its_verdicts(tmp_path, capsys):
    onnx.save(model(*MODELS["mlp"][:2]), tmp_path / "m.onnx")
    settings = Settings(max_batch_size=9, batch_invariant=True)
    opened = open_model(tmp_path / "m.onnx", "m", "1", settings, Options())
    opened.batcher._trials.attempt((("x", (96,)),), 9)
    opened.close()
    line = json.loads(capsys.readouterr().err)
    assert {k: line[k] for k in ("event", "model", "version", "rows", "joins", "reason")} == {
        "event": "batch_invariant", "model": "m", "version": "1", "rows": 9, "joins": True, "reason": None,
    }  # fmt: skip
    assert line["sizes"] == [["x", [96]]]
