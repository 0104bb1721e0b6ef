"""Algorithm selection: calls a program's algorithm selector, and reports the result to it.

class Steady(trt.IAlgorithmSelector):
    def __init__(self):
        trt.IAlgorithmSelector.__init__(self)       # must be called
    def select_algorithms(self, context, choices):
        return [0]                                  # always the first one, regardless of the measurements
    def report_algorithms(self, contexts, choices):
        for context, choice in zip(contexts, choices):
            print(context.name, choice.algorithm_variant.tactic)
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import numpy as np

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import Interface, call_user, pure, tried
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import integer, nothing, type_name
from anyrt.api.model.dims import Dims
from anyrt.compiler.request import Algorithm, Asked, Point, Tensor
from anyrt.core.enums import BuilderFlag, DataType
from anyrt.core.errors import ArgumentError


@fold
class IAlgorithmIOInfo(Fixed):
    """A tensor that an algorithm reads or writes."""

    __slots__ = ("__weakref__", "_tensor")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def dtype(self) -> DataType:
        """The type of its elements."""
        return self._tensor.dtype

    @property
    def strides(self) -> Dims:
        """The stride of each dimension in elements, row-major at the optimum of the first profile."""
        strides = [1]
        for size in self._tensor.shapes[Point.OPT][:0:-1]:
            strides.insert(0, strides[0] * size)
        return Dims(strides if self._tensor.shapes[Point.OPT] else [])

    @property
    def vectorized_dim(self) -> int:
        """−1: no dimension is vectorized."""
        return -1

    @property
    def components_per_element(self) -> int:
        """1: no dimension is vectorized."""
        return 1


@fold
class IAlgorithmVariant(Fixed):
    """Identifies an algorithm among those of its kernel, the same in every build."""

    __slots__ = ("__weakref__", "_algorithm")

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm

    @property
    def implementation(self) -> int:
        """The number of the strategy that schedules the kernel."""
        return self._algorithm.strategy

    @property
    def tactic(self) -> int:
        """The number of the tile sizes, as in timing caches."""
        return self._algorithm.tactic

    @one_line
    def __repr__(self) -> str:
        return f": implementation {self.implementation}, tactic {self.tactic}"


@fold
class IAlgorithm(Fixed):
    """An implementation of a kernel."""

    __slots__ = ("__weakref__", "_algorithm", "_task")

    def __init__(self, task: Asked, algorithm: Algorithm) -> None:
        self._task = task
        self._algorithm = algorithm

    @property
    def algorithm_variant(self) -> IAlgorithmVariant:
        """The identity of the algorithm."""
        return IAlgorithmVariant(self._algorithm)

    @property
    def timing_msec(self) -> float:
        """Its time in milliseconds; 0 if there is only one algorithm, or if it was not measured."""
        return self._algorithm.seconds * 1e3

    @property
    def workspace_size(self) -> int:
        """Its scratch memory in bytes."""
        return self._algorithm.scratch

    def get_algorithm_io_info(self, index: int) -> IAlgorithmIOInfo:
        """Tensor `index`, inputs before outputs; None if out of range."""
        tensors = (*self._task.inputs, *self._task.outputs)
        inside = 0 <= integer(index, "get_algorithm_io_info") < len(tensors)
        return IAlgorithmIOInfo(tensors[index]) if inside else nothing()

    @one_line
    def __repr__(self) -> str:
        return f" {self._algorithm.tactic}: {self.timing_msec:.4g} ms"


@fold
class IAlgorithmContext(Fixed):
    """The kernel that the algorithms implement."""

    __slots__ = ("__weakref__", "_task")

    def __init__(self, task: Asked) -> None:
        self._task = task

    @property
    def name(self) -> str:
        """The names of the layers that the kernel computes."""
        return self._task.name

    @property
    def num_inputs(self) -> int:
        """The number of tensors that the kernel reads, without constants."""
        return len(self._task.inputs)

    @property
    def num_outputs(self) -> int:
        """The number of tensors that the kernel writes."""
        return len(self._task.outputs)

    def get_shape(self, index: int) -> list[Dims]:
        """The minimum, optimum and maximum shape of tensor `index`, inputs before outputs; [] if out of
        range."""
        tensors = (*self._task.inputs, *self._task.outputs)
        inside = 0 <= integer(index, "get_shape") < len(tensors)
        return [Dims(shape) for shape in tensors[index].shapes] if inside else []

    @one_line
    def __repr__(self) -> str:
        return f" {self.name!r}"


@fold
class IAlgorithmSelector(Interface):
    """Selects the algorithms that the builder may use; override `select_algorithms`."""

    __slots__ = ()

    def select_algorithms(self, context: IAlgorithmContext, choices: list[IAlgorithm]) -> list[int]:
        """Return the indices of the allowed algorithms; the builder uses the fastest of them. If the list is
        empty, the builder ignores the selector or, with REJECT_EMPTY_ALGORITHMS, fails."""
        pure(self, "select_algorithms")

    def report_algorithms(self, contexts: list[IAlgorithmContext], choices: list[IAlgorithm]) -> None:
        """Receive the algorithm of each kernel at the end of the build."""


class Selecting:
    """Adapts a program's selector to the compiler."""

    def __init__(self, selector: IAlgorithmSelector, flags: int) -> None:
        self._selector = selector
        self._rejects = bool(flags >> int(BuilderFlag.REJECT_EMPTY_ALGORITHMS) & 1)

    def select(self, task: Asked, choices: Sequence[Algorithm]) -> Sequence[int]:
        """The selection of the program; ArgumentError AR334 if it is invalid."""
        context, offered = IAlgorithmContext(task), [IAlgorithm(task, a) for a in choices]
        selected, error = tried(self._selector.select_algorithms, context, offered)
        if error is not None:
            traceback.print_exception(error, file=sys.stderr)
            raise _unusable(task, f"{type(error).__name__}: {error}", len(choices)) from error
        selected = selected.tolist() if isinstance(selected, np.ndarray) else selected
        # As in pybind11: any sequence except text.
        if not isinstance(selected, Sequence) or isinstance(selected, str | bytes):
            raise _unusable(task, type_name(selected), len(choices))
        selected = [int(n) if isinstance(n, np.integer) else n for n in selected]
        wrong = [n for n in selected if not isinstance(n, int) or not 0 <= n < len(choices)]
        if wrong or len({*selected}) < len(selected) or (self._rejects and not selected):
            raise _unusable(task, f"{selected}", len(choices))
        return selected

    def report(self, tasks: Sequence[Asked], chosen: Sequence[Algorithm]) -> None:
        """Report to the program; an exception of it is printed and ignored."""
        contexts = [IAlgorithmContext(task) for task in tasks]
        algorithms = [IAlgorithm(task, a) for task, a in zip(tasks, chosen, strict=True)]
        call_user(None, self._selector.report_algorithms, contexts, algorithms)


def _unusable(task: Asked, got: str, count: int) -> ArgumentError:
    wanted = f"a list of distinct indices from 0 to {count - 1}"
    return ArgumentError("AR334", f"select_algorithms for {task.name}", got, wanted)
