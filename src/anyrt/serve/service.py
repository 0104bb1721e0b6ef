"""What HTTP and gRPC share: running requests, telling models, draining.

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
from anyrt.serve.batching import Arrays
from anyrt.serve.messages import message_class
from anyrt.serve.models import Model, Repository
from anyrt.serve.refused import Limits, Reason, Refused
from anyrt.serve.tensors import NAMES, Array

EXTENSIONS: Final = (
    *("binary_tensor_data", "model_configuration", "model_repository", "statistics"),
    *("parameters", "schedule_policy"),
)
PLATFORM: Final = "anyrt"
# Parameters of a request that ask for what is not done; those that change nothing are taken.
SEQUENCES: Final = ("sequence_id", "sequence_start", "sequence_end")


@dataclass(slots=True)
class Service:
    """A repository and what may be asked of it; lives in one event loop."""

    repository: Repository
    limits: Limits
    control: bool = False
    is_draining: bool = False
    running: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def model(self, name: str, version: str = "") -> Model:
        """A version of a model that is ready."""
        return self.repository.model(name, version)

    @property
    def is_ready(self) -> bool:
        """Whether requests are taken, and all models are there."""
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
        """The outputs; where the caller is cancelled, a request that waits is not run."""
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
        """Take no more requests; whether all that run were answered in the time that they have."""
        self.is_draining = True
        if not self.running:
            return True
        try:
            async with asyncio.timeout(self.limits.drain_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def change(self, name: str, load: bool) -> None:
        """Load or unload a model, where the server was started so that requests may."""
        if not self.control:
            raise Refused(Reason.FORBIDDEN, "loading and unloading are off; start with --repository-control")
        await asyncio.to_thread(self.repository.load if load else self.repository.unload, name)


def refuse_parameters(where: str, parameters: Mapping[str, object]) -> None:
    """What a request may not ask for, by its name."""
    for name in SEQUENCES:
        if parameters.get(name):
            raise Refused(Reason.NOT_SUPPORTED, f"{where}: sequences ({name}) are not supported")
    for name in ("shared_memory_region", "classification"):
        if name in parameters:
            raise Refused(Reason.NOT_SUPPORTED, f"{where}: {name} is not supported")


def seconds_of(parameters: Mapping[str, object]) -> float | None:
    """The `timeout` of a request, which is microseconds."""
    found = parameters.get("timeout")
    if found is None or found == 0:
        return None
    if not isinstance(found, int) or found < 0:
        raise Refused(Reason.BAD, "parameter timeout: wanted microseconds, a number of 0 and more")
    return found / 1e6


def server_metadata() -> dict[str, object]:
    """What the server is."""
    return {"name": "anyrt", "version": anyrt.__anyrt_version__, "extensions": list(EXTENSIONS)}


def metadata(service: Service, model: Model) -> dict[str, object]:
    """What a model takes and gives."""
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
    config: Any = message_class("ModelConfig")()  # Any: protobuf makes its classes while running
    settings, batched = model.settings, model.settings.max_batch_size > 0
    config.name, config.platform, config.backend = model.name, PLATFORM, PLATFORM
    config.max_batch_size = settings.max_batch_size
    for told, ports in ((config.input, model.metadata.inputs), (config.output, model.metadata.outputs)):
        for port in ports:
            kind = config.DESCRIPTOR.file.enum_types_by_name["DataType"]
            number = kind.values_by_name[f"TYPE_{NAMES[port.dtype]}"].number
            told.add(name=port.name, data_type=number, dims=port.shape[batched:])
    if settings.max_batch_size > 1:
        config.dynamic_batching.preferred_batch_size.extend(settings.preferred)
        config.dynamic_batching.max_queue_delay_microseconds = round(settings.delay_seconds * 1e6)
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
            service.model(name)  # says why there is none
    return {"model_stats": [{"name": m.name, "version": m.version, **m.statistics.as_json()} for m in models]}
