"""The protocol over HTTP, as an ASGI application on starlette.

app = application(service, token=None, hosts=("localhost", "127.0.0.1"))
"""

from __future__ import annotations

import asyncio
import hmac
import re
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import Final

from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyrt.serve.inference import Asked, read_json, read_request, write_response
from anyrt.serve.invariance import Arrays
from anyrt.serve.logs import log
from anyrt.serve.metrics import page
from anyrt.serve.models import Model
from anyrt.serve.page import home
from anyrt.serve.refused import SETTINGS, SHARED, Limits, Reason, Refused
from anyrt.serve.service import Service, configuration, metadata, server_metadata, statistics
from anyrt.serve.tracing import span

HEADER_LENGTH: Final = "inference-header-content-length"
# Paths without a token: those of health probes, and the page, which asks for the token and holds nothing.
OPEN: Final = ("/v2/health/live", "/v2/health/ready", "/")
LONG: Final = 1 << 18  # bytes of JSON that a thread reads, so that other requests continue
PATIENT: Final = 0.05  # seconds between checks whether a client still waits
KEPT: Final = 64  # pairs of a Host and an origin
INFER: Final = re.compile(r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?/infer")
HOST: Final = re.compile(r"(?:https?://)?(\[[0-9a-f:]+\]|[^:/@]+)(?::\d+)?")  # of an origin or a Host header
MODEL: Final = "/v2/models/{name}"
VERSION: Final = MODEL + "/versions/{version}"
REFUSED: Final = {
    "/v2/systemsharedmemory": SHARED.format("system"),
    "/v2/cudasharedmemory": SHARED.format("CUDA"),
    **dict.fromkeys(("/v2/trace", MODEL + "/trace"), SETTINGS.format("trace")),
    "/v2/logging": SETTINGS.format("log"),
}
Answer = Callable[[Service, Request], Awaitable[Response]]
Known = tuple[str, bytes | None, bytes | None]


def application(
    service: Service,
    token: str | None,
    hosts: Sequence[str],
    logs_requests: bool = False,
    has_page: bool = True,
) -> ASGIApp:
    """Answers requests whose Host is one of `hosts`, and which have the token, if there is one."""

    def route(path: str, answer: Answer, method: str = "GET") -> Route:
        async def endpoint(request: Request) -> Response:
            return await _answered(service, request, answer, logs_requests)

        return Route(path, endpoint, methods=[method])

    places = (MODEL, VERSION)
    # Routes are tried in this order, a few microseconds each.
    routes = [
        *(route(p + "/infer", _infer, "POST") for p in places),
        route("/v2/health/live", _live),
        route("/v2/health/ready", _ready),
        route("/v2", _server),
        route("/metrics", _metrics),
        *([route("/", _home)] if has_page else []),
        route("/v2/models/stats", _stats),
        route("/v2/repository/index", _index, "POST"),
        route("/v2/repository/models/{name}/load", _load, "POST"),
        route("/v2/repository/models/{name}/unload", _unload, "POST"),
        *(route(p, _metadata) for p in places),
        *(route(p + "/ready", _model_ready) for p in places),
        *(route(p + "/config", _config) for p in places),
        *(route(p + "/stats", _stats) for p in places),
        *(route(p + "{rest:path}", _refusal(t), m) for p, t in REFUSED.items() for m in ("GET", "POST")),
    ]
    middleware = [
        Middleware(Gate, hosts=hosts, token=token, limits=service.limits),
        Middleware(Shortcut, infer=lambda request: _answered(service, request, _infer, logs_requests)),
    ]
    return Starlette(routes=routes, middleware=middleware, exception_handlers={Exception: _fault})


class Gate:
    """Checks the size of headers, the Host, the origin and the token. starlette checks the Host. The pairs of
    a Host and an origin that passed are known, so that the next request with them need not be checked.

    A browser sends requests on behalf of another server's page, which needs no permission for that. An origin
    passes if its host is that of the Host header, or one of `hosts`."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str], token: str | None, limits: Limits) -> None:
        self._app, self._hosts, self._known, self._most = app, hosts, set[Known](), limits.header_bytes
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._check_host = TrustedHostMiddleware(self._check_origin, list(hosts), www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return 400, 401, 403 or 431, or pass the request on."""
        if sum(map(len, chain.from_iterable(scope.get("headers", ())))) > self._most:
            text = f"the headers have more than {self._most} bytes"
            await _error(Refused(Reason.HEADERS, text))(scope, receive, send)
            return
        check = self._check_token if _key(scope) in self._known else self._check_host
        await check(scope, receive, send)

    async def _check_origin(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        origin, key = headers.get(b"origin"), _key(scope)
        if origin is not None:
            named, host = (HOST.fullmatch(x.decode("latin-1")) for x in (origin, headers.get(b"host", b"")))
            if named is None or named[1] not in (host and host[1], *self._hosts):
                got = origin.decode("latin-1")[:100]
                text = f"Origin: got {got!r}, wanted this server or none; --allow-host permits others"
                await _error(Refused(Reason.FORBIDDEN, text))(scope, receive, send)
                return
        if len(self._known) >= KEPT:
            self._known.clear()
        if key is not None:
            self._known.add(key)
        await self._check_token(scope, receive, send)

    async def _check_token(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._expected is not None and scope["type"] == "http" and scope["path"] not in OPEN:
            authorization = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(authorization, self._expected):
                refused = Refused(Reason.UNAUTHORISED, "wanted the header Authorization: Bearer TOKEN")
                await _error(refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _key(scope: Scope) -> Known | None:
    """The headers that hosts and origins are checked by; None if a header is repeated."""
    headers = scope.get("headers", ())
    fields = dict(headers)
    return (
        (scope["type"], fields.get(b"host"), fields.get(b"origin")) if len(fields) == len(headers) else None
    )


class Shortcut:
    """Passes inferences to their endpoint, as starlette does: its layers and routes take as long as the rest
    of a small request."""

    def __init__(self, app: ASGIApp, infer: Callable[[Request], Awaitable[Response]]) -> None:
        self._app, self._infer = app, infer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to an inference, or pass the request on."""
        is_plain = scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path")
        place = INFER.fullmatch(scope["path"]) if is_plain else None
        if place is None:
            await self._app(scope, receive, send)
            return
        scope["path_params"] = place.groupdict("")
        response = await self._infer(Request(scope, receive, send))
        await response(scope, receive, send)


async def _answered(service: Service, request: Request, answer: Answer, logs_requests: bool) -> Response:
    start = time.perf_counter()
    try:
        response = await answer(service, request)
    except Refused as refused:
        response = _error(refused)
    except ClientDisconnect:
        response = Response(status_code=Reason.SLOW.status)  # nobody reads it
    if logs_requests:
        ms = round((time.perf_counter() - start) * 1e3, 3)
        path = request.url.path
        log("request", method=request.method, path=path, status=response.status_code, ms=ms)
    return response


async def _fault(request: Request, error: Exception) -> Response:
    """The log has more details of an internal error than the response."""
    log("fault", path=request.url.path, error=f"{type(error).__name__}: {error}")
    return _error(Refused(Reason.FAULT, "a fault of the server; its log says more"))


def _error(refused: Refused) -> JSONResponse:
    headers = {"Retry-After": "1"} if refused.reason is Reason.BUSY else None
    return JSONResponse({"error": refused.text}, refused.reason.status, headers)


async def _live(service: Service, request: Request) -> Response:
    return JSONResponse({"live": True})


async def _ready(service: Service, request: Request) -> Response:
    return _whether(service.is_ready)


def _whether(is_ready: bool, **more: str) -> Response:
    """The answer as a status, for Triton's client, and in the body, for KServe's."""
    return JSONResponse({**more, "ready": is_ready}, 200 if is_ready else Reason.BUSY.status)


async def _server(service: Service, request: Request) -> Response:
    return JSONResponse(server_metadata())


async def _metrics(service: Service, request: Request) -> Response:
    return Response(page(service), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _home(service: Service, request: Request) -> Response:
    return home()


def _place(request: Request) -> tuple[str, str]:
    return request.path_params.get("name", ""), request.path_params.get("version", "")


async def _metadata(service: Service, request: Request) -> Response:
    return JSONResponse(metadata(service, service.model(*_place(request))))


async def _model_ready(service: Service, request: Request) -> Response:
    model = service.model(*_place(request))
    return _whether(not service.is_draining, name=model.name)


async def _config(service: Service, request: Request) -> Response:
    config = configuration(service.model(*_place(request)))
    return JSONResponse(_numbers(MessageToDict(config, preserving_proto_field_name=True)))


def _numbers(value: object, key: str = "") -> object:
    """Sizes and times as numbers, like Triton; protobuf writes those of 64 bits as strings."""
    match value:
        case dict():
            return {k: _numbers(v, k) for k, v in value.items()}
        case list():
            return [_numbers(x, key) for x in value]
        case str() if key in ("dims", "versions") or key.endswith("_microseconds"):
            return int(value)
    return value


async def _stats(service: Service, request: Request) -> Response:
    return JSONResponse(statistics(service, *_place(request)))


async def _index(service: Service, request: Request) -> Response:
    asked = read_json(await _body(request, service.limits) or b"{}")
    return JSONResponse(service.repository.index(bool(asked.get("ready"))))


async def _load(service: Service, request: Request) -> Response:
    asked = read_json(await _body(request, service.limits) or b"{}")
    await service.change(request.path_params["name"], load=True, parameters=asked.get("parameters"))
    return Response()


async def _unload(service: Service, request: Request) -> Response:
    await _body(request, service.limits)
    await service.change(request.path_params["name"], load=False)
    return Response()


def _refusal(text: str) -> Answer:
    async def answer(service: Service, request: Request) -> Response:
        raise Refused(Reason.NOT_SUPPORTED, text)

    return answer


async def _infer(service: Service, request: Request) -> Response:
    if service.tracer is None:
        return await _inferred(service, request)
    route = (VERSION if _place(request)[1] else MODEL) + "/infer"
    facts = {"http.request.method": "POST", "http.route": route, "url.path": request.url.path}
    with span(service.tracer, f"POST {route}", request.headers, facts, _status):
        return await _inferred(service, request)


def _status(reason: Reason | None) -> dict[str, int]:
    return {"http.response.status_code": 200 if reason is None else reason.status}


async def _inferred(service: Service, request: Request) -> Response:
    model = service.model(*_place(request))
    body = await _body(request, service.limits)
    length = _length(_fields(request).get(HEADER_LENGTH.encode()), len(body))
    if (len(body) if length is None else length) < LONG:
        asked = read_request(model, body, length, service.limits)
    else:
        asked = await run_in_threadpool(read_request, model, body, length, service.limits)
    arrays = service.at_once(model, asked.arrays)
    if arrays is None:
        arrays = await _or_gone(request, service.infer(model, asked.arrays, asked.seconds))
    return _response(model, asked, arrays)


def _response(model: Model, asked: Asked, arrays: Arrays) -> Response:
    header, buffers = write_response(model, asked, arrays)
    if not buffers:
        return Response(header, media_type="application/json")
    headers = {HEADER_LENGTH: str(len(header))}
    return Response(b"".join((header, *buffers)), headers=headers, media_type="application/octet-stream")


async def _or_gone(request: Request, work: Awaitable[Arrays]) -> Arrays:
    """The result of `work`, which is cancelled if the client disconnects first."""
    loop, task, gone, is_over = *_running(), list[asyncio.Future[Message]](), False

    def look() -> None:
        gone.append(asyncio.ensure_future(request.receive()))
        gone[0].add_done_callback(lambda _: is_over or task.cancel())

    # Most results arrive before: checking each connection would cost a tenth of a request.
    timer = loop.call_later(PATIENT, look)
    try:
        return await work
    except asyncio.CancelledError:
        if not (gone and gone[0].done()):
            raise
        task.uncancel()
        raise ClientDisconnect from None
    finally:
        is_over = True
        timer.cancel()
        for future in gone:
            future.cancel()


def _running() -> tuple[asyncio.AbstractEventLoop, asyncio.Task[object]]:
    """The loop and the task of this request. Timers that cancel it take a fifth of the time of
    `asyncio.timeout`, which would be a tenth of a small request."""
    task = asyncio.current_task()
    assert task is not None, "the server runs each request in a task"
    return asyncio.get_running_loop(), task


def _length(header: bytes | None, total: int) -> int | None:
    """The length of the JSON, None: the whole body."""
    if header is None:
        return None
    if not (header.isdigit() and len(header) < 12) or int(header) > total:
        got, limit = header[:40].decode("latin-1"), f"a number of at most {total}, the length of the body"
        raise Refused(Reason.BAD, f"{HEADER_LENGTH}: got {got!r}, wanted {limit}")
    return int(header)


def _fields(request: Request) -> Mapping[bytes, bytes]:
    """The headers; of one that is repeated, the first."""
    return dict(reversed(request.scope["headers"]))


async def _body(request: Request, limits: Limits) -> bytes:
    """The whole body, refused as soon as it is too large or takes too long."""
    fields = _fields(request)
    declared = fields.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limits.body_bytes:
        raise _too_large(limits)
    loop, task, count, chunks, has_more = *_running(), 0, list[bytes](), True
    timer = loop.call_later(limits.body_seconds, task.cancel)
    try:
        while has_more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk, has_more = message.get("body", b""), message.get("more_body", False)
            count += len(chunk)
            if count > limits.body_bytes:
                raise _too_large(limits)
            chunks.append(chunk)
    except asyncio.CancelledError:
        if loop.time() < timer.when():
            raise
        task.uncancel()
        raise Refused(Reason.SLOW, f"the body took more than {limits.body_seconds:g} s") from None
    finally:
        timer.cancel()
    encoding = fields.get(b"content-encoding", b"identity").decode("latin-1").lower()
    return _decoded(chunks[0] if len(chunks) == 1 else b"".join(chunks), encoding, limits)


def _too_large(limits: Limits) -> Refused:
    return Refused(Reason.TOO_LARGE, f"the body has more than {limits.body_bytes} bytes")


def _decoded(body: bytes, encoding: str, limits: Limits) -> bytes:
    """The decompressed body, limited to the maximum size of a body."""
    if encoding == "identity":
        return body
    if encoding not in ("gzip", "deflate"):
        raise Refused(Reason.TYPE, f"content-encoding {encoding[:40]!r}: wanted gzip, deflate or none")
    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        decompressed = stream.decompress(body, limits.body_bytes)
    except zlib.error as error:
        raise Refused(Reason.BAD, f"the body is no {encoding}: {error}") from None
    if stream.unconsumed_tail:
        raise _too_large(limits)
    if not stream.eof:
        raise Refused(Reason.BAD, f"the body ends in the middle of its {encoding}")
    return decompressed
