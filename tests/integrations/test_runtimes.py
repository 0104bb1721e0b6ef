"""Runtimes for MLServer and KServe, each with its own server."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec

import pytest

pytestmark = [pytest.mark.programs, pytest.mark.filterwarnings("ignore")]
A = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def tensor(name, datatype, shape, data):
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def pair(rows=2):
    return {
        "id": "7",
        "inputs": [tensor("a", "FP32", [2, 2, 2], A), tensor("b", "UINT8", [rows], [1, 2, 3][:rows])],
    }


def until_ready(process, url):
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, "the server has ended"
        try:
            urllib.request.urlopen(url, timeout=30).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError("the server is not ready after two minutes")


def mlserver(model, folder, port):
    implementation = "anyrt.integrations.mlserver.Runtime"
    parameters = {"uri": str(model), "extra": {"threads": 1}}
    settings = {"name": "wide", "implementation": implementation, "parameters": parameters}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    ports = {"http_port": port, "grpc_port": free_port(), "metrics_port": free_port(), "parallel_workers": 0}
    (folder / "settings.json").write_text(json.dumps({"host": "127.0.0.1", **ports}))
    return [sys.executable, "-m", "mlserver.cli.main", "start", str(folder)]


def kserve(model, folder, port):
    (folder / "model.onnx").write_bytes(model.read_bytes())
    command = [sys.executable, "-m", "anyrt.integrations.kserve", "--model_name", "wide", "--threads", "1"]
    return [*command, "--model_dir", str(folder), "--http_port", str(port), "--enable_grpc", "false"]


@pytest.fixture(scope="module", params=[mlserver, kserve], ids=lambda f: f.__name__)
def server(request, wide, tmp_path_factory):
    name = request.param.__name__
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed: make engines runs this")
    folder, port = tmp_path_factory.mktemp(name), free_port()
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(request.param(wide, folder, port), stdout=log, stderr=log, cwd=folder)
    base = f"http://127.0.0.1:{port}/v2"
    try:
        until_ready(process, f"{base}/models/wide/ready")
        yield base
    finally:
        process.terminate()
        process.wait(60)
    sys.stdout.write((folder / "log").read_text())


def test_it_describes_the_model(server):
    described = ask(f"{server}/models/wide")
    inputs = [(t["name"], t["datatype"], t["shape"]) for t in described["inputs"]]
    assert inputs == [("a", "FP32", [-1, 2, 2]), ("b", "UINT8", [-1])]


def test_it_answers(server):
    answer = ask(f"{server}/models/wide/infer", pair())
    outputs = {t["name"]: t for t in answer["outputs"]}
    assert answer["id"] == "7"
    assert (outputs["twice"]["datatype"], outputs["twice"]["shape"]) == ("FP32", [2, 2, 2])
    assert outputs["twice"]["data"] == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]
    assert (outputs["same"]["shape"], outputs["same"]["data"]) == ([2], [1, 2])


@pytest.mark.parametrize("body", [{"inputs": pair()["inputs"][:1]}, pair(rows=3)], ids=["missing", "rows"])
def test_inputs_that_do_not_fit_are_rejected_by_name(server, body):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(f"{server}/models/wide/infer", body)
    assert caught.value.code == 400
    assert "AR" in caught.value.read().decode()


def test_the_first_version_of_the_protocol(neg, tmp_path):
    pytest.importorskip("kserve", reason="KServe is not installed: make engines runs this")
    import asyncio

    from anyrt.integrations.kserve import Model
    from anyrt.onnx.predictor import Predictor

    model = Model("neg", Predictor(neg, threads=1))
    assert model.load()
    answer = asyncio.run(model.predict({"instances": [[1, -2, 3]]}))
    assert answer == {"predictions": [[-1, 2, -3]]}
