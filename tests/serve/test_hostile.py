"""Malicious requests and clients, and shutdowns of servers."""

import contextlib
import gzip
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.sampling import FUZZ

pytest.importorskip("granian", reason="the extra serve is not installed: make programs runs this")
grpc = pytest.importorskip("grpc", reason="the extra serve is not installed: make programs runs this")

pytestmark = pytest.mark.programs
INFER = "/v2/models/neg/infer"
X = np.float32([[1, -2, 3]])


def body(**more):
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, -2, 3]} | more
    return json.dumps({"inputs": [tensor]}).encode()


def ask(server, path=INFER, data=None, headers=None, method=None):
    """(status, body) of one request on a separate connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=20)
    connection.request(method or ("GET" if data is None else "POST"), path, data, headers or {})
    answer = connection.getresponse()
    result = answer.status, answer.read()
    connection.close()
    return result


def is_well(server):
    status, text = ask(server, data=body())
    return status == 200 and json.loads(text)["outputs"][0]["data"] == [-1, 2, -3]


def raw(server, *pieces, pause=0.0, seconds=20):
    """The response to raw bytes, until the server ends the connection."""
    with socket.create_connection(("127.0.0.1", server.http), timeout=seconds) as s:
        received = b""
        try:
            for piece in pieces:
                s.sendall(piece)
                time.sleep(pause)
            while got := s.recv(65536):
                received += got
        except (ConnectionError, BrokenPipeError):
            pass
        return received


BAD = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"[" * 100_000,
    b'{"inputs": 3}',
    b'{"inputs": [3]}',
    b'{"inputs": [{"name": 3}]}',
    b'{"inputs": []}',
    b'{"inputs": [{"name": "z"}]}',
    b"\xff\xfe{}",
    b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 1e999]}], "id": 3}',
    body(shape=[1, 4]),
    body(shape=[10**12, 3]),
    body(shape=[-1, 3]),
    body(datatype="FP64"),
    body(data=[1, 2]),
    body(data="no"),
    body(parameters={"binary_data_size": 12}),
    body(parameters=[]),
    json.dumps({"inputs": [json.loads(body())["inputs"][0]] * 2}).encode(),
    json.dumps({"inputs": json.loads(body())["inputs"], "outputs": [{"name": "q"}]}).encode(),
    json.dumps({"inputs": json.loads(body())["inputs"], "parameters": {"timeout": -1}}).encode(),
]


def test_bad_bodies_are_rejected_and_change_nothing(serving, neg):
    server = serving(neg)
    for data in BAD:
        status, text = ask(server, data=data)
        assert (status, list(json.loads(text))) == (400, ["error"]), data[:100]
    header = body(data=[], parameters={"binary_data_size": 12}).replace(b'"data": [], ', b"")
    for length in ("-1", "x", str(len(header) + 99), "9" * 30, "5"):
        headers = {"Inference-Header-Content-Length": length}
        assert ask(server, data=header + X.tobytes(), headers=headers)[0] == 400
    for tail in (X.tobytes()[:-1], X.tobytes() + b"1", b""):
        headers = {"Inference-Header-Content-Length": str(len(header))}
        assert ask(server, data=header + tail, headers=headers)[0] == 400
    headers = {"Inference-Header-Content-Length": str(len(header))}
    assert ask(server, data=header + X.tobytes(), headers=headers)[0] == 200
    assert is_well(server)


def test_thousands_of_mangled_requests_do_no_harm(serving, neg):
    server, random = serving(neg), np.random.default_rng(0)
    connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=20)
    statuses = set()
    for k in range(2000):
        data = bytearray(body())
        for _ in range(random.integers(1, 4)):
            data[random.integers(len(data))] = random.integers(256)
        data = data[: random.integers(len(data) + 1)] if k % 3 == 0 else data
        connection.request("POST", INFER, bytes(data))
        answer = connection.getresponse()
        answer.read()
        statuses.add(answer.status)
    connection.close()
    assert statuses <= {200, 400, 413, 501}
    assert is_well(server)


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../neg",
        "%2e%2e",
        "..%2f..%2fetc",
        "neg%00",
        "link",
        "neg%2f1",
        ".hidden",
        "a" * 9000,
        "%ff",
        "outside",
    ],
)
def test_no_name_leads_out_of_the_repository(name, serving, neg, tmp_path):
    root, outside = tmp_path / "models", tmp_path / "outside"
    for place in (root / "neg" / "1", outside / "1"):
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(neg.read_bytes())
    (root / "link").symlink_to(outside)
    (root / "neg" / "2").symlink_to(outside / "1")
    (root / "neg" / "3").mkdir()
    (root / "neg" / "3" / "model.onnx").symlink_to(neg)
    server = serving("--repository", root, "--repository-control")
    for path in (f"/v2/models/{name}/infer", f"/v2/repository/models/{name}/load"):
        assert ask(server, path, body())[0] in (400, 404, 414, 431)
    index = json.loads(ask(server, "/v2/repository/index", b"{}")[1])
    assert [(m["name"], m["version"]) for m in index] == [("neg", "1")]
    assert is_well(server)


def test_large_and_compressed_bodies_are_bounded(serving, neg):
    server = serving(neg, "--max-body-mb", 1)
    assert ask(server, data=b" " * (1 << 20) + b" ")[0] == 413
    bomb = gzip.compress(b" " * (200 << 20), 9)
    assert ask(server, data=bomb, headers={"Content-Encoding": "gzip"})[0] == 413
    assert ask(server, data=bomb[:100], headers={"Content-Encoding": "gzip"})[0] == 400
    assert ask(server, data=b"no gzip", headers={"Content-Encoding": "gzip"})[0] == 400
    assert ask(server, data=b"x", headers={"Content-Encoding": "br"})[0] == 415
    pieces = (b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % INFER.encode(),)
    assert b" 200 " not in raw(server, *pieces, *[b"10000\r\n" + b" " * 65536 + b"\r\n"] * 40)[:20]
    with open(f"/proc/{server.process.pid}/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    assert peak < 400_000  # kB: the 200 MB were never allocated
    assert is_well(server)


def test_huge_headers_and_broken_http_are_rejected(serving, neg):
    server = serving(neg)
    start = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n"
    assert b" 431 " in raw(server, start + b"X: " + b"a" * 2_000_000 + b"\r\n\r\n")[:20]
    assert b" 431 " in raw(server, start + b"".join(b"X%d: y\r\n" % k for k in range(5000)) + b"\r\n")[:20]
    for text in (b"\0" * 100, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00", start + b"Content-Length: -1\r\n\r\n"):
        assert b" 200 " not in raw(server, text + b"\r\n\r\n")[:20]
    assert is_well(server)


@pytest.mark.parametrize(
    ("nbytes", "status"), [(60_000, 200), (66_000, 431), (400_000, 431), (1_000_000, 431)]
)
def test_headers_have_at_most_64_kib(nbytes, status, serving, neg):
    server = serving(neg)
    start = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    one = b"X: " + b"a" * nbytes + b"\r\n"
    several = b"".join(b"X-%d: %s\r\n" % (k, b"a" * (nbytes // 50)) for k in range(50))
    for headers in (one, several):
        answer = raw(server, start + headers + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:80]
        assert b"more than 65536 bytes" in answer or status == 200 or nbytes > 300_000
    assert is_well(server)


@pytest.mark.parametrize(("nbytes", "is_answered"), [(60_000, True), (66_000, False), (400_000, False)])
def test_metadata_of_grpc_has_at_most_64_kib(nbytes, is_answered, serving, neg):
    server = serving(neg)
    options = [(f"grpc.{name}max_metadata_size", 1 << 20) for name in ("", "absolute_")]
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}", options) as channel:
        ask_live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        for _ in range(20):  # beyond a soft limit only some calls are rejected
            if is_answered:
                assert ask_live(b"", metadata=[("x", "a" * nbytes)], timeout=20) == b"\x08\x01"
            else:
                with pytest.raises(grpc.RpcError) as caught:
                    ask_live(b"", metadata=[("x", "a" * nbytes)], timeout=20)
                assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert ask_live(b"", timeout=20) == b"\x08\x01"


def test_slow_clients_are_disconnected_and_delay_no_others(serving, neg):
    server = serving(neg, "--slow-seconds", 1)
    post = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n" % INFER.encode()
    slow = [
        (b"",),
        (post,),
        (post, *[b"X-%d: y\r\n" % k for k in range(20)]),
        (post + b"\r\n" + b"1", *[b" "] * 20),
    ]
    ends = []

    def run(pieces):
        start = time.monotonic()
        raw(server, *pieces, pause=0.2)
        ends.append(time.monotonic() - start)

    threads = [threading.Thread(target=run, args=(p,)) for p in slow * 20]
    for thread in threads:
        thread.start()
    start = time.monotonic()
    assert is_well(server)
    assert time.monotonic() - start < 1
    for thread in threads:
        thread.join(20)
    assert len(ends) == 80
    assert max(ends) < 8
    assert is_well(server)


def test_only_known_hosts_are_answered(serving, neg):
    server = serving(neg, "--allow-host", "models.example")
    for host, status in (("evil.example", 400), ("models.example", 200), ("localhost:99", 200)):
        assert ask(server, "/v2/health/live", headers={"Host": host})[0] == status
    connection = http.client.HTTPConnection("127.0.0.1", server.http)
    connection.request("OPTIONS", INFER, headers={"Origin": "http://evil.example"})
    answer = connection.getresponse()
    assert "access-control-allow-origin" not in {k.lower() for k, _ in answer.getheaders()}
    connection.close()


def test_pages_of_other_origins_cannot_ask(serving, neg):
    server = serving(neg, "--allow-host", "models.example")
    own = f"http://127.0.0.1:{server.http}"
    strangers = (
        "http://evil.example",
        "null",
        "",
        "http://127.0.0.1.evil.example",
        "http://evil.example:80@localhost",
    )
    for origin, status in (*((s, 403) for s in strangers), (own, 200), ("https://models.example", 200)):
        got, text = ask(server, data=body(), headers={"Origin": origin})
        assert got == status, origin
        expected = f"Origin: got {origin!r}, wanted this server or none; --allow-host permits others"
        assert got == 200 or json.loads(text)["error"] == expected
        assert ask(server, "/v2/health/live", headers={"Origin": origin})[0] == status, origin


def test_each_request_is_checked_after_one_that_passed(serving, neg, tmp_path):
    (tmp_path / "token").write_text("secret")
    server = serving(neg, "--token-file", tmp_path / "token")
    good = {"Host": "localhost", "Authorization": "Bearer secret"}
    assert [ask(server, data=body(), headers=good)[0] for _ in range(2)] == [200, 200]
    changes = [
        ({"Host": "evil.example"}, 400),
        ({"Origin": "http://evil.example"}, 403),
        ({"Authorization": "Bearer secre"}, 401),
        ({"Authorization": ""}, 401),
        ({}, 200),
    ]
    for change, status in changes:
        assert ask(server, data=body(), headers=good | change)[0] == status, change
    start = b"GET /v2 HTTP/1.1\r\nAuthorization: Bearer secret\r\nConnection: close\r\n"
    assert b" 200 " in raw(server, start + b"Host: localhost\r\n\r\n")[:20]
    twice = b"Host: evil.example\r\nHost: localhost\r\n\r\n"
    assert b" 400 " in raw(server, start + twice)[:20]


def test_a_repeated_description_of_tensors_is_compared_with_each_body(serving, neg):
    server = serving(neg)
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 3], "parameters": {"binary_data_size": 12}}
    header = json.dumps({"inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(header))}
    for k in range(3):
        status, text = ask(server, data=header + (X + k).tobytes(), headers=headers)
        assert (status, json.loads(text)["outputs"][0]["data"]) == (200, (-X - k).ravel().tolist())
    for data, error in ((X.tobytes()[:-1], "binary_data_size 12"), (X.tobytes() + b"1", "1 bytes belong")):
        status, text = ask(server, data=header + data, headers=headers)
        assert (status, error in json.loads(text)["error"]) == (400, True)
    assert ask(server, data=header + X.tobytes(), headers={})[0] == 400


def test_more_descriptions_of_tensors_than_are_known_are_answered(serving, neg):
    server = serving(neg, "--max-batch-size", 256)
    for rows in (*range(1, 150), 1):
        shape, data = [rows, 3], np.full((rows, 3), rows, np.float32)
        tensor = {
            "name": "x",
            "datatype": "FP32",
            "shape": shape,
            "parameters": {"binary_data_size": data.nbytes},
        }
        header = json.dumps({"inputs": [tensor]}).encode()
        headers = {"Inference-Header-Content-Length": str(len(header))}
        status, text = ask(server, data=header + data.tobytes(), headers=headers)
        assert (status, json.loads(text)["outputs"][0]["shape"]) == (200, shape)


def test_server_listens_on_this_machine_alone(serving, neg):
    server = serving(neg)
    lines = [
        line.split() for f in ("tcp", "tcp6") for line in Path(f"/proc/net/{f}").read_text().splitlines()
    ]
    listening = {line[1] for line in lines if line[3] == "0A"}
    ports = {f"{p:04X}" for p in (server.http, server.grpc)}
    addresses = [a for a in listening if a.split(":")[1] in ports]
    assert len(addresses) == 2
    assert {a.split(":")[0].removeprefix("0000000000000000FFFF0000") for a in addresses} == {"0100007F"}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate, and is not here")
def test_tls(serving, neg, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
    subprocess.run([*command, *names], check=True, capture_output=True)
    server = serving(neg, "--tls-certificate", certificate, "--tls-key", key)
    context = ssl.create_default_context(cafile=certificate)
    connection = http.client.HTTPSConnection("localhost", server.http, context=context)
    connection.request("POST", INFER, body())
    assert connection.getresponse().status == 200
    connection.close()
    assert b" 200 " not in raw(server, b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n", seconds=15)


def load(server, seconds, threads=4):
    """Requests of several threads for a while; the wrong responses and errors."""
    wrong, right = [], []

    def run(k):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            value = float(k * 1000 + len(right) % 1000)
            try:
                status, text = ask(server, data=body(data=[value, 0, 1]))
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)
                continue
            if status == 200:
                fits = json.loads(text)["outputs"][0]["data"] == [-value, 0, -1]
                (right if fits else wrong).append(text)
            elif status != 503:
                wrong.append((status, text))

    workers = [threading.Thread(target=run, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    return workers, wrong, right


def test_killed_under_load_every_answer_is_right_or_an_error(serving, neg):
    server = serving(neg, "--max-batch-size", 8)
    workers, wrong, right = load(server, 12)  # the second server may need some of them to start
    time.sleep(1)
    server.process.kill()
    server.process.wait()
    before = len(right)
    serving(neg, "--max-batch-size", 8, port=server.http)
    for worker in workers:
        worker.join()
    assert before > 10
    assert len(right) > before
    assert not wrong


def test_sigterm_completes_running_requests(serving, neg):
    server = serving(neg, "--max-batch-size", 8, "--batch-delay-us", 1_500_000)
    responses = []
    threads = [threading.Thread(target=lambda: responses.append(ask(server, data=body()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    os.kill(server.process.pid, signal.SIGTERM)
    for thread in threads:
        thread.join(20)
    assert server.process.wait(20) == 0
    assert [status for status, _ in responses] == [200] * 4
    assert [x["event"] for x in server.lines()][-3:] == ["draining", "drained", "ended"]


def test_a_full_queue_says_when_to_ask_again(serving, neg):
    options = ("--max-batch-size", 64, "--batch-delay-us", 3_000_000, "--max-queue", 2)
    server = serving(neg, *options)
    responses = []
    threads = [threading.Thread(target=lambda: responses.append(ask(server, data=body()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    connection = http.client.HTTPConnection("127.0.0.1", server.http)
    connection.request("POST", INFER, body())
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Retry-After")) == (503, "1")
    connection.close()
    for thread in threads:
        thread.join()
    assert [status for status, _ in responses] == [200, 200]


def test_a_client_that_goes_away_takes_its_request_along(serving, neg):
    server = serving(neg, "--max-batch-size", 64, "--batch-delay-us", 1_500_000)
    data = body()
    head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.http)) as s:
        s.sendall(head.encode() + data)
        time.sleep(0.5)
    time.sleep(1.5)
    statistics = json.loads(ask(server, "/v2/models/neg/stats")[1])["model_stats"][0]
    assert (statistics["execution_count"], statistics["inference_stats"]["fail"]["count"]) == (0, 1)


def test_a_deadline_of_a_request_is_kept(serving, neg):
    server = serving(neg, "--max-batch-size", 64, "--batch-delay-us", 1_000_000)
    late = json.dumps({"inputs": json.loads(body())["inputs"], "parameters": {"timeout": 1000}}).encode()
    status, text = ask(server, data=late)
    assert (status, "not run" in json.loads(text)["error"]) == (504, True)
    assert is_well(server)


def hostile(random):
    """(pieces, whether the rest never comes) of a request that is invalid in one of many ways."""
    header = body(data=[], parameters={"binary_data_size": 12}).replace(b'"data": [], ', b"")
    binary = b"Inference-Header-Content-Length: %d\r\n" % len(header)
    wrong = b"Inference-Header-Content-Length: %d\r\n" % random.integers(-5, 2 * len(header))
    mangled = bytearray(header + X.tobytes())
    for k in random.integers(len(mangled), size=random.integers(1, 9)):
        mangled[k] = random.integers(256)
    junk = random.bytes(int(random.integers(1, 300)))
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\n" % INFER.encode()
    whole = [
        (wrong, header + X.tobytes()),
        (binary, header + X.tobytes() + junk),
        (binary, header + X.tobytes()[: random.integers(12)]),
        (binary, bytes(mangled)),
        (b"", body(shape=[int(n) for n in random.integers(-2, 1 << 40, random.integers(5))])),
        (b"Content-Encoding: gzip\r\n", gzip.compress(body())[: random.integers(60)] + junk),
        (b"".join(b"X-%d: %s\r\n" % (k, b"a" * 99) for k in range(random.integers(4000))), body()),
        (b"X: %s\r\n" % (b"a" * random.integers(600_000)), body()),
    ]
    more, data = whole[random.integers(len(whole))]
    text = head + more + b"Content-Length: %d\r\n\r\n" % len(data) + data
    match random.integers(8):
        case 0:
            return [junk + b"\r\n\r\n"], False
        case 1:
            return [text[: random.integers(len(text))]], True
        case 2:
            cut = random.integers(len(text))
            return [text[:cut], text[cut:]], False
    return [text], False


def send(server, random, statuses):
    pieces, is_cut = hostile(random)
    address = ("127.0.0.1", server.http)
    with socket.create_connection(address, timeout=30) as s, contextlib.suppress(ConnectionError):
        for piece in pieces:
            s.sendall(piece)
        if not is_cut or random.integers(20) == 0:  # most of the cut ones hang up, others wait
            statuses.add(s.recv(65536)[9:12])


def test_hostile_requests_do_not_end_the_server(serving, neg):
    count = 10_000 if FUZZ else 400
    server = serving(neg, "--slow-seconds", 1, "--max-batch-size", 8, "--max-body-mb", 1)
    statuses, failed = set(), []

    def run(k):
        random = np.random.default_rng(k)
        try:
            for _ in range(count // 8):
                send(server, random, statuses)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert {b"200", b"400", b"431"} <= statuses
    assert b"500" not in statuses
    assert is_well(server)
    with open(f"/proc/{server.process.pid}/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    assert peak < 400_000  # kB
