"""Builds an engine from a graph of PyTorch, through an export to ONNX, and calls it with tensors.

run = engine_of(module, [x])
(y,) = run(x)
"""

from __future__ import annotations

import functools
import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import torch
from onnx import ModelProto
from torch._dynamo.convert_frame import compile_lock
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import GraphModule, Node
from torch.onnx._internal.exporter._decomp import (
    create_onnx_friendly_decomposition_table,
    get_onnx_implemented_overloads,
)
from torch.onnx._internal.exporter._fx_passes import remove_assertion_nodes
from torch.onnx._internal.exporter._registration import ONNXRegistry

import anyrt
from anyrt.core.errors import AnyrtError
from anyrt.core.flags import strict
from anyrt.integrations.torch_fused import FUSED
from anyrt.onnx.session import network_of

# Any: tensors in the order of the graph's inputs and outputs.
Run: TypeAlias = Callable[..., Sequence[Any]]
# PyTorch raises errors of many kinds if an export fails.
_FAILURES: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
# The metadata with the PyTorch operator of an ONNX node.
_TOLD: Final = "pkg.torch.onnx.fx_node"
_TARGET: Final = re.compile(r"target=torch\.ops\.([\w.]+)\]")
_DTYPES: Final = {
    "float32": "FLOAT",
    "float16": "HALF",
    "bfloat16": "BF16",
    "float64": "DOUBLE",
    "int8": "INT8",
    "uint8": "UINT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "bool": "BOOL",
}
_TORCH: Final = {getattr(anyrt.DataType, name): getattr(torch, ours) for ours, name in _DTYPES.items()}


class Refused(Exception):
    """A graph without an engine. `operators` names the unsupported operators; empty means the whole graph."""

    def __init__(self, text: str, operators: frozenset[str] = frozenset()) -> None:
        super().__init__(text)
        self.operators = operators


def engine_of(module: GraphModule, inputs: Sequence[torch.Tensor]) -> Run:
    """The function that executes the graph on tensors of these types and ranks; raises Refused."""
    with compile_lock:
        return _Engine(_plan(_model(lowered(module, inputs))))


def lowered(module: GraphModule, inputs: Sequence[torch.Tensor]) -> ExportedProgram:
    """The graph with PyTorch's operators decomposed into operators of ONNX, as far as possible; raises
    Refused if the graph is not a function of tensors."""
    if not all(isinstance(x, torch.Tensor) for x in inputs):
        raise Refused("the graph has numbers as inputs")
    held = [n.meta.get("example_value", n.meta.get("val")) for n in module.graph.find_nodes(op="placeholder")]
    shapes = tuple(_open_sizes(value) for value in held)
    try:
        # Tracing changes settings that other threads use for tracing: PyTorch's compiler has a lock for it.
        with compile_lock, _quiet():
            program = torch.export.export(module, tuple(inputs), dynamic_shapes=shapes, strict=False)
            program = program.run_decompositions(_decompositions())
            remove_assertion_nodes(program.graph_module)
    except _FAILURES as error:
        raise Refused(f"the graph cannot be exported ({_first_line(error)})") from error
    if {spec.kind for spec in program.graph_signature.output_specs} - {OutputKind.USER_OUTPUT}:
        raise Refused("the graph changes its inputs or buffers")
    return program


def _open_sizes(value: object) -> dict[int, object] | None:
    """The dynamic sizes of PyTorch's compiler."""
    if not isinstance(value, torch.Tensor):
        return None
    return {i: torch.export.Dim.DYNAMIC for i, n in enumerate(value.shape) if is_open(n)} or None


def is_open(size: int | torch.SymInt) -> bool:
    """Whether a size is dynamic; PyTorch fixes some sizes while it reads a graph."""
    return isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None


@functools.cache
def _registry() -> ONNXRegistry:
    return ONNXRegistry.from_torchlib()


@functools.cache
def _decompositions() -> dict[Any, Callable[..., object]]:  # Any: PyTorch's operators
    known = get_onnx_implemented_overloads(_registry())
    return dict(create_onnx_friendly_decomposition_table(set(known))) | FUSED


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of exporters about optional libraries and deprecations."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _model(program: ExportedProgram) -> ModelProto:
    missing = _without_onnx(program.graph_module)
    if missing:
        raise Refused(f"ONNX has no operator for {', '.join(sorted(missing))}", missing)
    try:
        with _quiet():
            model = torch.onnx.export(program, dynamo=True, verbose=False)
    except torch.onnx.OnnxExporterError as error:
        raise Refused(f"the graph cannot be converted to ONNX ({_first_line(error)})") from error
    assert model is not None, "the export returns a model if no file is given"
    proto: ModelProto = model.model_proto
    return proto


def _without_onnx(graph: GraphModule) -> frozenset[str]:
    """Operators that ONNX lacks, or that draw random numbers, which PyTorch's generator must supply."""
    called = [n for n in graph.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    has = _registry().is_registered
    return frozenset(str(n.target) for n in called if not has(n.target) or _draws(n))


def _draws(node: Node) -> bool:
    """Whether an operator draws random numbers; attention has the tag, but draws them only for dropout."""
    if node.target is torch.ops.aten.scaled_dot_product_attention.default:
        return bool(node.kwargs.get("dropout_p", node.args[4] if len(node.args) > 4 else 0.0))
    return torch.Tag.nondeterministic_seeded in node.target.tags


def _plan(model: ModelProto) -> anyrt.IHostMemory:
    """Build the model; raises Refused with the PyTorch operators that the parser rejects."""
    logger = anyrt.Logger(anyrt.Logger.INTERNAL_ERROR)
    builder = anyrt.Builder(logger)
    network = network_of(builder)
    parser = anyrt.OnnxParser(network, logger)
    try:
        if not parser.parse(model.SerializeToString()):
            raise _refusal(parser, model)
        with strict():
            return builder.build_serialized_network(network, builder.create_builder_config())
    except AnyrtError as error:
        raise Refused(f"the graph cannot be built ({_first_line(error)})") from error


def _refusal(parser: anyrt.OnnxParser, model: ModelProto) -> Refused:
    problems = [parser.get_error(i) for i in range(parser.num_errors)]
    targets = {n.name: p.value for n in model.graph.node for p in n.metadata_props if p.key == _TOLD}
    matches = [_TARGET.search(targets.get(problem.node_name(), "")) for problem in problems]
    blamed = frozenset(match[1] for match in matches if match)
    return Refused(
        f"AnyRT does not support {', '.join(sorted(blamed)) or 'the graph'} ({problems[0].desc()})", blamed
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


class _Engine:
    """An engine with a context, which is called with tensors; one call at a time."""

    def __init__(self, plan: anyrt.IHostMemory) -> None:
        engine = anyrt.Runtime(anyrt.Logger(anyrt.Logger.ERROR)).deserialize_cuda_engine(plan)
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        inputs = {n for n in names if engine.get_tensor_mode(n) is anyrt.TensorIOMode.INPUT}
        self._inputs = [n for n in names if n in inputs]
        self._outputs = [(n, _TORCH[engine.get_tensor_dtype(n)]) for n in names if n not in inputs]
        # Dynamic sizes have no maximum for which memory could be reserved.
        self._context = engine.create_execution_context(anyrt.ExecutionContextAllocationStrategy.USER_MANAGED)
        self._memory = _EMPTY
        self._lock = threading.Lock()

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        held = [x.contiguous() for x in inputs]
        with self._lock, strict():
            for name, x in zip(self._inputs, held, strict=True):
                self._context.set_input_shape(name, tuple(x.shape))
                self._context.set_tensor_address(name, x.data_ptr() or _EMPTY.data_ptr())
            nbytes = self._context.update_device_memory_size_for_shapes()
            if nbytes > self._memory.nbytes:
                self._memory = torch.empty(nbytes, dtype=torch.uint8)
            self._context.set_device_memory(self._memory.data_ptr(), self._memory.nbytes)
            outputs = {name: _Output(dtype) for name, dtype in self._outputs}
            for name, output in outputs.items():
                self._context.set_output_allocator(name, output)
            self._context.execute_async_v3(0)
        return [output.tensor() for output in outputs.values()]


# Tensors without elements have no address.
_EMPTY: Final = torch.empty(64, dtype=torch.uint8)


class _Output(anyrt.IOutputAllocator):
    """Memory of PyTorch for an output with a data-dependent shape."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype
        self._memory = _EMPTY
        self._shape: tuple[int, ...] = ()

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        """Allocate new memory for each inference: the tensor of the last one may be in use."""
        self._memory = torch.empty(size, dtype=torch.uint8)
        return int(self._memory.data_ptr())

    def notify_shape(self, tensor_name: str, shape: Sequence[int]) -> None:
        """Receive the shape of the output."""
        self._shape = tuple(shape)

    def tensor(self) -> torch.Tensor:
        """The output."""
        count = torch.Size(self._shape).numel()
        return self._memory[: count * self._dtype.itemsize].view(self._dtype).view(self._shape)
