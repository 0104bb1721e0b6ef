"""What is measured, as data: inputs, the right result, and how each program is asked for it."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np

import anyrt as trt
from benchmarks.values import Array, nbytes, placed

Random: TypeAlias = np.random.Generator
Make: TypeAlias = Callable[[Random], Array]
Shape: TypeAlias = tuple[int, ...]


class Family(enum.Enum):
    """Tables; each has its file."""

    GATHER = "gathers"
    SCATTER = "scatters"
    SELECT = "one-hot and reversed sequences"
    RANK = "top k"
    SUM = "cumulative sums"
    SAMPLE = "grid samples"
    FILL = "fills"
    CODE = "codes"
    CONTROL = "loops and branches"
    FOUND = "elements that are not zero and boxes that are kept"
    EXPERT = "mixtures of experts"
    RESIZE = "antialiased resizes"


@dataclass(frozen=True, slots=True)
class Node:
    """An ONNX node: names of inputs and constants, or what makes these, in their order, and attributes; a
    graph among these is made by a function, where ONNX is at hand."""

    kind: str
    operands: tuple[str | Array | Callable[[], Array], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)  # Any: as make_node takes them


@dataclass(frozen=True, slots=True)
class Case:
    """A layer on inputs.

    given: what makes each input. exact: NumPy's result, or several. ours(network, *tensors): the layer.
    torch(torch, *tensors): the result, compiled by torch.compile, too; eagerly: another way without it.
    onnx: the node, for the programs that read ONNX. wide: where integers are int64 there. read: bytes that
    must be read, those of the inputs unless it says so. noise: random numbers, judged by their moments.
    counted: data decide how large results are. unordered: rows of results may stand in any order.
    """

    language: ClassVar[str] = "benchmarks.families"
    name: str
    family: Family
    given: Mapping[str, Make]
    exact: Callable[..., Any]  # Any: an array or several, as the others
    ours: Callable[..., Any]
    onnx: Node | None = None
    torch: Callable[..., Any] | None = None
    eagerly: Callable[..., Any] | None = None
    wide: bool = False
    read: int | None = None
    noise: bool = False
    counted: bool = False
    unordered: bool = False


def inputs(case: Case) -> dict[str, Array]:
    """Every input at memory of its own, the same numbers in every run."""
    return {
        name: placed(make(np.random.default_rng(7 + i))) for i, (name, make) in enumerate(case.given.items())
    }


def wanted(case: Case, given: Mapping[str, Array]) -> tuple[Array, ...]:
    """The right results."""
    found = case.exact(*given.values())
    return found if isinstance(found, tuple) else (found,)


def traffic(case: Case, given: Mapping[str, Array], results: tuple[Array, ...]) -> tuple[int, int]:
    """(bytes read, bytes written) that cannot be avoided."""
    read = sum(map(nbytes, given.values())) if case.read is None else case.read
    return read, sum(map(nbytes, results))


def normal(*shape: int, dtype: Any = np.float32) -> Make:  # Any: whatever NumPy takes for a type
    """Numbers around 0."""
    return lambda random: random.standard_normal(shape, np.float32).astype(dtype)


def places(limit: int, *shape: int) -> Make:
    """Indices below `limit`, some of them equal."""
    return lambda random: random.integers(0, limit, shape).astype(np.int32)


def distinct(limit: int, count: int) -> Make:
    """So many different indices below `limit`."""
    return lambda random: random.permutation(limit)[:count].astype(np.int32)


def shuffled(*shape: int, dtype: Any = np.float32) -> Make:  # Any: see above
    """Different numbers along the last axis, in no order."""

    def make(random: Random) -> Array:
        rows, length = math.prod(shape[:-1]), shape[-1]
        each = [random.permutation(length) for _ in range(rows)]
        return ((np.stack(each) - length / 2) / 16).reshape(shape).astype(dtype)

    return make


def constant(value: Any, dtype: Any = np.float32) -> Make:  # Any: see above
    """These numbers."""
    return lambda random: np.asarray(value, dtype)


def size(shape: Shape) -> str:
    """For names."""
    return "x".join(map(str, shape))


def constant_of(network: Any, array: Array) -> Any:  # Any: networks and tensors, whose classes are derived
    """A constant tensor of AnyRT."""
    return network.add_constant(array.shape, trt.Weights(np.ascontiguousarray(array))).get_output(0)
