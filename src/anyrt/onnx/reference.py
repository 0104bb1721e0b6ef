"""Compares a model with another ONNX runtime: random inputs, and differences of outputs.

>>> compare("y", np.float32([1, 2]), np.float32([1, 2.5]), 1e-3, 1e-3).agrees
False
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from onnx import ModelProto, ValueInfoProto

from anyrt.api.edge.interfaces import Logger
from anyrt.api.run.runtime import Runtime
from anyrt.core.dtype import is_float, numpy_dtype
from anyrt.core.enums import Severity
from anyrt.core.errors import AnyrtError, NotSupportedError
from anyrt.core.flags import strict
from anyrt.onnx.model import Signature, cut_zipmaps, read, signature
from anyrt.onnx.session import Session, build
from anyrt.onnx.weights import mapped
from anyrt.ops._record import Array

Feeds: TypeAlias = Mapping[str, Array]


@dataclass(slots=True)
class Compared:
    """A model for a comparison; outputs: the names of the compared tensors, in order."""

    proto: ModelProto
    folder: Path
    outputs: tuple[str, ...]

    def signatures(self) -> dict[str, Signature]:
        """The types and sizes of the inputs."""
        constants = {t.name for t in self.proto.graph.initializer}
        return {v.name: signature(v.name, v.type) for v in self.proto.graph.input if v.name not in constants}

    def inputs(self, shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, Array]:
        """Random values: -1 to 1, and 0 or 1 for integers; dynamic sizes are 1 unless `shapes` has them."""
        generator = np.random.default_rng(seed)
        out: dict[str, Array] = {}
        for name, declared in self.signatures().items():
            shape = shapes.get(name, tuple(1 if d < 0 else d for d in declared.sizes))
            real = is_float(declared.dtype)
            drawn = generator.uniform(-1, 1, shape) if real else generator.integers(0, 2, shape)
            out[name] = np.asarray(drawn).astype(numpy_dtype(declared.dtype))
        return out

    def session(self) -> Session:
        """AnyRT's engine of the model, strongly typed."""
        logger = Logger(Severity.ERROR)
        path = str(self.folder / "model.onnx")
        with strict():
            plan = build(self.proto.SerializeToString(), logger, path)
            return Session(Runtime(logger).deserialize_cuda_engine(plan))

    def maker(self, name: str) -> str:
        """A description of the node whose output a tensor is."""
        for node in self.proto.graph.node:
            if name in node.output:
                return f", of {node.op_type} {node.name}".rstrip()
        return ""


def load_model(path: Path, layers: bool) -> Compared:
    """Load a model from a file; `layers`: the outputs of all nodes of its graph are outputs, in order."""
    read(mapped(path), None)  # it reports the kind of a file that is not a model
    proto = onnx.load(path)
    for _ in cut_zipmaps(proto):
        pass
    if layers:
        known = {v.name for v in proto.graph.output}
        tensors = [n for node in proto.graph.node for n in node.output if n]
        proto.graph.output.extend(ValueInfoProto(name=n) for n in tensors if n not in known)
        inferred = {v.name: v for v in onnx.shape_inference.infer_shapes(proto).graph.value_info}
        for value in proto.graph.output:
            if value.name in inferred and not value.HasField("type"):
                value.CopyFrom(inferred[value.name])
        names = tuple(tensors)
    else:
        names = tuple(v.name for v in proto.graph.output)
    return Compared(proto, path.absolute().parent, names)


def runner(name: str | None) -> tuple[str, Callable[[Compared, Feeds], dict[str, Array]]]:
    """The other runtime: the requested one, otherwise ONNX Runtime if it is installed."""
    if name != "reference":
        try:
            importlib.import_module("onnxruntime")
            return "onnxruntime", _onnxruntime
        except ImportError:
            if name is not None:
                do = "pip install onnxruntime, or --against reference"
                got, wanted = "no module onnxruntime", "the package onnxruntime"
                raise NotSupportedError("AR901", "--against", got, wanted, do) from None
    return "reference", _reference


def failures() -> tuple[type[Exception], ...]:
    """The exceptions of AnyRT and of other runtimes for a model that they do not support."""
    kinds = (AnyrtError, RuntimeError, ValueError, TypeError, LookupError, AttributeError)
    try:
        state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    except ImportError:
        return kinds
    return (*kinds, *(x for x in vars(state).values() if isinstance(x, type) and issubclass(x, Exception)))


def _onnxruntime(model: Compared, feeds: Feeds) -> dict[str, Array]:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(
        model.proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return dict(zip(model.outputs, session.run(list(model.outputs), dict(feeds)), strict=True))


def _reference(model: Compared, feeds: Feeds) -> dict[str, Array]:
    from onnx.reference import ReferenceEvaluator

    results = ReferenceEvaluator(model.proto).run(list(model.outputs), dict(feeds))
    return {n: np.asarray(x) for n, x in zip(model.outputs, results, strict=True)}


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two arrays: the largest, and the largest relative to the expected value."""

    name: str
    shape: str
    largest: float
    relative: float
    agrees: bool

    def row(self) -> tuple[str, ...]:
        """The row of a table."""
        mark = "yes" if self.agrees else "no"
        return self.name, self.shape, f"{self.largest:.3g}", f"{self.relative:.3g}", mark


def compare(name: str, got: Array, expected: Array, rtol: float, atol: float) -> Difference:
    """Compare two arrays: integers must be equal, real numbers equal within tolerances."""
    if got.shape != expected.shape:
        return Difference(name, f"{got.shape} for {expected.shape}", np.inf, np.inf, False)
    a, b = got.astype(np.float64), expected.astype(np.float64)
    if not a.size:
        return Difference(name, f"{got.shape}", 0.0, 0.0, True)
    with np.errstate(all="ignore"):
        off = np.where(np.isclose(a, b, rtol=0, atol=0, equal_nan=True), 0.0, np.abs(a - b))
        relative = off / np.maximum(np.abs(b), np.finfo(np.float32).tiny)
    exact = expected.dtype.kind in "biu"
    agrees = bool(not off.any() if exact else np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True))
    return Difference(name, f"{got.shape}", float(np.max(off)), float(np.max(relative)), agrees)
