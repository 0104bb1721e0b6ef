"""Loads a model and executes inferences on arrays.

session = load("model.onnx")
session.run({"x": np.zeros((1, 3, 224, 224), np.float32)})["y"]
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from anyrt.api.building.builder import Builder
from anyrt.api.edge.interfaces import ILogger, IProgressMonitor, Logger
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import state_of
from anyrt.api.run.engine import ICudaEngine
from anyrt.api.run.host_memory import IHostMemory
from anyrt.api.run.runtime import Runtime
from anyrt.core.enums import DataType, NetworkDefinitionCreationFlag, Severity, TensorIOMode
from anyrt.core.errors import ArgumentError
from anyrt.core.flags import strict
from anyrt.onnx.parser import OnnxParser
from anyrt.onnx.weights import shortened
from anyrt.plan.disk import open_regular
from anyrt.plan.file import MAGIC
from anyrt.runtime.collective import Communicator


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output; shape: −1 for dynamic dimensions."""

    name: str
    dtype: DataType
    shape: tuple[int, ...]


class Session:
    """An engine with arrays by name as inputs and outputs; `communicator` exchanges arrays with ranks."""

    def __init__(self, engine: ICudaEngine, communicator: Communicator | None = None) -> None:
        self.engine, self._ranks = engine, communicator
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        ports = {n: Port(n, engine.get_tensor_dtype(n), tuple(engine.get_tensor_shape(n))) for n in names}
        reads = [n for n in names if engine.get_tensor_mode(n) is TensorIOMode.INPUT]
        self.inputs = tuple(ports[n] for n in reads)
        self.outputs = tuple(ports[n] for n in names if n not in reads)

    def run(self, inputs: Mapping[str, object]) -> dict[str, NDArray[Any]]:
        """All outputs for these inputs, as new arrays. Raises BindingError for invalid arrays."""
        arrays = {name: np.asarray(x) for name, x in inputs.items()}
        results = state_of(self.engine).engine.infer(arrays, self._ranks)
        return {p.name: results[p.name] for p in self.outputs}  # without data-dependent sizes

    def __repr__(self) -> str:
        takes, gives = (", ".join(f"{p.name}: {p.dtype.name} {p.shape}" for p in side)
                        for side in (self.inputs, self.outputs))  # fmt: skip
        return f"<Session {takes} -> {gives}>"


def load(
    model: str | os.PathLike[str] | bytes | ModelProto, communicator: Communicator | None = None
) -> Session:
    """Load a model or plan from a file or from memory. `communicator`: for exchanges with other ranks, one
    inference at a time.

    Tensors have the types of the model, including those of plug-ins: one that supports only other types is a
    PluginError AR822. Raises GraphError or NotSupportedError with all problems of a model, PlanError for a
    damaged plan, and ArgumentError AR304 for another object or an unreadable file."""
    logger = Logger(Severity.ERROR)
    with strict():
        return Session(Runtime(logger).deserialize_cuda_engine(_plan(model, logger)), communicator)


def _plan(model: object, logger: ILogger) -> IHostMemory | bytes:
    if isinstance(model, ModelProto):
        return build(model.SerializeToString(), logger)
    if isinstance(model, bytes):
        return model if model.startswith(MAGIC) else build(model, logger)
    if not isinstance(model, str | os.PathLike):
        wanted = "a path, the bytes of a model or plan, or an onnx.ModelProto"
        raise ArgumentError("AR304", "anyrt.load", f"a {type(model).__name__}", wanted)
    path = Path(os.fspath(model))
    if path.suffix == ".onnx":
        return build(path, logger)
    return plan_bytes(path)


def plan_bytes(path: Path) -> bytes:
    """The content of a plan file; ArgumentError AR304 if it is not readable."""
    try:
        with open_regular(path, "plan") as file:
            return file.read()
    except OSError as error:
        got = f"{shortened(str(path))} ({error.strerror or error})"
        wanted, do = "a readable file", "check the path"
        raise ArgumentError("AR304", "anyrt.load", got, wanted, do) from None


def build(
    model: Path | bytes, logger: ILogger, path: str | None = None, monitor: IProgressMonitor | None = None
) -> IHostMemory:
    """Build the plan of a model, from a file or from bytes with external data in the folder of `path`; raises
    the errors of `load`. The engine has the model's name."""
    builder = Builder(logger)
    network = network_of(builder)
    parser = OnnxParser(network, logger)
    good = parser.parse(model, path) if isinstance(model, bytes) else parser.parse_from_file(str(model))
    if not good:
        raise refused(parser)
    take_title(network)
    config = builder.create_builder_config()
    config.progress_monitor = monitor
    return builder.build_serialized_network(network, config)


def take_title(network: INetworkDefinition) -> None:
    """Name the network, and so its engine, after the parsed model."""
    # The name of a file may have bytes that are not UTF-8.
    network.name = state_of(network).title.encode(errors="replace").decode() or network.name


def network_of(builder: Builder) -> INetworkDefinition:
    """A strongly typed network for a model, whose types include those of fp8 and fp4 outputs."""
    # Builder.create_network may be that of TensorRT 8.6, which needs a flag.
    return INetworkDefinition(builder, 1 << NetworkDefinitionCreationFlag.STRONGLY_TYPED)


def refused(parser: OnnxParser) -> Exception:
    """The first problem of a parser; its text lists the others."""
    first = parser.get_error(0)._failure.error
    rest = [str(parser.get_error(i)) for i in range(1, parser.num_errors)]
    if rest:
        first.add_note(f"and {len(rest)} more: " + "; ".join(rest))
    return first
