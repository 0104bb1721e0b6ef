"""Models and servers of the tests."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from onnx import parser

NEG = '<ir_version: 10, opset_import: ["": 21]> g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }'


@dataclass
class Running:
    """A server in a separate process."""

    process: subprocess.Popen
    http: int
    grpc: int
    log: Path
    events: list = field(default_factory=list)

    def url(self, path):
        return f"http://127.0.0.1:{self.http}{path}"

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def neg(tmp_path):
    (tmp_path / "neg.onnx").write_bytes(parser.parse_model(NEG).SerializeToString())
    return tmp_path / "neg.onnx"


@pytest.fixture
def serving(tmp_path):
    """Starts servers with the options of `anyrt serve`, and ends all of them after the test."""
    started = []

    def start(*options, env=None, port=None):
        http, grpc, log = port or free_port(), free_port(), tmp_path / f"log{len(started)}"
        command = [sys.executable, "-m", "anyrt", "serve", *map(str, options)]
        command += ["--port", str(http), "--grpc-port", str(grpc)]
        with open(log, "wb") as file:
            process = subprocess.Popen(command, stderr=file, env={**os.environ, **(env or {})})
        server = Running(process, http, grpc, log)
        started.append(server)
        until = time.monotonic() + 60
        while '"serving"' not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        return server

    yield start
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()
