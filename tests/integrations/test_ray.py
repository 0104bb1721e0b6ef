"""Ray Data with an actor pool of predictors, one of which is killed."""

import os
import signal

import pytest
from onnx import parser

from anyrt.integrations.ray import Rows
from anyrt.onnx.predictor import Predictor

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]'")
pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'ray[data]'")

pytestmark = [pytest.mark.programs, pytest.mark.filterwarnings("ignore")]
NEG = '<ir_version: 10, opset_import: ["": 21]> g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }'


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    yield
    ray.shutdown()


@pytest.fixture
def model(tmp_path):
    (tmp_path / "m.onnx").write_bytes(parser.parse_model(NEG).SerializeToString())
    return tmp_path / "m.onnx"


class Dying(Rows):
    """The first actor that is here ends itself once, in the middle."""

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


def checked(found, rows):
    assert sorted(r["id"] for r in found) == list(range(rows))
    assert all(list(r["y"]) == [-r["id"], -1, -2] for r in found)


def test_every_row_is_computed(model):
    given = {"fn_constructor_args": (Predictor(model, threads=1),), "concurrency": 2, "batch_size": 16}
    checked(dataset(200, 8).map_batches(Rows, **given).take_all(), 200)


def test_a_worker_that_is_killed_loses_no_row_and_doubles_none(model, tmp_path):
    args = (Predictor(model, threads=1), str(tmp_path / "flag"))
    given = {"fn_constructor_args": args, "concurrency": 2, "batch_size": 16}
    found = dataset(400, 16).map_batches(Dying, max_restarts=2, max_task_retries=-1, **given).take_all()
    assert (tmp_path / "flag").exists()
    checked(found, 400)
