"""Ray Data with an actor pool of predictors, one of which is killed, and Ray Serve with two replicas."""

import json
import os
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from anyrt.integrations.ray import Rows
from anyrt.onnx.predictor import Predictor

ray = pytest.importorskip("ray", reason="Ray is not installed: make engines runs this")
pytest.importorskip("ray.data", reason="Ray Data is not installed: make engines runs this")

pytestmark = [pytest.mark.programs, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    yield
    ray.shutdown()


class Dying(Rows):
    """The first actor kills itself once, in the middle."""

    def __init__(self, predictor, flag):
        super().__init__(predictor)
        self.flag, self.calls = flag, 0

    def __call__(self, batch):
        self.calls += 1
        if self.calls == 3:
            try:
                os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def dataset(rows, blocks):
    items = [{"id": k, "x": [float(k), 1.0, 2.0]} for k in range(rows)]
    return ray.data.from_items(items, override_num_blocks=blocks)


def checked(result, rows):
    assert sorted(r["id"] for r in result) == list(range(rows))
    assert all(list(r["y"]) == [-r["id"], -1, -2] for r in result)


def test_every_row_is_computed(neg):
    arguments = {"fn_constructor_args": (Predictor(neg, threads=1),), "concurrency": 2, "batch_size": 16}
    checked(dataset(200, 8).map_batches(Rows, **arguments).take_all(), 200)


def test_a_worker_that_is_killed_loses_no_row_and_doubles_none(neg, tmp_path):
    args = (Predictor(neg, threads=1), str(tmp_path / "flag"))
    arguments = {"fn_constructor_args": args, "concurrency": 2, "batch_size": 16}
    result = dataset(400, 16).map_batches(Dying, max_restarts=2, max_task_retries=-1, **arguments).take_all()
    assert (tmp_path / "flag").exists()
    checked(result, 400)


def test_two_replicas_answer_behind_ray_serve(neg, free_port, monkeypatch):
    serve = pytest.importorskip("ray.serve", reason="Ray Serve is not installed: make engines runs this")
    pytest.importorskip("starlette", reason="the extra serve is not installed: make engines runs this")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples/serving")
    import ray_serve

    ray.cloudpickle.register_pickle_by_value(sys.modules["ray_serve"])  # replicas do not have its directory
    serve.start(http_options={"host": "127.0.0.1", "port": free_port})
    try:
        serve.run(ray_serve.deployment({"model": str(neg), "replicas": "2"}))
        assert serve.status().applications["default"].deployments["AnyRT"].replica_states == {"RUNNING": 2}
        for k in range(20):
            tensor = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [k, 1, 2]}
            body = json.dumps({"inputs": [tensor]}).encode()
            url = f"http://127.0.0.1:{free_port}/v2/models/neg/infer"
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
                assert json.load(answer)["outputs"][0]["data"] == [-k, -1, -2]
    finally:
        serve.shutdown()
