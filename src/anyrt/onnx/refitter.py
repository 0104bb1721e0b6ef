"""Refits an engine with the weights of an ONNX model, that of the engine or a similar one.

refitter = trt.Refitter(engine, logger)
parser_refitter = trt.OnnxParserRefitter(refitter, logger)
if parser_refitter.refit_from_file("tuned.onnx"):
    refitter.refit_cuda_engine()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onnx import GraphProto, NodeProto, TensorProto

from anyrt.api.building.builder import Builder
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import ILogger
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import Channel, Reporting, wrong_type
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.weights import Weights
from anyrt.api.run.refitter import Refitter
from anyrt.core.errors import ArgumentError, RefitError
from anyrt.onnx.errors import ParserError
from anyrt.onnx.model import Model
from anyrt.onnx.parser import OnnxParser, as_bytes
from anyrt.onnx.weights import data_type, to_weights

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@fold
class OnnxParserRefitter(Reporting, Managed):
    """Sets the weights of an ONNX model in a `Refitter`, by their names; `refit_cuda_engine` then applies
    them.

    trt.OnnxParserRefitter(refitter, logger).refit_from_file("tuned.onnx")
    refitter.refit_cuda_engine()
    """

    __slots__ = ("_parser", "_refitter")

    def __init__(self, refitter: Refitter, logger: ILogger) -> None:
        if not isinstance(refitter, Refitter):
            raise wrong_type("OnnxParserRefitter: refitter", refitter, "a Refitter")
        if not isinstance(logger, ILogger):
            do = "call OnnxParserRefitter(refitter, trt.Logger())"
            raise wrong_type("OnnxParserRefitter: logger", logger, "an ILogger", do)
        self._refitter = refitter
        self._channel = Channel(logger, refitter._channel)
        self._parser = OnnxParser(INetworkDefinition(Builder(logger), 0), logger)

    @one_line
    def __repr__(self) -> str:
        return f" for {self._refitter!r}"

    def refit_from_bytes(self, model: ReadableBuffer, path: str | None = None) -> bool:
        """Set the weights of a model from bytes. `path`: its file, whose folder has the external data.

        Returns False on an error and sets no weights; `get_error` returns the problems."""
        parser = self._parser
        return parser._tried(lambda: parser._load(as_bytes(model), path) and self._set())

    def refit_from_file(self, model: str) -> bool:
        """Set the weights of a model in a file, which is mapped, not copied.

        Returns False on an error and sets no weights; `get_error` returns the problems."""
        parser = self._parser
        return parser._tried(lambda: parser._open(model) and self._set())

    def load_model_proto(self, model: ReadableBuffer, path: str | None = None) -> bool:
        """Read a model whose weights `load_initializer` supplies before `refit_model_proto`."""
        return self._parser.load_model_proto(model, path)

    def load_initializer(self, name: str, data: int, size: int) -> bool:
        """Set the elements of an initializer of the loaded model: `size` bytes at an address. The caller
        keeps them alive until the refit is complete."""
        return self._parser.load_initializer(name, data, size)

    def refit_model_proto(self) -> bool:
        """Set the weights of the loaded model, with the loaded initializers."""

        def go() -> bool:
            if self._parser._model is None:
                raise ArgumentError(
                    "AR304", "refit_model_proto", "no model", "a loaded model", "call load_model_proto first"
                )
            self._parser._model.reader.loaded.update(self._parser._loaded)
            return self._set()

        return self._parser._tried(go)

    @property
    def num_errors(self) -> int:
        """The number of problems of the last call."""
        return self._parser.num_errors

    def get_error(self, index: int) -> ParserError:
        """Problem `index`; None if out of range."""
        return self._parser.get_error(index)

    def clear_errors(self) -> None:
        """Discard the problems."""
        self._parser.clear_errors()

    def _set(self) -> bool:
        """Set all weights that the model and the engine share, or none of them."""
        model, refitter = self._parser._model, self._refitter
        assert model is not None, "a model was loaded"
        names = {w.user_name for w in refitter._weights if w.user_name}
        weights_of = {name: _weights(model, t) for name, t in named_tensors(model) if name in names}
        if names and not weights_of:
            some = ", ".join(sorted(names)[:5])
            raise RefitError("AR842", "the model", "none of the engine's weights", f"weights such as {some}")
        for name, weights in weights_of.items():
            for number in refitter._numbers(name):
                refitter._check(number, weights)
        return all(refitter.set_named_weights(name, weights) for name, weights in weights_of.items())


def named_tensors(model: Model) -> Iterator[tuple[str, TensorProto]]:
    """The initializers and constants of a model by name, including those of inner graphs and functions."""
    yield from _in_graph(model.proto.graph)
    for function in model.proto.functions:
        yield from _in_nodes(function.node)


def _in_graph(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    for tensor in graph.initializer:
        yield tensor.name, tensor
    yield from _in_nodes(graph.node)


def _in_nodes(nodes: Iterator[NodeProto]) -> Iterator[tuple[str, TensorProto]]:
    for node in nodes:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value" and node.output:
                yield node.output[0], attribute.t
            if attribute.HasField("g"):
                yield from _in_graph(attribute.g)


def _weights(model: Model, tensor: TensorProto) -> Weights:
    dtype = data_type(tensor.data_type, tensor.name)
    return to_weights(model.reader.array(tensor), dtype)
