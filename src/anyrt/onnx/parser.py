"""The ONNX parser: fills a network with the layers of a model.

parser = trt.OnnxParser(network, logger)
if not parser.parse_from_file("model.onnx"):
    for i in range(parser.num_errors):
        print(parser.get_error(i))
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from onnx import defs

from anyrt.api.building.builder import Builder
from anyrt.api.building.config import IBuilderConfig
from anyrt.api.building.flagbits import check_bits
from anyrt.api.compose.layers import MALFORMED
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import ILogger
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.quiet import Channel, Reporting, WrongType, integer, nothing, quiet, wrong_type
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import state_of
from anyrt.api.model.tensor import ITensor
from anyrt.api.model.weights import Weights
from anyrt.core.dtype import storage_bytes
from anyrt.core.enums import OnnxParserFlag, Severity
from anyrt.core.errors import AnyrtError, ArgumentError, GraphError, ResourceError
from anyrt.onnx import importers
from anyrt.onnx.describe import describe
from anyrt.onnx.errors import ParserError
from anyrt.onnx.functions import is_function
from anyrt.onnx.graph import MOST_REPORTED, Failure
from anyrt.onnx.model import Model, read
from anyrt.onnx.node import Held, importer_of
from anyrt.onnx.subgraphs import split
from anyrt.onnx.weights import data_type, mapped, readable, shortened
from anyrt.ops._record import Array

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

VERSION = 101600  # major * 10000 + minor * 100 + patch


@fold
class OnnxParser(Reporting, Managed):
    """Reads ONNX models into a network.

    parser = trt.OnnxParser(network, logger)
    parser.parse_from_file("model.onnx")
    """

    __slots__ = ("_errors", "_flags", "_loaded", "_model", "_network", "_node_outputs", "_parts", "_path")

    def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
        if not isinstance(network, INetworkDefinition):
            raise wrong_type("OnnxParser: network", network, "an INetworkDefinition")
        if not isinstance(logger, ILogger):
            raise wrong_type(
                "OnnxParser: logger", logger, "an ILogger", "call OnnxParser(network, trt.Logger())"
            )
        self._network = network
        self._channel = Channel(logger, network._channel)
        self._errors: list[ParserError] = []
        self._flags = 1 << OnnxParserFlag.NATIVE_INSTANCENORM
        self._path = ""
        self._model: Model | None = None
        self._node_outputs: dict[str, list[Held]] = {}
        self._loaded: dict[str, Array] = {}
        self._parts: list[tuple[list[int], bool]] = []

    def parse(self, model: ReadableBuffer, path: str | None = None) -> bool:
        """Read a model from bytes. `path`: its file, whose folder has the external data.

        Returns False if there are problems. `get_error` then returns each of them, and one for each operator
        that is not supported. After 1000 problems the last one states how many more there are."""
        return self._tried(lambda: self._load(as_bytes(model), path) and self._describe(self._network))

    def parse_with_weight_descriptors(self, model: ReadableBuffer) -> bool:
        """The same as `parse`; the name that TensorRT 8 has for models with external weights."""
        return self.parse(model)

    def parse_from_file(self, model: str) -> bool:
        """Read a model from a file. Its weights are mapped, not copied."""
        return self._tried(lambda: self._open(model) and self._describe(self._network))

    def supports_model(
        self, model: ReadableBuffer, path: str | None = None
    ) -> tuple[bool, list[tuple[list[int], bool]]]:
        """Whether all nodes of a model are supported, and lists of consecutive nodes with the same answer.

        If the network of the parser was empty, it has the layers of a supported model afterwards."""
        good = self.supports_model_v2(model, path)
        return good, [(list(nodes), flag) for nodes, flag in self._parts]

    def supports_model_v2(self, model: ReadableBuffer, path: str | None = None) -> bool:
        """Whether all nodes of a model are supported; `get_subgraph_nodes` returns the nodes of each part."""

        def judge() -> bool:
            self._load(as_bytes(model), path)
            network = self._network
            if network.num_layers or network.num_inputs:  # otherwise it would define names twice
                network = Builder(self._channel.logger).create_network(network.flags)
            failures = self._failures(network)
            assert self._model is not None, "a model was loaded"
            self._parts = split(self._model, failures)
            return not failures

        return self._tried(judge)

    @property
    def num_subgraphs(self) -> int:
        """The number of parts of the model of `supports_model_v2`."""
        return len(self._parts)

    def is_subgraph_supported(self, index: int) -> bool:
        """Whether a part of the model of `supports_model_v2` is supported."""
        return self._part(index)[1]

    def get_subgraph_nodes(self, index: int) -> list[int]:
        """The indices of the nodes of a part."""
        return list(self._part(index)[0])

    def _part(self, index: int) -> tuple[list[int], bool]:
        if not 0 <= integer(index, "OnnxParser: index") < len(self._parts):
            return [], False
        return self._parts[index]

    def supports_operator(self, op_name: str) -> bool:
        """Whether an operator of ONNX's own domain is supported; some of its forms may not be."""
        importers.load()
        return importer_of(("", op_name)) is not None or is_function(("", op_name), defs.onnx_opset_version())

    @property
    def num_errors(self) -> int:
        """The number of problems since `clear_errors`."""
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        """Problem `index`; None if out of range."""
        return self._errors[index] if 0 <= integer(index, "get_error") < len(self._errors) else nothing()

    def clear_errors(self) -> None:
        """Discard the problems."""
        self._errors.clear()

    @property
    def flags(self) -> int:
        """The flags as a bit mask; stored, without effect."""
        return self._flags

    @flags.setter
    def flags(self, flags: int) -> None:
        check_bits("OnnxParser.flags", integer(flags, "OnnxParser.flags"), OnnxParserFlag)
        self._flags = flags

    def set_flag(self, flag: OnnxParserFlag) -> None:
        """Set a flag."""
        self._flags |= 1 << _flag(flag)

    def clear_flag(self, flag: OnnxParserFlag) -> None:
        """Clear a flag."""
        self._flags &= ~(1 << _flag(flag))

    def get_flag(self, flag: OnnxParserFlag) -> bool:
        """Whether a flag is set."""
        return bool(self._flags >> _flag(flag) & 1)

    @quiet(None)
    def get_layer_output_tensor(self, name: str, i: int) -> ITensor:
        """Output `i` of the node called `name`, after parsing.

        Errors: AR417, no such node or output."""
        outputs = self._node_outputs.get(name, [])
        held = outputs[i] if 0 <= integer(i, "get_layer_output_tensor") < len(outputs) else None
        if not isinstance(held, ITensor):
            raise GraphError(
                "AR417", f"get_layer_output_tensor({name!r}, {i})", "no such output", "an output of a node"
            )
        return held

    def get_used_vc_plugin_libraries(self) -> list[str]:
        """Libraries of plug-ins that a version-compatible plan needs: none."""
        return []

    def set_builder_config(self, builder_config: IBuilderConfig) -> bool:
        """Kept: the configuration for the build of the network."""
        return isinstance(builder_config, IBuilderConfig)

    def load_model_proto(self, model: ReadableBuffer, path: str | None = None) -> bool:
        """Read a model whose weights `load_initializer` supplies before `parse_model_proto`."""
        return self._tried(lambda: self._load(as_bytes(model), path))

    @quiet(False)
    def load_initializer(self, name: str, data: int, size: int) -> bool:
        """Set the elements of an initializer of the loaded model: `size` bytes at an address. The caller
        keeps them alive until the engine is built.

        Errors: AR417, no such initializer, or one of another size; AR307, an inaccessible address."""
        address = integer(data, "load_initializer: data")
        tensors = () if self._model is None else self._model.proto.graph.initializer
        for tensor in tensors:
            if tensor.name == name:
                dtype, count = data_type(tensor.data_type, name), int(np.prod(tensor.dims, dtype=object))
                if storage_bytes(dtype, count) != size:
                    wanted = f"{storage_bytes(dtype, count)} bytes for {dtype} of shape {tuple(tensor.dims)}"
                    raise GraphError("AR417", name, f"{size} bytes", wanted)
                self._loaded[name] = Weights(dtype, address, count).elements().reshape(tuple(tensor.dims))
                return True
        do = "call load_model_proto(model) first"
        raise GraphError(
            "AR417", f"load_initializer({name!r})", "no such initializer", "an initializer of the model", do
        )

    def parse_model_proto(self) -> bool:
        """Add the layers of the loaded model, with the loaded initializers, to the network."""

        def go() -> bool:
            if self._model is None:
                raise ArgumentError(
                    "AR304", "parse_model_proto", "no model", "a loaded model", "call load_model_proto first"
                )
            self._model.reader.loaded.update(self._loaded)
            return self._describe(self._network)

        return self._tried(go)

    def _open(self, path: str) -> bool:
        try:
            place = Path(os.fsdecode(path))
        except TypeError:
            raise wrong_type("parse: path", path, "a path as str") from None
        if "\0" in str(place):
            raise GraphError(
                "AR416", repr(str(place)), "a path with a NUL", "a readable file", "check the path"
            )
        self._path = str(place)
        with readable("AR416", shortened(str(place))):
            folder = place.absolute().parent
        self._take(read(mapped(place), folder))
        return True

    def _load(self, data: memoryview, path: str | None) -> bool:
        self._path = path or ""
        self._take(read(data, Path(path).absolute().parent if path else None))
        return True

    def _take(self, model: Model) -> None:
        self._model = model
        for note in model.notes:
            self._channel.log(Severity.WARNING, note)

    def _describe(self, network: INetworkDefinition) -> bool:
        return not self._failures(network)

    def _failures(self, network: INetworkDefinition) -> list[Failure]:
        """All problems of the model. The first 1000 are reported, with the number of the others."""
        assert self._model is not None, "a model was loaded"
        state_of(network).title = self._title()
        walk = describe(self._model, network)
        self._node_outputs = walk.node_outputs
        for failure in walk.failures[:MOST_REPORTED]:
            self._tell(failure)
        if more := len(walk.failures[MOST_REPORTED:]):
            do = "correct the reported problems first"
            self._tell(Failure(GraphError("AR417", "the model", f"{more} more problems", "no problems", do)))
        return walk.failures

    def _title(self) -> str:
        """The name of the model's file, or else of its graph."""
        name = Path(self._path).stem if self._path else ""
        graph = "" if self._model is None else self._model.proto.graph.name
        return name or graph

    def _tried(self, do: Callable[[], bool]) -> bool:
        """The result of `do`; on an exception, report it and return False, or raise it under strict."""
        self._errors.clear()
        good = False
        try:
            good = do()
        except AnyrtError as error:
            self._tell(Failure(error))
        except MemoryError as error:
            lack = ResourceError("AR802", "parse", str(error) or "no memory", "memory for the model")
            self._tell(Failure(lack))
        except WrongType:
            raise
        except (
            *MALFORMED,
            AssertionError,
            RuntimeError,
        ) as error:  # the contract: no exception leaves the parser
            self._tell(Failure(self._channel.fault("parse", error)))
        for problem in self._errors:
            self._channel.fail(problem._failure.placed())
        return good

    def _tell(self, failure: Failure) -> None:
        self._errors.append(ParserError(failure, self._path))


def get_nv_onnx_parser_version() -> int:
    """The version of the parser: major * 10000 + minor * 100 + patch."""
    return VERSION


def _flag(flag: OnnxParserFlag) -> int:
    if not isinstance(flag, OnnxParserFlag):
        raise wrong_type("OnnxParser: flag", flag, OnnxParserFlag)
    return int(flag)


def as_bytes(model: object) -> memoryview:
    """The bytes of a model, from bytes or any object with a buffer."""
    if isinstance(model, str):
        raise wrong_type("parse: model", model, "bytes", "parse_from_file(path) reads a file")
    if hasattr(model, "SerializeToString"):
        raise wrong_type("parse: model", model, "bytes", "pass model.SerializeToString()")
    try:
        return memoryview(model).cast("B")  # type: ignore[arg-type]  # raises unless it has a buffer
    except TypeError:
        raise wrong_type("parse: model", model, "bytes") from None
