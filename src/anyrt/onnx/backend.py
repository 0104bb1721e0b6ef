"""AnyRT as a backend of ONNX, for the tests of `onnx.backend` and for programs that accept any backend.

rep = anyrt.onnx.backend.prepare(model)
(y,) = rep.run([x])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import ModelProto

from anyrt.api.edge.interfaces import Logger
from anyrt.api.run.runtime import Runtime
from anyrt.core.enums import Severity
from anyrt.core.flags import strict
from anyrt.onnx.session import Session, build
from anyrt.ops._record import Array


class Prepared:
    """A built model."""

    def __init__(self, model: ModelProto) -> None:
        logger = Logger(Severity.INTERNAL_ERROR)
        with strict():
            plan = build(model.SerializeToString(), logger)
            self.session = Session(Runtime(logger).deserialize_cuda_engine(plan))
        self._outputs = [v.name for v in model.graph.output]

    def run(self, inputs: Sequence[object] | Mapping[str, object]) -> tuple[Array, ...]:
        """The outputs in the order of the model; inputs are passed in order or by name."""
        if not isinstance(inputs, Mapping):
            inputs = dict(zip((p.name for p in self.session.inputs), inputs, strict=True))
        results = self.session.run(inputs)
        return tuple(results[name] for name in self._outputs)


def prepare(model: ModelProto, device: str = "CPU") -> Prepared:
    """Build a model; raises the errors of `anyrt.load`."""
    return Prepared(model)


def run_model(
    model: ModelProto, inputs: Sequence[object] | Mapping[str, object], device: str = "CPU"
) -> tuple[Array, ...]:
    """Build a model and execute one inference: `prepare`, then `run`."""
    return prepare(model, device).run(inputs)


def supports_device(device: str) -> bool:
    """Whether AnyRT supports a device: only the CPU."""
    return device.partition(":")[0] == "CPU"
