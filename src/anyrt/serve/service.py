"""The parts that HTTP and gRPC share: running requests, describing models, draining.

answer = await service.infer(model, {"x": x}, seconds=None)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import Message

import anyrt
from anyrt.onnx.session import Port
from anyrt.serve.invariance import Arrays
from anyrt.serve.messages import message_class
from anyrt.serve.models import Model, Repository
from anyrt.serve.refused import Limits, Reason, Refused
from anyrt.serve.tensors import NAMES, Array
from anyrt.serve.tracing import tracer

EXTENSIONS: Final = (
    *("binary_tensor_data", "model_configuration", "model_repository", "statistics"),
    *("parameters", "schedule_policy"),
)
PLATFORM: Final = "anyrt"
# Request parameters that are refused since they are not supported; those without an effect are accepted.
SEQUENCES: Final = ("sequence_id", "sequence_start", "sequence_end")


@dataclass(slots=True)
class Service:
    """A repository with its permitted requests; lives in one event loop."""

    repository: Repository
    limits: Limits
    control: bool = False
    is_draining: bool = False
    running: int = 0
    tracer: Any | None = field(default_factory=tracer)  # Any: of OpenTelemetry, which may be absent
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def model(self, name: str, version: str = "") -> Model:
        """A version of a model that is ready."""
        return self.repository.model(name, version)

    @property
    def is_ready(self) -> bool:
        """Whether requests are accepted, and all models are ready."""
        return not self.is_draining and self.repository.is_ready()

    def at_once(self, model: Model, arrays: Mapping[str, Array]) -> Arrays | None:
        """The outputs, computed here, where that is sooner than to wake a thread; None: `infer` them."""
        if self.is_draining:
            return None
        start, good = time.perf_counter_ns(), False
        try:
            answer = model.batcher.at_once(arrays)
            good = True
            return answer
        finally:
            if not good or answer is not None:
                model.statistics.ended(good, time.perf_counter_ns() - start)

    async def infer(self, model: Model, arrays: Mapping[str, Array], seconds: float | None) -> Arrays:
        """The outputs; if the caller is cancelled, a waiting request is not run."""
        if self.is_draining:
            raise Refused(Reason.BUSY, "the server is ending; ask another one")
        start, good = time.perf_counter_ns(), False
        self.running += 1
        model.statistics.waits(1)
        try:
            answer = await asyncio.wrap_future(model.batcher.submit(arrays, seconds))
            good = True
            return answer
        finally:
            self.running -= 1
            model.statistics.waits(-1)
            model.statistics.ended(good, time.perf_counter_ns() - start)
            if self.is_draining and not self.running:
                self._idle.set()

    async def drain(self) -> bool:
        """Accept no more requests; returns whether all running ones finished within their time."""
        self.is_draining = True
        if not self.running:
            return True
        try:
            async with asyncio.timeout(self.limits.drain_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def change(self, name: str, load: bool, parameters: object = None) -> None:
        """Load or unload a model, if the server was started with this permission."""
        if load and parameters:
            text = "parameters of a load are not supported; change the repository"
            raise Refused(Reason.NOT_SUPPORTED, text)
        if not self.control:
            raise Refused(Reason.FORBIDDEN, "loading and unloading are off; start with --repository-control")
        await asyncio.to_thread(self.repository.load if load else self.repository.unload, name)


def refuse_parameters(where: str, parameters: Mapping[str, object]) -> None:
    """The unsupported parameters of a request, by name."""
    for name in SEQUENCES:
        if parameters.get(name):
            raise Refused(Reason.NOT_SUPPORTED, f"{where}: sequences ({name}) are not supported")
    for name in ("shared_memory_region", "classification"):
        if name in parameters:
            raise Refused(Reason.NOT_SUPPORTED, f"{where}: {name} is not supported")


def seconds_of(parameters: Mapping[str, object]) -> float | None:
    """The `timeout` of a request, in microseconds."""
    microseconds = parameters.get("timeout")
    if microseconds is None or microseconds == 0:
        return None
    if not isinstance(microseconds, int) or microseconds < 0:
        raise Refused(Reason.BAD, "parameter timeout: wanted microseconds, a number of 0 and more")
    return microseconds / 1e6


def server_metadata() -> dict[str, object]:
    """The metadata of the server."""
    return {"name": "anyrt", "version": anyrt.__anyrt_version__, "extensions": list(EXTENSIONS)}


def metadata(service: Service, model: Model) -> dict[str, object]:
    """The inputs and outputs of a model."""
    return {
        "name": model.name,
        "versions": service.repository.versions(model.name),
        "platform": PLATFORM,
        "inputs": [_port(p) for p in model.metadata.inputs],
        "outputs": [_port(p) for p in model.metadata.outputs],
    }


def _port(port: Port) -> dict[str, object]:
    return {"name": port.name, "datatype": NAMES[port.dtype], "shape": list(port.shape)}


def configuration(model: Model) -> Message:
    """The settings of a model as ModelConfig."""
    config: Any = message_class("ModelConfig")()  # Any: protobuf creates its classes at run time
    settings, batched = model.settings, model.settings.max_batch_size > 0
    config.name, config.platform, config.backend = model.name, PLATFORM, PLATFORM
    config.max_batch_size = settings.max_batch_size
    for tensors, ports in ((config.input, model.metadata.inputs), (config.output, model.metadata.outputs)):
        for port in ports:
            kind = config.DESCRIPTOR.file.enum_types_by_name["DataType"]
            number = kind.values_by_name[f"TYPE_{NAMES[port.dtype]}"].number
            tensors.add(name=port.name, data_type=number, dims=port.shape[batched:])
    if settings.max_batch_size > 1:
        config.dynamic_batching.preferred_batch_size.extend(settings.preferred)
        config.dynamic_batching.max_queue_delay_microseconds = round(settings.delay_seconds * 1e6)
    if settings.queue or settings.timeout_seconds:
        policy = config.dynamic_batching.default_queue_policy
        policy.max_queue_size = settings.queue or 0
        policy.default_timeout_microseconds = round((settings.timeout_seconds or 0) * 1e6)
    match settings.versions:
        case None:
            config.version_policy.all.SetInParent()
        case int():
            config.version_policy.latest.num_versions = settings.versions
        case versions:
            config.version_policy.specific.versions.extend(versions)
    config.instance_group.add(name=model.name, count=settings.instances, kind=2)
    if settings.batch_invariant:
        config.parameters["batch_invariant"].string_value = "true"
    return config


def statistics(service: Service, name: str = "", version: str = "") -> dict[str, object]:
    """Of one model, of all its versions, or of all models."""
    if name and version:
        models = [service.model(name, version)]
    else:
        models = [m for m in service.repository.models() if name in ("", m.name)]
        if name and not models:
            service.model(name)  # reports why there is none
    return {"model_stats": [{"name": m.name, "version": m.version, **m.statistics.as_json()} for m in models]}
