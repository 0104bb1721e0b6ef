"""`anyrt.Predictor`: opened lazily, built once per machine, used in any process and by many threads."""

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import numpy_helper, parser

import anyrt
from anyrt.core.errors import ArgumentError, BindingError, ProfileError
from anyrt.onnx.predictor import one_at_a_time
from tests.messages import diagnostic

TEXT = '<ir_version: 10, opset_import: ["": 21]> g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }'
X = np.float32([[1, -2, 3]])
SCRIPT = """
import anyrt
def define(network):
    x = network.add_input("x", anyrt.float32, (1, 3))
    y = network.add_unary(x, anyrt.UnaryOperation.NEG).get_output(0)
    y.name = "y"
    network.mark_output(y)
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "m.onnx").write_bytes(parser.parse_model(TEXT).SerializeToString())
    return tmp_path / "m.onnx"


def test_nothing_is_opened_before_the_first_call(tmp_path):
    predictor = anyrt.Predictor(tmp_path / "none.onnx")
    assert predictor.stats().runs == 0
    with pytest.raises(anyrt.errors.AnyrtError):
        predictor.run({"x": X})


def test_model_bytes_plan_and_script_run(path, tmp_path):
    (tmp_path / "m.plan").write_bytes(bytes(anyrt.load(path).engine.serialize()))
    (tmp_path / "m.py").write_text(SCRIPT)
    forms = [path, str(path), path.read_bytes(), tmp_path / "m.plan", f"{tmp_path}/m.py:define"]
    for form in forms:
        with anyrt.Predictor(form, threads=1) as predictor:
            np.testing.assert_array_equal(predictor.run({"x": X})["y"], -X)


def test_a_list_gives_a_list(path):
    inputs = [{"x": X * k} for k in range(3)]
    result = anyrt.Predictor(path).run(inputs)
    assert [f["y"].tolist() for f in result] == [(-X * k).tolist() for k in range(3)]


def test_metadata_and_profiles_are_returned(path):
    shapes = ((1, 3), (2, 3), (4, 3))
    predictor = anyrt.Predictor(path, profiles=[{"x": shapes}])
    reported = predictor.metadata()
    assert [(p.name, p.shape) for p in reported.inputs + reported.outputs] == [("x", (-1, 3)), ("y", (-1, 3))]
    assert reported.profiles == ({"x": shapes},)
    with pytest.raises(ProfileError):
        predictor.run({"x": np.zeros((5, 3), np.float32)})


def test_precision_lets_weights_be_halves():
    text = "g (float[1, 512] x) => (float[1, 512] y) { y = MatMul(x, w) }"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    weight = np.full((512, 512), 1 + 2**-12, np.float32)  # float16 rounds them to 1
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    x = np.eye(1, 512, dtype=np.float32)
    results = [anyrt.Predictor(model, precision=p).run({"x": x})["y"][0, 0] for p in ([], ["fp16"])]
    assert results == [weight[0, 0], 1]


def test_mistakes_are_reported_and_counted(path):
    predictor = anyrt.Predictor(path)
    with pytest.raises(BindingError):
        predictor.run({"z": X})
    predictor.run({"x": X})
    stats = predictor.stats()
    assert (stats.runs, stats.failures, stats.contexts) == (1, 1, 1)
    for options in ({"threads": 0}, {"contexts": 0}, {"precision": ["fp4"]}):
        with pytest.raises(ArgumentError, match="Predictor"):
            anyrt.Predictor(path, **options)


def test_closed_one_rejects(path):
    with anyrt.Predictor(path) as predictor:
        predictor.run({"x": X})
    with pytest.raises(ArgumentError, match=diagnostic("AR304", "Predictor", "close()")):
        predictor.run({"x": X})


def test_many_threads_share_few_contexts(path):
    predictor = anyrt.Predictor(path, contexts=2)
    inputs = [np.full((1 + k % 7, 3), k, np.float32) for k in range(200)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda x: predictor.run({"x": x})["y"], inputs))
    assert all(np.array_equal(y, -x) for x, y in zip(inputs, results, strict=True))
    assert predictor.stats().contexts <= 2


def test_calls_in_turn_use_the_same_context(path):
    predictor = anyrt.Predictor(path, contexts=3)
    for k in range(4):
        np.testing.assert_array_equal(predictor.run({"x": X * k})["y"], -X * k)
        with pytest.raises(BindingError):
            predictor.run({"x": "three"})
    assert predictor.stats().contexts == 1


def test_pickled_one_runs_in_another_process_and_folder(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    predictor = anyrt.Predictor("m.onnx")
    predictor.run({"x": X})
    data = pickle.dumps(predictor)
    code = (
        "import pickle,sys; print(pickle.load(sys.stdin.buffer).run({'x': [[1.0, -2.0, 3.0]]})['y'].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, cwd="/")
    assert done.stdout.decode().strip() == str((-X).tolist()), done.stderr.decode()


def test_forked_child_opens_its_own(path):
    predictor = anyrt.Predictor(path)
    predictor.run({"x": X})
    child = os.fork()
    if not child:
        os._exit(0 if predictor.run({"x": X})["y"].tolist() == (-X).tolist() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert predictor.stats().runs == 1


def test_one_process_compiles_while_others_wait(tmp_path):
    key, order = "0" * 64, []
    with one_at_a_time(key, tmp_path):
        held = threading.Event()

        def other():
            held.set()
            with one_at_a_time(key, tmp_path):
                order.append("second")

        thread = threading.Thread(target=other)
        thread.start()
        held.wait()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
