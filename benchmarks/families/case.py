"""A case as data: its inputs, the expected result, and how each program computes it."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

import anyrt as trt
from benchmarks.values import Array, nbytes, placed

Random: TypeAlias = np.random.Generator
Make: TypeAlias = Callable[[Random], Array]
Shape: TypeAlias = tuple[int, ...]
OPSET = 21


class Family(enum.Enum):
    """The tables; each has its own file."""

    GATHER = "gathers"
    SCATTER = "scatters"
    SELECT = "one-hot and reversed sequences"
    RANK = "top k"
    SUM = "cumulative sums"
    SAMPLE = "grid samples"
    FILL = "fills"
    CODE = "codes"
    CONTROL = "loops and branches"
    COUNTED = "elements that are not zero and boxes that are kept"
    EXPERT = "mixtures of experts"
    RESIZE = "antialiased resizes"


@dataclass(frozen=True, slots=True)
class Node:
    """An ONNX node: names of inputs, and constants or functions that return them, in order; attributes;
    the number of results."""

    kind: str
    operands: tuple[str | Array | Callable[[], Array], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)  # Any: as make_node takes them
    results: int = 1

    @property
    def constants(self) -> dict[str, Array]:
        """The operands that are no inputs, by name."""
        every = enumerate(self.operands)
        return {f"c{i}": x() if callable(x) else x for i, x in every if not isinstance(x, str)}

    @property
    def proto(self) -> onnx.NodeProto:
        """The node; its results are y0, y1, ..."""
        names = [x if isinstance(x, str) else f"c{i}" for i, x in enumerate(self.operands)]
        return helper.make_node(self.kind, names, [f"y{i}" for i in range(self.results)], **self.attributes)


@dataclass(frozen=True, slots=True)
class Case:
    """A layer on inputs.

    inputs: the function that makes each input. onnx: the node, for programs that read ONNX. torch(torch,
    *tensors): the result, also compiled by torch.compile; eagerly: another function that is not compiled.
    exact: the result by NumPy, or several (default: those of ONNX's reference of the node). ours(network,
    *tensors): the layer (default: AnyRT reads the node). wide: its integers are int64. read: bytes that must
    be read (default: those of the inputs). noise: random numbers, judged by their moments. counted: results
    have data-dependent shapes. unordered: rows of results may have any order.
    """

    language: ClassVar[str] = "benchmarks.families"
    name: str
    family: Family
    inputs: Mapping[str, Make]
    onnx: Node | None
    torch: Callable[..., Any] | None  # Any: a tensor or several, as in the others
    exact: Callable[..., Any] | None = None
    ours: Callable[..., Any] | None = None
    eagerly: Callable[..., Any] | None = None
    wide: bool = False
    read: int | None = None
    noise: bool = False
    counted: bool = False
    unordered: bool = False


def inputs(case: Case) -> dict[str, Array]:
    """All inputs, each in its own memory, equal in every run."""
    return {
        name: placed(make(np.random.default_rng(7 + i))) for i, (name, make) in enumerate(case.inputs.items())
    }


def expected_of(case: Case, arrays: dict[str, Array]) -> tuple[Array, ...]:
    """The expected results."""
    if case.exact is None:
        assert case.onnx is not None, f"{case.name}: no reference"
        reference = ReferenceEvaluator(case.onnx.proto, opsets={"": OPSET})
        results = tuple(map(np.asarray, reference.run(None, arrays | case.onnx.constants)))
        return tuple(y.astype(np.int32) if case.wide and y.dtype == np.int64 else y for y in results)
    results = case.exact(*arrays.values())
    return results if isinstance(results, tuple) else (results,)


def traffic(case: Case, arrays: Mapping[str, Array], results: tuple[Array, ...]) -> tuple[int, int]:
    """(bytes read, bytes written) at least."""
    read = sum(map(nbytes, arrays.values())) if case.read is None else case.read
    return read, sum(map(nbytes, results))


def normal(*shape: int, dtype: Any = np.float32) -> Make:  # Any: whatever NumPy takes for a type
    """Normally distributed numbers."""
    return lambda random: random.standard_normal(shape, np.float32).astype(dtype)


def places(limit: int, *shape: int) -> Make:
    """Indices below `limit`, with repetitions."""
    return lambda random: random.integers(0, limit, shape).astype(np.int32)


def distinct(limit: int, count: int) -> Make:
    """`count` distinct indices below `limit`."""
    return lambda random: random.permutation(limit)[:count].astype(np.int32)


def shuffled(*shape: int, dtype: Any = np.float32) -> Make:  # Any: see above
    """Distinct numbers along the last axis, in random order."""

    def make(random: Random) -> Array:
        rows, length = math.prod(shape[:-1]), shape[-1]
        each = [random.permutation(length) for _ in range(rows)]
        return ((np.stack(each) - length / 2) / 16).reshape(shape).astype(dtype)

    return make


def constant(value: Any, dtype: Any = np.float32) -> Make:  # Any: see above
    """A constant input."""
    return lambda random: np.asarray(value, dtype)


def size(shape: Shape) -> str:
    """For names."""
    return "x".join(map(str, shape))


def constant_of(network: Any, array: Array) -> Any:  # Any: networks and tensors, whose classes are derived
    """A constant tensor of AnyRT."""
    return network.add_constant(array.shape, trt.Weights(np.ascontiguousarray(array))).get_output(0)
