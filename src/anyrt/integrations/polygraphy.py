"""A loader and a runner for Polygraphy, which execute models with AnyRT, under the name of AnyRT.

from anyrt.integrations.polygraphy import AnyrtRunner, SessionFromModel

with AnyrtRunner(SessionFromModel("model.onnx")) as runner:
    outputs = runner.infer({"x": x})
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from polygraphy import util
from polygraphy.backend.base import BaseLoader, BaseRunner
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType

from anyrt.api.building.builder import Builder
from anyrt.api.edge.interfaces import Logger
from anyrt.api.run.host_memory import IHostMemory
from anyrt.api.run.runtime import Runtime
from anyrt.core.enums import Severity
from anyrt.core.flags import strict
from anyrt.onnx.parser import OnnxParser
from anyrt.onnx.session import Session, network_of, refused

# Names of element types that differ in Polygraphy.
_NAMES: Final = {
    "FLOAT": "FLOAT32",
    "HALF": "FLOAT16",
    "BF16": "BFLOAT16",
    "FP8": "FLOAT8E4M3FN",
    "FP4": "FLOAT4",
    "DOUBLE": "FLOAT64",
}


class SessionFromModel(BaseLoader):  # type: ignore[misc]  # Polygraphy publishes no types
    """Loads the session of an ONNX model or a plan."""

    def __init__(
        self,
        model: str | bytes | Callable[[], str | bytes],
        num_threads: int | None = None,
        checked: bool | None = None,
    ) -> None:
        """`model`: a path, the bytes of a model, or a loader of either; `checked`: an out-of-bounds access of
        a kernel is an error."""
        self._model = model
        self._num_threads = num_threads
        self._checked = checked

    def call_impl(self) -> Session:
        """Build the model; raises an error with all its problems."""
        model, _ = util.invoke_if_callable(self._model)
        logger = Logger(Severity.ERROR)
        with strict():
            return Session(Runtime(logger).deserialize_cuda_engine(self._plan(model, logger)))

    def _plan(self, model: str | bytes, logger: Logger) -> bytes | IHostMemory:
        if isinstance(model, str) and not model.endswith(".onnx"):
            with open(model, "rb") as file:
                return file.read()
        builder = Builder(logger)
        network, config = network_of(builder), builder.create_builder_config()
        parser = OnnxParser(network, logger)
        if not (parser.parse_from_file(model) if isinstance(model, str) else parser.parse(model)):
            raise refused(parser)
        if self._num_threads is not None:
            config.num_threads = self._num_threads
        if self._checked is not None:
            config.checked = self._checked
        return builder.build_serialized_network(network, config)


class AnyrtRunner(BaseRunner):  # type: ignore[misc]  # as above
    """Executes inferences in a session of AnyRT."""

    def __init__(self, session: Session | Callable[[], Session], name: str | None = None) -> None:
        super().__init__(name=name, prefix="anyrt-runner")
        self._source = session

    @util.check_called_by("activate")  # type: ignore[untyped-decorator]  # as above
    def activate_impl(self) -> None:
        """Build the session, or use the given one."""
        self.session, _ = util.invoke_if_callable(self._source)

    @util.check_called_by("get_input_metadata")  # type: ignore[untyped-decorator]  # as above
    def get_input_metadata_impl(self) -> TensorMetadata:
        """The names, types and shapes of the inputs."""
        meta = TensorMetadata()
        for port in self.session.inputs:
            dtype = getattr(DataType, _NAMES.get(port.dtype.name, port.dtype.name))
            meta.add(port.name, dtype=dtype, shape=tuple(None if n < 0 else n for n in port.shape))
        return meta

    @util.check_called_by("infer")  # type: ignore[untyped-decorator]  # as above
    def infer_impl(self, feed_dict: Mapping[str, object]) -> OrderedDict[str, Any]:  # Any: arrays or tensors
        """The outputs: tensors of PyTorch if an input is one."""
        wants_torch = any(util.array.is_torch(x) for x in feed_dict.values())
        arrays = {name: util.array.to_numpy(x) for name, x in feed_dict.items()}
        start = time.perf_counter()
        outputs = self.session.run(arrays)
        self.inference_time = time.perf_counter() - start
        return OrderedDict((n, util.array.to_torch(x) if wants_torch else x) for n, x in outputs.items())

    @util.check_called_by("deactivate")  # type: ignore[untyped-decorator]  # as above
    def deactivate_impl(self) -> None:
        """Release the session."""
        del self.session
