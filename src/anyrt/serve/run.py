"""Serves until a signal ends it: the ports, the event loop, and draining.

serve(source, Ports(http=8000, grpc=8001), Options())
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.server.embed import Server

from anyrt.core.errors import ArgumentError, ResourceError
from anyrt.serve.http import application
from anyrt.serve.logs import log
from anyrt.serve.models import Options, Repository, Source
from anyrt.serve.rpc import rpc_server
from anyrt.serve.service import Service

LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Ports:
    """The addresses of the server, and access control; `grpc` None: HTTP only."""

    host: str = "127.0.0.1"
    http: int = 8000
    grpc: int | None = None
    hosts: tuple[str, ...] = ()
    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    control: bool = False
    logs_requests: bool = False
    has_page: bool = True


def serve(source: Source, ports: Ports, options: Options) -> None:
    """Load the models, answer requests until SIGTERM or SIGINT, and drain."""
    repository = Repository(source, options)
    repository.load_all()
    for entry in repository.index():
        log("model", **entry)
    gc.collect()
    gc.freeze()  # collections that look through all that is loaded hold up requests for milliseconds
    try:
        asyncio.run(_serve(repository, ports, options))
    finally:
        repository.close()
    log("ended")


async def _serve(repository: Repository, ports: Ports, options: Options) -> None:
    service = Service(repository, options.limits, ports.control)
    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    for number in SIGNALS:
        loop.add_signal_handler(number, ending.set)
    http = _http(service, ports)
    rpc = rpc_server(service, ports.token) if ports.grpc is not None else None
    if rpc is not None:
        _listen(rpc, ports)
        await rpc.start()
    serving = asyncio.create_task(http.serve())
    ended = asyncio.create_task(ending.wait())
    await _listening(ports, serving)
    log("serving", host=ports.host, http=ports.http, grpc=ports.grpc, pid=os.getpid())
    await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
        raise ResourceError("AR811", f"{ports.host}:{ports.http}", "a server that ended", "one that serves")
    log("draining", running=service.running)
    log("drained", all_answered=await service.drain())
    if rpc is not None:
        await rpc.stop(grace=1)
    http.stop()
    await serving


async def _listening(ports: Ports, serving: asyncio.Task[None]) -> None:
    """Wait until connections are accepted, or the server has ended."""
    while not serving.done():
        try:
            _, writer = await asyncio.open_connection(ports.host, ports.http)
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return


def _http(service: Service, ports: Ports) -> Server:
    """The HTTP server: of three, the fastest one that slow clients cannot block (docs/serving.md)."""
    limits = service.limits
    hosts = (*LOCAL, ports.host, *ports.hosts)
    return Server(
        application(service, ports.token, hosts, ports.logs_requests, ports.has_page),
        ports.host,
        ports.http,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        backpressure=limits.connections,
        http1_settings=HTTP1Settings(
            header_read_timeout=round(limits.header_seconds * 1000),
            max_buffer_size=limits.read_bytes,
        ),
        log_enabled=False,
        ssl_cert=ports.certificate,
        ssl_key=ports.key,
        ssl_protocol_min=SSLProtocols.tls12,
    )


def _listen(server: grpc.aio.Server, ports: Ports) -> None:
    address = f"{ports.host}:{ports.grpc}"
    try:
        if ports.certificate is None or ports.key is None:
            server.add_insecure_port(address)
        else:
            pair = (ports.key.read_bytes(), ports.certificate.read_bytes())
            server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError as error:
        raise ArgumentError("AR304", address, str(error), "an address that is free") from None
