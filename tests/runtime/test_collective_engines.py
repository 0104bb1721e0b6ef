"""Engines with collectives: each rank is a process that loads a plan built elsewhere, with a communicator."""

import os
import pickle
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

C, R, NONE = trt.CollectiveOperation, trt.ReduceOperation, trt.MatrixOperation.NONE
STRONG = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "collectives.md"
CODE = """
import os, pickle, sys, time
import numpy as np
import anyrt as trt
from anyrt.core.dtype import numpy_dtype
from anyrt.runtime.ranks import SharedRanks
name, rank, size, seconds, plan, runs = pickle.load(sys.stdin.buffer)
answer = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # the log goes there
engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
found = []

def run(context, arrays):
    for n, x in arrays.items():
        context.set_input_shape(n, x.shape)
    for n in engine:
        if n not in arrays:
            shape, kind = tuple(context.get_tensor_shape(n)), numpy_dtype(engine.get_tensor_dtype(n))
            arrays = {**arrays, n: np.empty(shape, kind)}
        context.set_tensor_address(n, arrays[n])
    context.execute_async_v3(0)
    return {n: x for n, x in arrays.items() if engine.get_tensor_mode(n) is trt.TensorIOMode.OUTPUT}

with SharedRanks(name, rank, size, seconds, chunk=256) as ranks, trt.strict():
    context = engine.create_execution_context()
    try:
        context.set_communicator(ranks)
    except Exception as error:
        found.append(str(error))
    for mine in runs:
        if isinstance(mine, str):
            exec(mine)
            continue
        try:
            found.append(run(context, mine))
        except Exception as error:
            found.append(str(error))
pickle.dump(found, answer)
"""


def builder():
    return trt.Builder(trt.Logger(trt.Logger.ERROR))


def plan_of(describe, profile=None, **settings):
    """The plan of a network: `describe` adds its layers and returns the outputs by name."""
    instance = builder()
    network, config = instance.create_network(STRONG), instance.create_builder_config()
    for name, tensor in describe(network).items():
        tensor.name = name
        network.mark_output(tensor)
    for name, value in settings.items():
        setattr(config, name, value)
    if profile is not None:
        ranges = instance.create_optimization_profile()
        ranges.set_shape("x", *profile)
        config.add_optimization_profile(ranges)
    with trt.strict():
        return bytes(instance.build_serialized_network(network, config))


def collective(network, x, op, fold=R.NONE, ranks=2, root=-1, groups=None):
    layer = network.add_dist_collective(x, op, fold, root, groups)
    layer.num_ranks = ranks
    return layer.get_output(0)


def on_ranks(plans, runs, seconds=60.0):
    """The result of each rank: outputs by name, or an error's text; None for a dead rank."""
    name, children = f"test-{uuid.uuid4().hex}", []
    env = {**os.environ, "ANYRT_NUM_THREADS": "1"}
    for rank, (plan, mine) in enumerate(zip(plans, runs, strict=True)):
        child = subprocess.Popen(
            [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        child.stdin.write(pickle.dumps((name, rank, len(plans), seconds, plan, mine)))
        child.stdin.close()
        children.append(child)
    results = []
    for child in children:
        with child:
            data = child.stdout.read()
        results.append(pickle.loads(data) if data else None)
    assert not list(Path("/dev/shm").glob(f"*{name}*"))
    return results


def product(network, a, b):
    b = network.add_constant(b.shape, np.ascontiguousarray(b)).get_output(0)
    return network.add_matrix_multiply(a, NONE, b, NONE).get_output(0)


def part(w, axis, rank, ranks):
    return np.split(w, ranks, axis)[rank]


def mlp(network, weights, rank, ranks):
    x = network.add_input("x", trt.float32, (4, 64))
    h = product(network, x, part(weights["w1"], 1, rank, ranks))
    h = network.add_activation(h, trt.ActivationType.RELU).get_output(0)
    return product(network, h, part(weights["w2"], 0, rank, ranks))


def attention(network, weights, rank, ranks):
    """Heads of 16 columns, a few of them on each rank."""
    x, heads = network.add_input("x", trt.float32, (16, 64)), []
    for name in ("wq", "wk", "wv"):
        layer = network.add_shuffle(product(network, x, part(weights[name], 1, rank, ranks)))
        layer.reshape_dims, layer.second_transpose = (1, 16, -1, 16), (0, 2, 1, 3)
        heads.append(layer.get_output(0))
    output = network.add_attention(*heads, trt.AttentionNormalizationOp.SOFTMAX, False)
    layer = network.add_shuffle(output.get_output(0))
    layer.first_transpose, layer.reshape_dims = (0, 2, 1, 3), (16, -1)
    return product(network, layer.get_output(0), part(weights["wo"], 0, rank, ranks))


MODELS = {
    "mlp": (mlp, {"w1": (64, 256), "w2": (256, 64)}),
    "attention": (attention, dict.fromkeys(("wq", "wk", "wv", "wo"), (64, 64))),
}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("model", MODELS)
def test_a_model_on_ranks_agrees_with_one_and_to_the_bit_with_its_parts_in_order(model, ranks):
    describe, shapes = MODELS[model]
    random = np.random.default_rng(0)
    weights = {n: (random.standard_normal(s) / 8).astype(np.float32) for n, s in shapes.items()}
    x = (random.standard_normal((4 if model == "mlp" else 16, 64)) / 8).astype(np.float32)

    def total(network, rank):
        return {"y": collective(network, describe(network, weights, rank, ranks), C.ALL_REDUCE, R.SUM, ranks)}

    def alone(rank, ranks):
        data = plan_of(lambda network: {"y": describe(network, weights, rank, ranks)})
        return trt.Runtime(trt.Logger()).deserialize_cuda_engine(data).run(x=x)["y"]

    plans = [plan_of(lambda network, rank=rank: total(network, rank)) for rank in range(ranks)]
    result = on_ranks(plans, [[{"x": x}] * 3] * ranks)
    one, parts = alone(0, 1), [alone(rank, ranks) for rank in range(ranks)]
    in_order = parts[0] + parts[1] if ranks == 2 else ((parts[0] + parts[1]) + parts[2]) + parts[3]
    assert {y["y"].tobytes() for mine in result for y in mine} == {in_order.tobytes()}
    # Sums of at most 256 terms in another order: 2⁻²⁴ of the sum of magnitudes for each.
    assert np.abs(one - in_order).max() <= 256 * 2.0**-24 * np.abs(one).max() * 4


def every_operation(network, x, ranks, root):
    folds = {C.ALL_REDUCE: R.SUM, C.REDUCE: R.MAX, C.REDUCE_SCATTER: R.SUM}
    rooted = (C.BROADCAST, C.REDUCE, C.GATHER, C.SCATTER)
    return {
        op.name: collective(network, x, op, folds.get(op, R.NONE), ranks, root if op in rooted else -1)
        for op in C.__members__.values()
    }


def expected(xs, rank, root):
    n, k, stacked = len(xs), xs[0].shape[0] // len(xs), np.stack(xs)
    mine = slice(rank * k, (rank + 1) * k)
    return {
        "ALL_REDUCE": stacked.sum(0),
        "ALL_GATHER": np.concatenate(xs),
        "BROADCAST": xs[root],
        "REDUCE": stacked.max(0) if rank == root else xs[rank],
        "REDUCE_SCATTER": stacked.sum(0)[mine],
        "ALL_TO_ALL": np.concatenate([x.reshape(n, k, -1)[rank] for x in xs]),
        "GATHER": np.concatenate(xs) if rank == root else np.concatenate(xs) * 0,
        "SCATTER": xs[root][mine],
    }


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_operations_with_dynamic_shapes(ranks):
    """One engine has all eight, which are independent of one another, so ranks must execute them in the same
    order."""
    root, random = ranks - 1, np.random.default_rng(1)
    plan = plan_of(
        lambda network: every_operation(network, network.add_input("x", trt.float32, (-1, 9)), ranks, root),
        profile=((ranks, 9), (8, 9), (16, 9)),
    )
    inputs = [[random.integers(-4, 5, (n, 9)).astype(np.float32) for _ in range(ranks)] for n in (8, 16, 8)]
    bad = {"x": np.zeros((ranks + 1, 9), np.float32)}
    runs = [[*({"x": xs[rank]} for xs in inputs), bad, {"x": inputs[0][rank]}] for rank in range(ranks)]
    for rank, (first, *others, refused, again) in enumerate(on_ranks([plan] * ranks, runs)):
        for xs, got in zip([*inputs, inputs[0]], [first, *others, again], strict=True):
            reference = expected(xs, rank, root)
            assert {n: y.tolist() for n, y in got.items()} == {n: y.tolist() for n, y in reference.items()}
        assert "[AR103]" in refused


TYPES = {
    trt.float32: np.float32,
    trt.float16: np.float16,
    trt.bfloat16: ml_dtypes.bfloat16,
    trt.fp8: ml_dtypes.float8_e4m3fn,
    trt.int32: np.int32,
    trt.int64: np.int64,
    trt.int8: np.int8,
    trt.uint8: np.uint8,
    trt.DataType.DOUBLE: np.float64,
    trt.DataType.INT16: np.int16,
    trt.DataType.UINT16: np.uint16,
    trt.DataType.UINT32: np.uint32,
    trt.DataType.UINT64: np.uint64,
}
FOLDS = {R.SUM: np.add, R.PROD: np.multiply, R.MAX: np.maximum, R.MIN: np.minimum, R.AVG: np.add}


def test_all_types_and_folds():
    random = np.random.default_rng(2)
    pairs = {str(t): [random.integers(0, 5, 6).astype(kind) for _ in range(2)] for t, kind in TYPES.items()}

    def describe(network):
        results = {}
        for t in TYPES:
            x = network.add_input(f"x{t}", t, (6,))
            results |= {f"{fold.name}{t}": collective(network, x, C.ALL_REDUCE, fold) for fold in FOLDS}
        return results

    runs = [[{f"x{t}": xs[rank] for t, xs in pairs.items()}] for rank in range(2)]
    for (got,) in on_ranks([plan_of(describe)] * 2, runs):
        for t, (a, b) in pairs.items():
            for fold, function in FOLDS.items():
                wide = function(*(x.astype(np.float64) for x in (a, b))) / (2 if fold is R.AVG else 1)
                y = got[f"{fold.name}{t}"]
                whole = a.dtype.kind in "iu"
                assert y.dtype == a.dtype
                assert y.tolist() == (np.trunc(wide) if whole else wide).astype(a.dtype).tolist()


def test_groups_work_side_by_side_with_all():
    def describe(network, group):
        x = network.add_input("x", trt.float32, (4,))
        mine = collective(network, x, C.ALL_REDUCE, R.SUM, groups=group)
        joined = collective(network, x, C.ALL_GATHER, groups=group[::-1])
        return {"mine": mine, "joined": joined, "all": collective(network, mine, C.ALL_REDUCE, R.SUM, 4)}

    plans = [plan_of(lambda network, g=g: describe(network, g)) for g in ([0, 2], [1, 3])] * 2
    result = on_ranks(plans, [[{"x": np.full(4, 10.0**r, np.float32)}] * 5 for r in range(4)])
    for rank, runs in enumerate(result):
        for got in runs:
            assert (got["mine"][0], got["all"][0]) == ([101, 1010][rank % 2], 2222)
            assert got["joined"].tolist() == [10.0 ** (rank % 2 + 2)] * 4 + [10.0 ** (rank % 2)] * 4


def test_collectives_in_a_loop():
    """x becomes the mean over ranks, plus 1, three times."""

    def describe(network):
        x = network.add_input("x", trt.float32, (3,))
        loop = network.add_loop()
        turns = network.add_constant((), np.asarray(3, np.int32)).get_output(0)
        loop.add_trip_limit(turns, trt.TripLimit.COUNT)
        state = loop.add_recurrence(x)
        mean = collective(network, state.get_output(0), C.ALL_REDUCE, R.AVG)
        one = network.add_constant((1,), np.float32([1])).get_output(0)
        state.set_input(1, network.add_elementwise(mean, one, trt.ElementWiseOperation.SUM).get_output(0))
        return {"y": loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)}

    runs = [[{"x": np.full(3, v, np.float32)}] for v in (2, 4)]
    result = on_ranks([plan_of(describe)] * 2, runs)
    assert [mine[0]["y"].tolist() for mine in result] == [[6.0] * 3] * 2


def total_of(ranks=2, fold=R.SUM, shape=(-1,), op=C.ALL_REDUCE):
    def describe(network):
        return {"y": collective(network, network.add_input("x", trt.float32, shape), op, fold, ranks)}

    return plan_of(describe, profile=((1,), (4,), (8,)) if shape == (-1,) else None)


X = {"x": np.ones(4, np.float32)}


def test_without_a_communicator_or_with_one_of_another_size_a_run_is_rejected():
    (mine,) = on_ranks([total_of(2)], [[X]])
    assert [text[:7] for text in mine] == ["[AR713]", "[AR713]"]
    assert re.match(diagnostic("AR713", 0, 1, 2), mine[0])
    assert re.match(diagnostic("AR713", 2, "context.set_communicator(ranks)"), mine[1])


@pytest.mark.parametrize(
    ("plans", "xs"),
    [
        ([total_of] * 2, [X, {"x": np.ones(5, np.float32)}]),
        ([total_of, lambda: total_of(fold=R.MAX)], [X, X]),
        ([total_of, lambda: total_of(fold=R.NONE, op=C.ALL_TO_ALL)], [X, X]),
    ],
    ids=["shapes", "folds", "operations"],
)
def test_ranks_that_disagree_get_an_error_on_all(plans, xs):
    result = on_ranks([make() for make in plans], [[x] for x in xs])
    assert [mine[0][:7] for mine in result] == ["[AR304]"] * 2
    assert "another exchange, shape or type on rank 1" in result[0][0]


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(1)"])
def test_a_rank_that_dies_ends_the_runs_of_all_at_once(end):
    start = time.monotonic()
    plan = total_of(3)
    result = on_ranks([plan] * 3, [[X, X], [X, end], [X, X]], seconds=120.0)
    assert time.monotonic() - start < 60
    assert result[1] is None
    for mine in (result[0], result[2]):
        assert mine[0]["y"].tolist() == [3] * 4
        assert mine[1].startswith("[AR811] (Unnamed Layer* 0) [DistCollective]")


def test_a_rank_that_is_late_ends_the_runs_of_all_within_the_limit():
    result = on_ranks([total_of()] * 2, [[X, X], [X, "time.sleep(4)", X]], seconds=1.0)
    assert "no message from rank 1 in 1 s" in result[0][1]
    assert "rank 0 gave up" in result[1][1]


def test_a_verified_build_runs(monkeypatch):
    def describe(network):
        x = network.add_input("x", trt.float32, (6,))
        total = collective(
            network, network.add_unary(x, trt.UnaryOperation.EXP).get_output(0), C.ALL_REDUCE, R.SUM
        )
        return {"y": network.add_unary(total, trt.UnaryOperation.LOG).get_output(0)}

    plan = plan_of(describe, verify="full")
    result = on_ranks([plan] * 2, [[{"x": np.zeros(6, np.float32)}]] * 2)
    np.testing.assert_allclose([mine[0]["y"] for mine in result], np.log(2.0), rtol=1e-6)


def test_the_interpreter_says_that_it_runs_one_rank(tmp_path, golden_text):
    (tmp_path / "y.plan").write_bytes(total_of(shape=(4,)))
    np.save(tmp_path / "x.npy", X["x"])
    command = ["-m", "anyrt", "run", str(tmp_path / "y.plan"), "--input", f"x={tmp_path / 'x.npy'}"]
    done = subprocess.run(
        [sys.executable, *command, "--backend", "interp"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    golden_text(done.stderr.strip() or done.stdout.strip())


def test_the_program_of_the_page_runs(tmp_path):
    program = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S).group(1)
    (tmp_path / "mlp.py").write_text(program)
    done = subprocess.run([sys.executable, "mlp.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.replace("\n", "")) == (0, "closeclose"), done.stderr


RUNS = """
import sys
from functools import partial
import numpy as np
import anyrt as trt
from anyrt.runtime.ranks import SharedRanks
name, rank, plan = sys.argv[1], int(sys.argv[2]), sys.argv[3]
x = np.full(4, rank + 1, np.float32)
predict = trt.Predictor(plan, communicator=partial(SharedRanks, f"{name}-p", rank, 2, 60))
with SharedRanks(name, rank, 2, 60) as ranks:
    session = trt.load(plan, communicator=ranks)
    found = [session.run({"x": x}), session.engine.run(x=x, communicator=ranks), predict.run({"x": x})]
print(*(y["y"].tolist() for y in found))
try:
    session.engine.run(x=x)
except trt.errors.BindingError as error:
    print(str(error)[:7])
"""


def test_sessions_predictors_and_engines_take_a_communicator(tmp_path):
    (tmp_path / "total.plan").write_bytes(bytes(total_of()))
    name = f"runs-{uuid.uuid4().hex}"
    command = [sys.executable, "-c", RUNS, name]
    ranks = [
        subprocess.Popen([*command, str(k), tmp_path / "total.plan"], stdout=subprocess.PIPE, text=True)
        for k in range(2)
    ]
    reference = f"{[3.0] * 4} {[3.0] * 4} {[3.0] * 4}\n[AR713]\n"
    assert [rank.communicate(timeout=120)[0] for rank in ranks] == [reference] * 2


def test_a_predictor_with_a_communicator_has_one_context():
    with pytest.raises(trt.errors.ArgumentError, match="share a communicator"):
        trt.Predictor("m.onnx", contexts=2, communicator=lambda: None)
