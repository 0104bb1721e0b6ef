"""Requests, waits and runs have spans in the traces of their callers; without configuration, there
are none."""

import asyncio
import http.server
import json
import re
import subprocess
import sys
import threading
import urllib.request

import numpy as np
import pytest

from anyrt.serve.batching import Batcher
from anyrt.serve.models import Options, Repository, Source
from anyrt.serve.refused import Limits, Reason, Refused
from anyrt.serve.service import Service
from anyrt.serve.settings import Settings
from anyrt.serve.stats import Statistics

trace = pytest.importorskip(
    "opentelemetry.trace", reason="the extra trace is not installed: make programs runs this"
)
pytest.importorskip("starlette", reason="the extra serve is not installed: make programs runs this")

from opentelemetry.sdk.trace import TracerProvider, sampling  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

from anyrt.cli.commands.serve import _trace  # noqa: E402
from anyrt.serve.exporting import export_traces  # noqa: E402
from anyrt.serve.http import application  # noqa: E402
from anyrt.serve.tracing import runs, span, tracer  # noqa: E402
from tests.messages import values_in_order  # noqa: E402

pytestmark = pytest.mark.programs
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]}


@pytest.fixture
def exported(monkeypatch):
    """The spans of a provider that a program has set."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampling.ParentBased(sampling.ALWAYS_ON))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return lambda: {s.name: s for s in memory.get_finished_spans()}


async def post(app, path, body, headers=()):
    """The status of a response."""
    sent = []
    names = [(b"host", b"localhost"), *((n.encode(), v.encode()) for n, v in headers)]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": names}

    async def receive():
        return {"type": "http.request", "body": json.dumps(body).encode()}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"]


def ask(neg, body=BODY, headers=(), path="/v2/models/neg/infer"):
    repository = Repository(Source(single=("neg", neg, Settings(max_batch_size=4))), Options())
    repository.load_all()

    async def asked():
        return await post(
            application(Service(repository, Limits()), None, ("localhost",)), path, body, headers
        )

    try:
        return asyncio.run(asked())
    finally:
        repository.close()


def test_a_request_and_its_parts_are_in_the_trace_of_the_caller(exported, neg):
    assert ask(neg, headers=[("traceparent", PARENT)]) == 200
    spans = exported()
    request, queue, run = (spans[n] for n in ("POST /v2/models/{name}/infer", "queue", "run"))
    assert {f"{s.context.trace_id:032x}" for s in spans.values()} == {TRACE}
    assert f"{request.parent.span_id:016x}" == CALLER
    assert queue.parent.span_id == run.parent.span_id == request.context.span_id
    assert request.start_time <= queue.start_time <= queue.end_time == run.start_time
    assert run.start_time < run.end_time <= request.end_time
    assert request.kind is trace.SpanKind.SERVER
    assert request.attributes["http.response.status_code"] == 200
    facts = {"anyrt.model": "neg", "anyrt.version": "1", "anyrt.rows": 1, "anyrt.requests": 1}
    assert dict(run.attributes) == facts


def test_a_request_that_is_rejected_has_its_status_and_no_run(exported, neg):
    assert ask(neg, {"inputs": []}) == 400
    assert ask(neg, path="/v2/models/other/infer") == 404
    (request,) = exported().values()
    assert request.attributes["http.response.status_code"] == 404
    assert request.attributes["error.type"] == "UNKNOWN"
    assert request.status.status_code is trace.StatusCode.UNSET


def test_a_fault_is_an_error_of_its_span(exported):
    with (
        pytest.raises(Refused),
        span(tracer(), "r", {}, {}, lambda reason: {"status": reason.status}),
    ):
        raise Refused(Reason.FAULT, "it broke")
    assert exported()["r"].status.status_code is trace.StatusCode.ERROR
    assert exported()["r"].attributes["status"] == 500


@pytest.fixture
def waiting(exported):
    """A batcher whose instance is busy until the gate opens."""
    gate, entered = threading.Event(), threading.Event()

    def engine(arrays):
        entered.set()
        assert gate.wait(60)
        if len(arrays["x"]) == 3:
            raise ValueError("three")
        return {"y": arrays["x"]}

    batcher = Batcher(engine, Settings(max_batch_size=8), Limits(), Statistics(), True, runs=runs("m", "1"))
    batcher.submit({"x": np.ones((1, 1))})
    assert entered.wait(60)
    yield batcher, gate
    gate.set()
    batcher.close()


def submit(batcher, names, rows=1):
    answers = []
    for name in names:
        with trace.get_tracer("t").start_as_current_span(name, end_on_exit=False) as open_span:
            answers.append((batcher.submit({"x": np.ones((rows, 1))}), open_span))
    return answers


def finish(gate, answers):
    gate.set()
    for answer, open_span in answers:
        answer.result(60)
        open_span.end()


def test_a_run_is_linked_with_its_requests_and_they_with_it(exported, waiting):
    batcher, gate = waiting
    finish(gate, submit(batcher, ["a", "b"]))
    spans = exported()
    run = spans["run"]
    assert run.parent.span_id == spans["a"].context.span_id
    assert [link.context.span_id for link in run.links] == [spans[n].context.span_id for n in "ab"]
    assert all(spans[n].links[0].context.span_id == run.context.span_id for n in "ab")
    assert (run.attributes["anyrt.rows"], run.attributes["anyrt.requests"]) == (2, 2)


def test_a_run_that_fails_has_an_error(exported, waiting):
    batcher, gate = waiting
    gate.set()
    ((answer, _),) = submit(batcher, ["a"], rows=3)
    with pytest.raises(Refused):
        answer.result(60)
    batcher.close()
    assert exported()["run"].status.status_code is trace.StatusCode.ERROR
    assert exported()["run"].status.description == "ValueError"


def test_requests_that_are_not_sampled_have_no_spans(exported, neg):
    assert ask(neg, headers=[("traceparent", PARENT[:-1] + "0")]) == 200
    assert exported() == {}


@pytest.mark.parametrize("name", ["ModelInfer", "ModelStreamInfer"])
def test_calls_of_grpc_have_spans(exported, neg, name):
    import grpc

    from anyrt.serve.rpc import rpc_server

    async def call():
        server = rpc_server(
            Service(Repository(Source(single=("neg", neg, Settings())), Options()), Limits()), None
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            path, metadata = f"/inference.GRPCInferenceService/{name}", [("traceparent", PARENT)]
            if name == "ModelInfer":
                with pytest.raises(grpc.RpcError):
                    await channel.unary_unary(path)(b"", metadata=metadata)
            else:
                answers = channel.stream_stream(path)(iter([b""]), metadata=metadata)
                assert b"unknown model" in await answers.read()
        await server.stop(None)

    asyncio.run(call())
    request = exported()[f"inference.GRPCInferenceService/{name}"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert dict(request.attributes) == {
        "rpc.system": "grpc",
        "rpc.service": "inference.GRPCInferenceService",
        "rpc.method": name,
        "rpc.grpc.status_code": 5,
        "error.type": "UNKNOWN",
    }


def test_without_a_provider_there_is_no_tracer(neg):
    assert tracer() is None
    assert runs("m", "1") is None
    assert ask(neg, headers=[("traceparent", PARENT)]) == 200


@pytest.mark.parametrize("before", ["sys.modules['opentelemetry'] = None", ""], ids=["absent", "there"])
def test_serving_needs_no_package_and_loads_no_exporter(before):
    code = f"""import sys; {before}
from anyrt.serve.run import serve
from anyrt.serve.tracing import runs, tracer
assert tracer() is None and runs("m", "1") is None
assert not any(n.startswith(("opentelemetry.sdk", "opentelemetry.exporter")) for n in sys.modules)"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_variables_without_the_package_are_named_and_harmless(monkeypatch, capsys):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setitem(sys.modules, "anyrt.serve.exporting", None)
    _trace()
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["exporters"]) == ("traces", [])
    assert line["reason"].endswith("pip install anyrt[trace]")


@pytest.mark.parametrize("names", ["none", ""])
def test_no_exporter_is_loaded_without_variables(names, monkeypatch, capsys):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", names)
    monkeypatch.setitem(sys.modules, "anyrt.serve.exporting", None)
    _trace()
    assert capsys.readouterr().err == ""


def test_the_provider_of_a_program_is_kept(exported):
    before = trace.get_tracer_provider()
    export_traces(["pigeon"])
    assert trace.get_tracer_provider() is before


@pytest.fixture
def collector():
    """The requests received by an OTLP collector at a free port: (name, trace) of each span."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            import gzip

            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                name = next(
                    a.value.string_value for a in resource.resource.attributes if a.key == "service.name"
                )
                got.extend(
                    (name, s.name, s.trace_id.hex()) for part in resource.scope_spans for s in part.spans
                )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()
        thread.join()


def stop(server):
    server.process.terminate()
    assert server.process.wait(60) == 0


def test_variables_of_opentelemetry_export_both_protocols(collector, serving, neg):
    import grpc

    address, got = collector
    server = serving(neg, env={"OTEL_EXPORTER_OTLP_ENDPOINT": address})
    headers = {"traceparent": PARENT, "content-type": "application/json"}
    request = urllib.request.Request(server.url("/v2/models/neg/infer"), json.dumps(BODY).encode(), headers)
    assert urllib.request.urlopen(request).status == 200
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError):
            call(b"", metadata=[("traceparent", PARENT.replace(TRACE, TRACE[::-1]))])
    stop(server)
    assert {"event": "traces", "exporters": ["otlp"]}.items() <= server.lines()[0].items()
    assert ("anyrt", "POST /v2/models/{name}/infer", TRACE) in got
    assert ("anyrt", "run", TRACE) in got
    assert ("anyrt", "inference.GRPCInferenceService/ModelInfer", TRACE[::-1]) in got


def test_an_exporter_that_is_not_installed_is_named(neg):
    command = [sys.executable, "-m", "anyrt", "serve", str(neg)]
    done = subprocess.run(command, env={"OTEL_TRACES_EXPORTER": "pigeon"}, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search(values_in_order("pigeon", "console", "otlp_proto_http"), done.stderr)
