"""Serving beside a bare loop: throughput at saturation, gain of batching, overhead of a request, growth.

python -m benchmarks serve --resnet resnet50.onnx --markdown docs/tables/serve.md
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
from onnx import parser

import anyrt
from benchmarks.child import call
from benchmarks.clock import status_kb
from benchmarks.command import Command, file, markdown, option, publish
from benchmarks.onnx_writer import Writer, model_of
from benchmarks.table import Page, Table

PAGE = Page("# Serving\n\nWritten by `python -m benchmarks serve`.\n")
TURNS = 5  # of each measure, bare and served by turns
WIDTH, HEADS, LAYERS, WORDS = 384, 12, 6, 30522
ECHO = """
import asyncio, sys
from granian.server.common import HTTPModes, Interfaces
from granian.server.embed import Server
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def echo(request): return Response(await request.body())
app = Starlette(routes=[Route("/v2/models/tiny/infer", echo, methods=["POST"])])
server = Server(app, "127.0.0.1", int(sys.argv[1]), interface=Interfaces.ASGI, http=HTTPModes.http1,
                log_enabled=False, websockets=False)
asyncio.run(server.serve())
"""
NOTE = (
    f"Bare and served runs alternate; each figure is the median of {TURNS}. Clients and server share the "
    "processors. The last column is the CPU time of the clients. It is not subtracted from the figures. "
    "Clients send tensors as bytes over HTTP and keep their connections open."
)


@dataclass(frozen=True, slots=True)
class Load:
    """The measurements of all clients; `cpu`: their CPU seconds."""

    seconds: float
    cpu: float
    milliseconds: Sequence[float]

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.milliseconds) / self.seconds

    def at(self, part: float) -> float:
        """The milliseconds that this part of the requests stays below."""
        return sorted(self.milliseconds)[min(len(self.milliseconds) - 1, int(part * len(self.milliseconds)))]


PARTS = ("overhead", "saturation", "batching", "growth")


def tables(resnet: Path | None, seconds: float, small: int, parts: Sequence[str] = PARTS) -> list[Table]:
    """A row for each measurement of these parts; saturation requires a file of ResNet-50."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measures: dict[str, Callable[[], Iterator[tuple[str, ...]]]] = {
            "overhead": lambda: _overhead(folder, seconds),
            "saturation": lambda: _saturation(resnet, seconds) if resnet else iter(()),
            "batching": lambda: _batching(folder, seconds),
            "growth": lambda: _growth(folder, small),
        }
        rows = [row for part in parts for row in measures[part]()]
    return [Table("Serving", ("what", "bare", "served", "served / bare", "clients' CPU"), tuple(rows), NOTE)]


def _port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def _started(port: int, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None, "the server ended"
                time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait()


def _serving(port: int, model: Path, *options: object) -> Any:  # Any: a context manager
    more = [str(o) for o in options]
    return _started(port, [sys.executable, "-m", "anyrt", "serve", str(model), "--port", str(port), *more])


def _body(arrays: dict[str, np.ndarray[Any, Any]]) -> tuple[bytes, dict[str, str]]:
    names = {"float32": "FP32", "int64": "INT64"}
    inputs = [
        {
            "name": n,
            "shape": x.shape,
            "datatype": names[str(x.dtype)],
            "parameters": {"binary_data_size": x.nbytes},
        }
        for n, x in arrays.items()
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    data = head + b"".join(x.tobytes() for x in arrays.values())
    return data, {"Inference-Header-Content-Length": str(len(head))}


def _clients(
    port: int, name: str, bodies: Sequence[tuple[bytes, dict[str, str]]], clients: int,
    seconds: float = math.inf, requests: float = math.inf,
) -> Load:  # fmt: skip
    """Clients in a process of their own, so that its CPU time is theirs: asyncio, one connection each."""
    answer = call(_load, (port, name, bodies, clients, seconds, requests), timeout_s=None)
    assert isinstance(answer.value, Load), answer.error
    return answer.value


def _load(port: int, name: str, bodies: Any, clients: int, seconds: float, requests: float) -> Load:
    times, cpu, start = list[float](), time.process_time(), time.perf_counter()

    async def client(k: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while len(times) < requests and time.perf_counter() - start < seconds:
            data, headers = bodies[k % len(bodies)]
            k += 1
            more = "".join(f"{n}: {v}\r\n" for n, v in headers.items())
            head = f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: localhost\r\n{more}"
            head += f"Content-Length: {len(data)}\r\n\r\n"
            begin = time.perf_counter()
            writer.write(head.encode() + data)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in answer[:16], answer
            fields = dict(line.lower().split(b": ", 1) for line in answer.split(b"\r\n")[1:] if b": " in line)
            await reader.readexactly(int(fields[b"content-length"]))
            times.append((time.perf_counter() - begin) * 1e3)
        writer.close()

    async def every() -> None:
        await asyncio.gather(*map(client, range(clients)))

    asyncio.run(every())
    return Load(time.perf_counter() - start, time.process_time() - cpu, times)


def _bare(predict: anyrt.Predictor, feeds: Sequence[dict[str, Any]], seconds: float) -> tuple[float, float]:
    """(runs a second, median milliseconds) of a loop over feeds."""
    for feed in feeds:
        predict.run(feed)
    start, times = time.perf_counter(), []
    while (now := time.perf_counter()) - start < seconds:
        predict.run(feeds[len(times) % len(feeds)])
        times.append(time.perf_counter() - now)
    return len(times) / (time.perf_counter() - start), sorted(times)[len(times) // 2] * 1e3


def _tiny(folder: Path) -> tuple[Path, dict[str, Any]]:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[n, 16] x) => (float[n, 16] y) { y = Neg(x) }'
    onnx.save(parser.parse_model(text), folder / "tiny.onnx")
    return folder / "tiny.onnx", {"x": np.ones((1, 16), np.float32)}


def _overhead(folder: Path, seconds: float) -> Iterator[tuple[str, ...]]:
    model, feed = _tiny(folder)
    bodies, one, two = [_body(feed)], _port(), _port()
    engines, echoes, loads = [], [], []
    with (
        anyrt.Predictor(model, threads=1) as predict,
        _started(one, [sys.executable, "-c", ECHO, str(one)]),
        _serving(two, model, "--threads", 1),
    ):
        for _ in range(TURNS + 1):
            engines.append(_bare(predict, [feed], seconds / TURNS / 4)[1])
            echoes.append(_clients(one, "tiny", bodies, 1, seconds / TURNS))
            loads.append(_clients(two, "tiny", bodies, 1, seconds / TURNS))
    engine, served = median(engines[1:]), median(x.at(0.5) for x in loads[1:])
    echo = median(x.at(0.5) for x in echoes[1:])
    over, cpu = served - engine, _cpu(loads[1:])
    yield (
        "overhead of a request, median",
        f"engine {engine:.3f} ms, echo on the bare server {echo:.3f} ms",
        f"{served:.3f} ms",
        f"+{over:.3f} ms",
        cpu,
    )
    pairs = [(a.at(0.99), b.at(0.99)) for a, b in zip(echoes[1:], loads[1:], strict=True)]
    a, b, ratio = (
        median(x) for x in ((p[0] for p in pairs), (p[1] for p in pairs), (q / p for p, q in pairs))
    )
    yield "p99 beside an echo on the bare server", f"echo {a:.3f} ms", f"{b:.3f} ms", f"{ratio:.2f}", cpu


def _cpu(loads: Sequence[Load]) -> str:
    return f"{sum(x.cpu for x in loads) / sum(x.seconds for x in loads) * 100:.0f} %"


def _saturation(model: Path, seconds: float) -> Iterator[tuple[str, ...]]:
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    port, rates, loads = _port(), [], []
    with anyrt.Predictor(model) as predict, _serving(port, model):
        feed = {predict.metadata().inputs[0].name: x}
        for _ in range(TURNS + 1):
            rates.append(_bare(predict, [feed], seconds / TURNS)[0])
            loads.append(_clients(port, model.stem, [_body(feed)], 4, seconds / TURNS))
    ratio = median(b.rate / a for a, b in zip(rates[1:], loads[1:], strict=True))
    bare, served = median(rates[1:]), median(x.rate for x in loads[1:])
    name = "ResNet-50 at saturation, 4 clients"
    yield name, f"{bare:.1f}/s", f"{served:.1f}/s", f"{ratio:.2f}", _cpu(loads[1:])


def encoder() -> onnx.ModelProto:
    """An encoder of MiniLM's size with random weights: from tokens to the mean of their last states."""
    random, writer = np.random.default_rng(0), Writer()
    node = writer.node

    def weights(*shape: int) -> str:
        return writer.array((random.standard_normal(shape) * 0.05).astype(np.float32))

    def dense(x: str, before: int, after: int) -> str:
        return node("Add", node("MatMul", x, weights(before, after)), weights(after))

    def norm(x: str) -> str:
        return node("LayerNormalization", x, weights(WIDTH), weights(WIDTH), axis=-1)

    parts, whole = (
        writer.array(np.array([0, 0, HEADS, WIDTH // HEADS])),
        writer.array(np.array([0, 0, WIDTH])),
    )
    scale = writer.array(np.asarray(np.float32(WIDTH // HEADS) ** -0.5))
    x = node("Gather", weights(WORDS, WIDTH), "ids")
    for _ in range(LAYERS):
        q, key, v = (
            node("Transpose", node("Reshape", dense(x, WIDTH, WIDTH), parts), perm=[0, 2, 1, 3])
            for _ in range(3)
        )
        scores = node("Mul", node("MatMul", q, node("Transpose", key, perm=[0, 1, 3, 2])), scale)
        mixed = node("Transpose", node("MatMul", node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = norm(node("Add", x, dense(node("Reshape", mixed, whole), WIDTH, WIDTH)))
        inner = node("Gelu", dense(x, WIDTH, 4 * WIDTH))
        x = norm(node("Add", x, dense(inner, 4 * WIDTH, WIDTH)))
    node("ReduceMean", x, writer.array(np.array([1])), keepdims=0)
    writer.nodes[-1].output[0] = "y"
    ends = ({"ids": (onnx.TensorProto.INT64, ("n", "t"))}, {"y": (onnx.TensorProto.FLOAT, ("n", WIDTH))})
    return model_of(writer.nodes, "encoder", ends, writer.constants, {"": 20}, 9)


def _batching(folder: Path, seconds: float, rows: int = 16) -> Iterator[tuple[str, ...]]:
    """Sentences of 8 to 128 tokens, which clients pad to a few lengths, as tokenizers do."""
    model, random = folder / "encoder.onnx", np.random.default_rng(1)
    onnx.save(encoder(), model)
    lengths = [16, 32, 64, 128]
    drawn = [next(n for n in lengths if n >= k) for k in random.integers(8, 129, 64)]
    feeds = [{"ids": random.integers(0, WORDS, (1, n))} for n in drawn]
    joined = []
    for n in lengths:
        same = [f["ids"] for f in feeds if f["ids"].shape[1] == n]
        joined += [{"ids": np.concatenate(same[k : k + rows])} for k in range(0, len(same), rows)]
    bodies, port, turns = [_body(f) for f in feeds], _port(), []
    with (
        anyrt.Predictor(model) as predict,
        _serving(port, model, "--max-batch-size", rows, "--max-queue", 256),
    ):
        for _ in range(TURNS + 1):
            alone = _bare(predict, feeds, seconds / TURNS)[0]
            together = _bare(predict, joined, seconds / TURNS)[0] * len(feeds) / len(joined)
            turns.append((alone, together, _clients(port, "encoder", bodies, 64, seconds / TURNS)))
    alone, together, rate = (median(x) for x in zip(*((a, b, c.rate) for a, b, c in turns[1:]), strict=True))
    ratio, cpu = median(c.rate / b for _, b, c in turns[1:]), _cpu([c for *_, c in turns[1:]])
    bare = f"{alone:.1f}/s alone, {together:.1f}/s in batches"
    yield f"encoder, 64 clients, batches of {rows}", bare, f"{rate:.1f}/s", f"{ratio:.2f}", cpu


def _growth(folder: Path, small: int) -> Iterator[tuple[str, ...]]:
    model, feed = _tiny(folder)
    port = _port()
    with _serving(port, model, "--threads", 1, "--max-batch-size", 8) as process:
        _clients(port, "tiny", [_body(feed)], 8, requests=max(1, small // 10))
        before = status_kb("RssAnon", process.pid)
        load = _clients(port, "tiny", [_body(feed)], 8, requests=small)
        after = status_kb("RssAnon", process.pid)
    name = f"memory over {len(load.milliseconds)} small requests, 8 clients ({load.rate:.0f}/s)"
    yield (
        name,
        f"{before / 1000:.1f} MB before",
        f"{after / 1000:.1f} MB after",
        f"{after - before:+d} kB",
        _cpu([load]),
    )


def _run(options: argparse.Namespace, parts: list[str]) -> None:
    publish(options, tables(options.resnet, options.seconds, options.small, parts), PAGE)


COMMAND = Command(
    "serve",
    "measure requests to a server beside a bare loop",
    _run,
    (
        file("--resnet", "ResNet-50, written by python -m benchmarks.models.networks"),
        option(
            "--seconds", type=float, default=5.0, help="seconds of each measurement (default: %(default)s)"
        ),
        option(
            "--small", type=int, default=1_000_000, help="number of small requests (default: %(default)s)"
        ),
        markdown("write the table to this file"),
    ),
    rows=lambda: PARTS,
    what="measurements",
)
