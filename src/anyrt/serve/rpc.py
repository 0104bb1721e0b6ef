"""The protocol over gRPC, by grpcio in the event loop of HTTP.

server = rpc_server(service, token=None)
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

import grpc
import numpy as np
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError, Message

from anyrt.core.enums import DataType
from anyrt.serve.inference import check_rows
from anyrt.serve.messages import SERVICE, message_class, methods
from anyrt.serve.models import Model
from anyrt.serve.refused import SETTINGS, SHARED, Limits, Reason, Refused
from anyrt.serve.service import (
    Service,
    configuration,
    metadata,
    refuse_parameters,
    seconds_of,
    server_metadata,
    statistics,
)
from anyrt.serve.tensors import NAMES, Array, Input, checked_shape, decode_bytes, decode_json, every_input
from anyrt.serve.tracing import span

Proto = Any  # protobuf creates its classes at run time
Answer = Callable[[Service, Proto], Awaitable[Message]]
# The list of a tensor's contents with the elements of a type.
CONTENTS: Final = {
    DataType.BOOL: "bool_contents",
    **dict.fromkeys((DataType.INT8, DataType.INT16, DataType.INT32), "int_contents"),
    DataType.INT64: "int64_contents",
    **dict.fromkeys((DataType.UINT8, DataType.UINT16, DataType.UINT32), "uint_contents"),
    DataType.UINT64: "uint64_contents",
    DataType.FLOAT: "fp32_contents",
    DataType.DOUBLE: "fp64_contents",
}
STREAM: Final = "ModelStreamInfer"
OPEN: Final = ("ServerLive", "ServerReady")
REFUSED: Final = {
    **{f"SystemSharedMemory{c}": SHARED.format("system") for c in ("Status", "Register", "Unregister")},
    **{f"CudaSharedMemory{c}": SHARED.format("CUDA") for c in ("Status", "Register", "Unregister")},
    "TraceSetting": SETTINGS.format("trace"),
    "LogSettings": SETTINGS.format("log"),
}
TRACED: Final = ("ModelInfer", STREAM)


class Context(Protocol):
    """The part of grpcio's context that is used."""

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]] | None:
        """The caller's metadata."""

    async def abort(self, code: object, details: str) -> NoReturn:
        """End the call with an error."""


def rpc_server(service: Service, token: str | None) -> grpc.aio.Server:
    """A server without a port; it answers callers with the token, if there is one."""
    limits = service.limits
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", limits.header_bytes),  # beyond it, some calls are rejected
            ("grpc.absolute_max_metadata_size", limits.header_bytes),  # beyond it, all
            ("grpc.so_reuseport", 0),
        ],
        maximum_concurrent_rpcs=limits.connections,
    )
    handlers = {m.name: _handler(service, token, m) for m in methods()}
    handlers |= {name: _refusal(token, text) for name, text in REFUSED.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    return server


def _handler(
    service: Service, token: str | None, method: Any
) -> grpc.RpcMethodHandler[Any, Any]:  # Any: protobuf
    name = method.name
    reads = message_class(method.input_type.name).FromString
    writes = message_class(method.output_type.name).SerializeToString
    if name == STREAM:

        async def stream(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Message]:
            await _check_token(token, context)
            async for data in requests:
                yield await _one_of_stream(service, reads, data, context)

        return grpc.stream_stream_rpc_method_handler(stream, None, writes)
    answer = ANSWERS[name]

    async def unary(data: bytes, context: Context) -> Message:
        if name not in OPEN:
            await _check_token(token, context)
        try:
            with _traced(service, name, context):
                return await answer(service, _read(reads, data))
        except Refused as refused:
            await context.abort(grpc.StatusCode[refused.reason.code], refused.text)

    return grpc.unary_unary_rpc_method_handler(unary, None, writes)


def _refusal(token: str | None, text: str) -> grpc.RpcMethodHandler[Any, Any]:  # Any: as above
    async def unary(data: bytes, context: Context) -> bytes:
        await _check_token(token, context)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)

    return grpc.unary_unary_rpc_method_handler(unary)


def _read(reads: Callable[[bytes], Message], data: bytes) -> Proto:
    """A message, parsed here and not by grpcio, which would not report that the client's message is
    invalid."""
    try:
        return reads(data)
    except DecodeError as error:
        raise Refused(Reason.BAD, str(error)[:300]) from None


async def _check_token(token: str | None, context: Context) -> None:
    if token is None:
        return
    authorization = dict(context.invocation_metadata() or ()).get("authorization", "")
    held = authorization if isinstance(authorization, bytes) else authorization.encode()
    if not hmac.compare_digest(held, f"Bearer {token}".encode()):
        await context.abort(
            grpc.StatusCode.UNAUTHENTICATED, "wanted the metadata authorization: Bearer TOKEN"
        )


async def _one_of_stream(
    service: Service, reads: Callable[[bytes], Message], data: bytes, context: Context
) -> Message:
    answer: Proto = message_class("ModelStreamInferResponse")()
    try:
        request = _read(reads, data)
        answer.infer_response.id = request.id
        with _traced(service, STREAM, context):
            answer.infer_response.CopyFrom(await _infer(service, request))
    except Refused as refused:
        answer.error_message = refused.text
    return _message(answer)


def _traced(service: Service, name: str, context: Context) -> contextlib.AbstractContextManager[None]:
    """The span of an inference; of other calls, nothing."""
    if service.tracer is None or name not in TRACED:
        return contextlib.nullcontext()
    metadata = {k: v for k, v in context.invocation_metadata() or () if isinstance(v, str)}
    facts = {"rpc.system": "grpc", "rpc.service": SERVICE, "rpc.method": name}
    return span(service.tracer, f"{SERVICE}/{name}", metadata, facts, _status)


def _status(reason: Reason | None) -> dict[str, int]:
    return {"rpc.grpc.status_code": 0 if reason is None else grpc.StatusCode[reason.code].value[0]}


def _message(proto: Proto) -> Message:
    message: Message = proto
    return message


def _response(name: str, facts: Mapping[str, object]) -> Message:
    return _message(ParseDict(dict(facts), message_class(name)()))


async def _live(service: Service, request: Proto) -> Message:
    return _response("ServerLiveResponse", {"live": True})


async def _ready(service: Service, request: Proto) -> Message:
    return _response("ServerReadyResponse", {"ready": service.is_ready})


async def _model_ready(service: Service, request: Proto) -> Message:
    try:
        service.model(request.name, request.version)
    except Refused as refused:
        if refused.reason is not Reason.BUSY:
            raise
        return _response("ModelReadyResponse", {"ready": False})
    return _response("ModelReadyResponse", {"ready": not service.is_draining})


async def _server(service: Service, request: Proto) -> Message:
    return _response("ServerMetadataResponse", server_metadata())


async def _metadata(service: Service, request: Proto) -> Message:
    facts = metadata(service, service.model(request.name, request.version))
    return _response("ModelMetadataResponse", facts)


async def _config(service: Service, request: Proto) -> Message:
    answer: Proto = message_class("ModelConfigResponse")()
    answer.config.CopyFrom(configuration(service.model(request.name, request.version)))
    return _message(answer)


async def _statistics(service: Service, request: Proto) -> Message:
    return _response("ModelStatisticsResponse", statistics(service, request.name, request.version))


async def _index(service: Service, request: Proto) -> Message:
    return _response("RepositoryIndexResponse", {"models": service.repository.index(request.ready)})


async def _load(service: Service, request: Proto) -> Message:
    await service.change(request.model_name, load=True, parameters=request.parameters)
    return _response("RepositoryModelLoadResponse", {})


async def _unload(service: Service, request: Proto) -> Message:
    await service.change(request.model_name, load=False)
    return _response("RepositoryModelUnloadResponse", {})


async def _infer(service: Service, request: Proto) -> Message:
    model = service.model(request.model_name, request.model_version)
    parameters = _plain(request.parameters)
    refuse_parameters("the request", parameters)
    names = _output_names(model, request)
    arrays = _arrays(model, request, service.limits)
    seconds, outputs = seconds_of(parameters), service.at_once(model, arrays)
    if outputs is None:
        outputs = await service.infer(model, arrays, seconds)
    answer: Proto = message_class("ModelInferResponse")()
    answer.model_name, answer.model_version, answer.id = model.name, model.version, request.id
    types = {p.name: p.dtype for p in model.metadata.outputs}
    for name in names:
        array = outputs[name]
        answer.outputs.add(name=name, datatype=NAMES[types[name]], shape=array.shape)
        answer.raw_output_contents.append(np.ascontiguousarray(array).tobytes())
    return _message(answer)


def _output_names(model: Model, request: Proto) -> list[str]:
    known = [p.name for p in model.metadata.outputs]
    for output in request.outputs:
        if output.name not in known:
            raise Refused(Reason.BAD, f"output {output.name[:80]!r}: wanted one of {', '.join(known)}")
        refuse_parameters(f"output {output.name!r}", _plain(output.parameters))
    return [o.name for o in request.outputs] or known


def _arrays(model: Model, request: Proto, limits: Limits) -> dict[str, Array]:
    tensors, raw = list(request.inputs), list(request.raw_input_contents)
    if len(tensors) > limits.tensors:
        raise Refused(Reason.BAD, f"{len(tensors)} inputs: wanted at most {limits.tensors}")
    every_input(model.inputs, [t.name for t in tensors])
    if raw and len(raw) != len(tensors):
        raise Refused(
            Reason.BAD, f"raw_input_contents: got {len(raw)}, wanted one for each of {len(tensors)} inputs"
        )
    arrays = {}
    for k, tensor in enumerate(tensors):
        refuse_parameters(f"input {tensor.name!r}", _plain(tensor.parameters))
        declared = model.inputs[tensor.name]
        shape = checked_shape(declared, tensor.datatype, list(tensor.shape), limits)
        arrays[tensor.name] = (
            decode_bytes(declared, shape, raw[k]) if raw else _contents(declared, shape, tensor)
        )
    check_rows(model, arrays)
    return arrays


def _contents(declared: Input, shape: tuple[int, ...], tensor: Proto) -> Array:
    """The array of a tensor's typed contents."""
    name = CONTENTS.get(declared.dtype)
    return decode_json(declared, shape, list(getattr(tensor.contents, name)) if name else None)


def _plain(parameters: Proto) -> dict[str, object]:
    return {k: getattr(p, p.WhichOneof("parameter_choice") or "", None) for k, p in parameters.items()}


ANSWERS: Final[Mapping[str, Answer]] = {
    "ServerLive": _live,
    "ServerReady": _ready,
    "ModelReady": _model_ready,
    "ServerMetadata": _server,
    "ModelMetadata": _metadata,
    "ModelInfer": _infer,
    "ModelConfig": _config,
    "ModelStatistics": _statistics,
    "RepositoryIndex": _index,
    "RepositoryModelLoad": _load,
    "RepositoryModelUnload": _unload,
}
