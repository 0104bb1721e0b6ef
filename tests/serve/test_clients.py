"""Triton's own client with a server in a process, over HTTP and over gRPC."""

import json
import shutil
import threading
import urllib.request

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, parser, save

http = pytest.importorskip(
    "tritonclient.http", reason="tritonclient is not installed: make programs runs this"
)
grpc = pytest.importorskip(
    "tritonclient.grpc", reason="tritonclient is not installed: make programs runs this"
)
utils = pytest.importorskip(
    "tritonclient.utils", reason="tritonclient is not installed: make programs runs this"
)
rpc = pytest.importorskip("grpc", reason="the extra serve is not installed: make programs runs this")
pytest.importorskip("granian", reason="the extra serve is not installed: make programs runs this")

pytestmark = pytest.mark.programs
X = np.float32([[1, -2, 3]])
BOTH = pytest.mark.parametrize("kind", [http, grpc], ids=["http", "grpc"])
CONFIG = "max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 0 }"


def client(kind, server):
    port = server.http if kind is http else server.grpc
    return kind.InferenceServerClient(f"127.0.0.1:{port}")


def input_of(kind, x=X, name="x", datatype="FP32"):
    tensor = kind.InferInput(name, x.shape, datatype)
    tensor.set_data_from_numpy(x)
    return tensor


def plain(answer):
    from google.protobuf.json_format import MessageToDict

    return (
        answer if isinstance(answer, dict | list) else MessageToDict(answer, preserving_proto_field_name=True)
    )


@pytest.fixture
def repository(tmp_path, neg):
    root = tmp_path / "models"
    for version in ("1", "2"):
        (root / "neg" / version).mkdir(parents=True)
        (root / "neg" / version / "model.onnx").write_bytes(neg.read_bytes())
    (root / "neg" / "config.pbtxt").write_text(CONFIG)
    (root / "broken" / "1").mkdir(parents=True)
    (root / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    return root


@BOTH
def test_health_and_metadata(kind, serving, neg):
    with client(kind, serving(neg)) as c:
        assert c.is_server_live()
        assert c.is_server_ready()
        assert c.is_model_ready("neg")
        assert plain(c.get_server_metadata())["name"] == "anyrt"
        metadata = plain(c.get_model_metadata("neg"))
        assert metadata["inputs"][0]["datatype"] == "FP32"
        assert [int(n) for n in metadata["inputs"][0]["shape"]] == [-1, 3]
        config = plain(c.get_model_config("neg"))
        assert config.get("config", config)["input"][0]["data_type"] == "TYPE_FP32"


@BOTH
def test_inference_statistics_and_metrics(kind, serving, neg):
    server = serving(neg)
    with client(kind, server) as c:
        for _ in range(3):
            answer = c.infer("neg", [input_of(kind)], request_id="7")
            np.testing.assert_array_equal(answer.as_numpy("y"), -X)
        response = answer.get_response()
        assert (response["id"] if kind is http else response.id) == "7"
        statistics = plain(c.get_inference_statistics("neg"))["model_stats"][0]
    assert (int(statistics["inference_count"]), int(statistics["execution_count"])) == (3, 3)
    assert int(statistics["inference_stats"]["compute_infer"]["ns"]) > 0
    page = urllib.request.urlopen(server.url("/metrics")).read().decode()
    assert 'nv_inference_exec_count{model="neg",version="1"} 3.0' in page


@BOTH
@pytest.mark.parametrize("fields", [{"max_queue_size": 9, "default_timeout_microseconds": 500000}, {}])
def test_configuration_has_the_queue_policy_of_the_file(kind, fields, serving, repository):
    policy = " ".join(f"{k}: {v}" for k, v in fields.items())
    text = f"max_batch_size: 4 dynamic_batching {{ default_queue_policy {{ {policy} }} }}"
    (repository / "neg" / "config.pbtxt").write_text(text)
    with client(kind, serving("--repository", repository)) as c:
        config = plain(c.get_model_config("neg"))
    result = config.get("config", config)["dynamic_batching"].get("default_queue_policy", {})
    if kind is http:
        assert result == fields
    assert {k: int(v) for k, v in result.items()} == fields


@BOTH
@pytest.mark.parametrize(
    "policy", [{"all": {}}, {"latest": {"num_versions": 2}}, {"specific": {"versions": [2]}}]
)
def test_configuration_has_the_version_policy_of_the_file(kind, policy, serving, repository):
    text = json.dumps({"version_policy": policy}).replace('"', "")
    (repository / "neg" / "config.pbtxt").write_text(text[1:-1])
    with client(kind, serving("--repository", repository)) as c:
        config = plain(c.get_model_config("neg"))
    result = config.get("config", config)["version_policy"]
    assert result == policy or (kind is grpc and result == {"specific": {"versions": ["2"]}})


def test_json_and_binary_agree_and_bodies_may_be_compressed(serving, neg):
    with client(http, serving(neg)) as c:
        for binary in (True, False):
            tensor = http.InferInput("x", X.shape, "FP32")
            tensor.set_data_from_numpy(X, binary_data=binary)
            output = http.InferRequestedOutput("y", binary_data=binary)
            for compression in (None, "gzip", "deflate"):
                result = c.infer("neg", [tensor], outputs=[output], request_compression_algorithm=compression)
                np.testing.assert_array_equal(result.as_numpy("y"), -X)


@BOTH
@pytest.mark.parametrize(
    ("kind_of", "datatype", "dtype"),
    [(TensorProto.FLOAT16, "FP16", np.float16), (TensorProto.BFLOAT16, "BF16", ml_dtypes.bfloat16)],
)
def test_half_types_go_by_bytes(kind, kind_of, datatype, dtype, serving, tmp_path):
    x, y = (helper.make_tensor_value_info(n, kind_of, ["n", 3]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        tmp_path / "h.onnx",
    )
    sent = X.astype(dtype)
    tensor = kind.InferInput("x", [1, 3], datatype)
    try:
        tensor.set_data_from_numpy(sent)
    except (
        utils.InferenceServerException
    ):  # clients before release 26.06 accept float32 and convert it to bfloat16
        tensor.set_data_from_numpy(X)
    with client(kind, serving(tmp_path / "h.onnx")) as c:
        output = c.infer("h", [tensor]).as_numpy("y")
    np.testing.assert_array_equal(output.astype(np.float32), -X)


@BOTH
def test_callers_that_do_not_wait(kind, serving, neg):
    with client(kind, serving(neg, "--max-batch-size", 4)) as c:
        if kind is http:
            pending = [c.async_infer("neg", [input_of(http, X * k)]) for k in range(8)]
            answers = [f.get_result().as_numpy("y") for f in pending]
        else:
            answers, done = [None] * 8, threading.Semaphore(0)

            def keep(k):
                return lambda result, error: (answers.__setitem__(k, result.as_numpy("y")), done.release())

            for k in range(8):
                c.async_infer("neg", [input_of(grpc, X * k)], callback=keep(k))
            assert all(done.acquire(timeout=20) for _ in range(8))
    assert all(np.array_equal(y, -X * k) for k, y in enumerate(answers))


def test_stream_of_requests(serving, neg):
    results, done = [], threading.Semaphore(0)
    with client(grpc, serving(neg)) as c:
        c.start_stream(callback=lambda result, error: (results.append((result, error)), done.release()))
        c.async_stream_infer("neg", [input_of(grpc)])
        c.async_stream_infer("none", [input_of(grpc)])
        assert all(done.acquire(timeout=20) for _ in range(2))
        c.stop_stream()
    np.testing.assert_array_equal(results[0][0].as_numpy("y"), -X)
    assert "unknown model" in str(results[1][1])


@BOTH
def test_repository_is_listed_and_changed(kind, serving, repository):
    with client(kind, serving("--repository", repository, "--repository-control")) as c:
        index = plain(c.get_model_repository_index())
        index = index if kind is http else index["models"]
        states = {(m["name"], m.get("version")): m["state"] for m in index}
        assert states == {("broken", "1"): "UNAVAILABLE", ("neg", "2"): "READY"}
        assert not c.is_server_ready()
        c.unload_model("neg")
        assert not c.is_model_ready("neg")
        c.load_model("neg")
        np.testing.assert_array_equal(c.infer("neg", [input_of(kind)], model_version="2").as_numpy("y"), -X)
        with pytest.raises(Exception, match="no version"):
            c.infer("neg", [input_of(kind)], model_version="1")


@BOTH
def test_a_failed_load_is_an_error_with_its_reason(kind, serving, repository):
    with client(kind, serving("--repository", repository, "--repository-control")) as c:
        with pytest.raises(utils.InferenceServerException, match=r"broken.*version 1: \[AR") as failure:
            c.load_model("broken")
        assert failure.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
        (repository / "neg" / "config.pbtxt").write_text("max_batch_size: -1")
        with pytest.raises(utils.InferenceServerException, match=r"'neg'.*max_batch_size -1"):
            c.load_model("neg")
        (repository / "neg" / "config.pbtxt").write_text(CONFIG)
        c.load_model("neg")
        assert c.is_model_ready("neg")


@BOTH
def test_a_failed_reload_leaves_the_loaded_versions_in_use(kind, serving, repository):
    with client(kind, serving("--repository", repository, "--repository-control")) as c:
        shutil.copytree(repository / "broken" / "1", repository / "neg" / "3")
        with pytest.raises(utils.InferenceServerException, match=r"version 3: .* stay in use"):
            c.load_model("neg")
        assert c.is_model_ready("neg")
        np.testing.assert_array_equal(c.infer("neg", [input_of(kind)]).as_numpy("y"), -X)
        for version in (repository / "neg").glob("[0-9]"):
            shutil.rmtree(version)
        with pytest.raises(utils.InferenceServerException, match=r"no version with .* stay in use"):
            c.load_model("neg")
        np.testing.assert_array_equal(c.infer("neg", [input_of(kind)]).as_numpy("y"), -X)


@BOTH
def test_repository_is_read_only_by_default(kind, serving, repository):
    with client(kind, serving("--repository", repository)) as c, pytest.raises(Exception, match="are off"):
        c.unload_model("neg")


@BOTH
def test_unsupported_features_are_rejected_by_name(kind, serving, neg):
    with client(kind, serving(neg)) as c:
        with pytest.raises(Exception, match="sequence"):
            c.infer("neg", [input_of(kind)], sequence_id=7)
        tensor = kind.InferInput("x", [1, 3], "BYTES")
        tensor.set_data_from_numpy(np.array([["a", "b", "c"]], dtype=object))
        with pytest.raises(Exception, match="BYTES"):
            c.infer("neg", [tensor])
        shared = kind.InferInput("x", [1, 3], "FP32")
        shared.set_shared_memory("region", 12)
        with pytest.raises(Exception, match="shared_memory_region"):
            c.infer("neg", [shared])


@BOTH
def test_shared_memory_and_settings_are_rejected_by_name(kind, serving, neg):
    with client(kind, serving(neg)) as c:
        calls = [
            (lambda: c.register_system_shared_memory("a", "b", 8), "system shared memory"),
            (lambda: c.get_system_shared_memory_status(), "system shared memory"),
            (lambda: c.unregister_system_shared_memory(), "system shared memory"),
            (lambda: c.register_cuda_shared_memory("a", b"bbbb", 0, 8), "CUDA shared memory"),
            (lambda: c.get_cuda_shared_memory_status(), "CUDA shared memory"),
            (lambda: c.unregister_cuda_shared_memory(), "CUDA shared memory"),
            (lambda: c.get_trace_settings(), "trace settings"),
            (lambda: c.update_trace_settings("neg", {"trace_level": "OFF"}), "trace settings"),
            (lambda: c.get_log_settings(), "log settings"),
            (lambda: c.update_log_settings({"log_info": False}), "log settings"),
        ]
        for call, feature in calls:
            with pytest.raises(utils.InferenceServerException, match=f"{feature}.* not supported") as failure:
                call()
            assert failure.value.status() in ("501", "StatusCode.UNIMPLEMENTED")


@BOTH
def test_a_token_is_required(kind, serving, neg):
    server = serving(neg, env={"ANYRT_SERVE_TOKEN": "secret"})
    with client(kind, server) as c:
        assert c.is_server_ready()
        for headers in (None, {"authorization": "Bearer secre"}, {"authorization": "secret"}):
            with pytest.raises(Exception, match=r"[Aa]uthorization: Bearer TOKEN"):
                c.infer("neg", [input_of(kind)], headers=headers)
            with pytest.raises(Exception, match=r"[Aa]uthorization: Bearer TOKEN"):
                c.get_log_settings(headers=headers)
        answer = c.infer("neg", [input_of(kind)], headers={"authorization": "Bearer secret"})
        np.testing.assert_array_equal(answer.as_numpy("y"), -X)


def test_messages_have_the_numbers_of_the_clients_own():
    """Every field declared in AnyRT is one of the client's, with its number, type and place."""
    from tritonclient.grpc import model_config_pb2, service_pb2

    from anyrt.serve.messages import _POOL

    theirs = {m.full_name: m for f in (service_pb2, model_config_pb2) for m in _every(f.DESCRIPTOR)}
    ours = _every(_POOL.FindFileByName("inference.proto"))
    assert len(ours) > 50
    for message in ours:
        for field in message.fields:
            other = theirs[message.full_name].fields_by_name[field.name]
            assert (field.number, field.type, field.is_repeated) == (
                other.number,
                other.type,
                other.is_repeated,
            )


def _every(file):
    todo, messages = list(file.message_types_by_name.values()), []
    while todo:
        messages.append(todo.pop())
        todo += messages[-1].nested_types
    return messages


def test_results_do_not_depend_on_other_requests_on_demand(serving, tmp_path):
    random = np.random.default_rng(0)
    text = "g (float[n, 64] x) => (float[n, 64] y) { a = MatMul(x, w) y = Softmax(a) }"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    weights = random.standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, (64, 64), weights.ravel()))
    save(model, tmp_path / "m.onnx")
    xs = [random.standard_normal((1, 64)).astype(np.float32) for _ in range(16)]
    options = ("--max-batch-size", 16, "--batch-delay-us", 200000)
    joined, invariant = (
        serving(tmp_path / "m.onnx", *options),
        serving(tmp_path / "m.onnx", *options, "--batch-invariant"),
    )
    answers = {}
    for server in (joined, invariant):
        with http.InferenceServerClient(f"127.0.0.1:{server.http}", concurrency=16) as c:
            for _ in range(20):  # rows are joined after a trial for that number
                pending = [c.async_infer("m", [input_of(http, x)]) for x in xs]
                answers[server.http] = [f.get_result().as_numpy("y") for f in pending]
                stats = c.get_inference_statistics("m")["model_stats"][0]
                if stats["execution_count"] < stats["inference_count"]:
                    break
            assert stats["execution_count"] < stats["inference_count"]
    with client(http, invariant) as c:
        by_itself = [c.infer("m", [input_of(http, x)]).as_numpy("y") for x in xs]
    assert all(np.array_equal(a, b) for a, b in zip(answers[invariant.http], by_itself, strict=True))
    np.testing.assert_allclose(answers[joined.http], by_itself, rtol=1e-5, atol=1e-7)


def test_log_is_json_a_line(serving, neg):
    server = serving(neg, "--log-requests")
    with client(http, server) as c:
        c.infer("neg", [input_of(http)])
    lines = server.lines()
    assert [x["event"] for x in lines] == ["model", "serving", "request"]
    assert json.dumps(lines[-1]["status"]) == "200"


def test_mangled_messages_do_no_harm(serving, neg):
    server, random = serving(neg), np.random.default_rng(0)
    with rpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        good = _request(X.tobytes())
        assert (-X).tobytes() in call(good)
        wrong = [
            b"",
            b"\xff" * 50,
            good[:-3],
            _request(X.tobytes()[:-1]),
            _request(b""),
            good * 3,
            b"\x0a" * 5000,
        ]
        for k in range(300):
            data = bytearray(good)
            data[random.integers(len(data))] = random.integers(256)
            wrong.append(bytes(data[: random.integers(len(data))] if k % 3 == 0 else data))
        codes = [_code(call, data) for data in wrong]
        assert set(codes) <= {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"}
        assert codes.count("OK") < 100
    with client(grpc, server) as c:
        np.testing.assert_array_equal(c.infer("neg", [input_of(grpc)]).as_numpy("y"), -X)


def _code(call, data):
    try:
        call(data, timeout=20)
    except rpc.RpcError as error:
        return error.code().name
    return "OK"


def _request(data):
    from tritonclient.grpc import service_pb2

    message = service_pb2.ModelInferRequest(model_name="neg", raw_input_contents=[data])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 3])
    return message.SerializeToString()
