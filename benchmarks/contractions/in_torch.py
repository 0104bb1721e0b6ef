"""A case as a PyTorch module: a list of functions, for eager calls in both layouts and for torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch.nn import functional

from benchmarks.contractions.calls import Act, Codes, Weights
from benchmarks.contractions.describe import describe
from benchmarks.contractions.forms import Case, Convolution, Fold, Mask, Pool, Whole, Window, inputs
from benchmarks.peers import Cannot, Task, Way
from benchmarks.peers.torch import called, tensor
from benchmarks.steps import Element, Shape
from benchmarks.values import Array

Function: TypeAlias = Callable[..., torch.Tensor]
CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
POOLS = {
    (Fold.MAX, 2): functional.max_pool2d,
    (Fold.MAX, 3): functional.max_pool3d,
    (Fold.AVERAGE, 2): functional.avg_pool2d,
    (Fold.AVERAGE, 3): functional.avg_pool3d,
}
FUNCTIONS: dict[Act, Function] = {Act.RELU: torch.relu, Act.GELU: functional.gelu}
EPSILON = 1e-5
IMAGE_RANK = 4
FREEZES = True


def eager(task: Task) -> tuple[Way, ...]:
    """The module, and for images also with channels last in memory."""
    case, inputs = task.case, task.inputs
    ways = [called("", module_of(case), map(tensor, inputs.values()), task.outputs)]
    if isinstance(case.form, Convolution | Pool | Whole) and inputs["x"].ndim == IMAGE_RANK:
        last = (tensor(x).to(memory_format=torch.channels_last) for x in inputs.values())
        ways.append(called("channels last", module_of(case, last=True), last, task.outputs))
    return tuple(ways)


def compiled(task: Task) -> Way:
    """The compiled module with frozen weights."""
    module = torch.compile(module_of(task.case).eval(), dynamic=False)
    return called("", module, map(tensor, task.inputs.values()), task.outputs)


class Module(torch.nn.Module):
    """The steps of a case: each a function and the places of its operands, after inputs and weights."""

    def __init__(self, weights: Sequence[torch.Tensor], steps: Sequence[tuple[Function, tuple[int, ...]]]):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(w, requires_grad=False) for w in weights)
        self.steps = tuple(steps)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The result of the last step. Negative places are weights: -1 is the first."""
        values = list(inputs)
        for function, places in self.steps:
            values.append(function(*(values[p] if p >= 0 else self.weights[-1 - p] for p in places)))
        return values[-1]


def module_of(case: Case, last: bool = False) -> Module:
    """The module of a case; last: weights of convolutions have channels last in memory."""
    if case.dtype is Element.I8:
        raise Cannot("no int8 without its own quantised modules")
    names = {name: i for i, name in enumerate(inputs(case))}
    tape = Tape(len(names), last)
    describe(case, tape, names)
    return Module(tape.weights, tape.steps)


def _linear(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.linear(x, weights.t(), bias)


class Tape:
    """Calls as steps; values are places of operands."""

    def __init__(self, inputs: int, last: bool) -> None:
        self.weights: list[torch.Tensor] = []
        self.steps: list[tuple[Function, tuple[int, ...]]] = []
        self.inputs = inputs
        self.last = last

    def _step(self, function: Function, *places: int) -> int:
        self.steps.append((function, places))
        return self._last()

    def _last(self) -> int:
        return self.inputs + len(self.steps) - 1

    def constant(self, values: Weights) -> int:
        assert not isinstance(values, Codes), "int8 is rejected before"
        weights = tensor(np.ascontiguousarray(values))
        if self.last and weights.ndim == 4:
            weights = weights.to(memory_format=torch.channels_last)
        self.weights.append(weights)
        return -len(self.weights)

    def product(self, a: int, b: int) -> int:
        return self._step(torch.matmul, a, b)

    def scores(self, q: int, k: int) -> int:
        return self._step(lambda a, b: torch.matmul(a, b.mT), q, k)

    def convolution(self, x: int, kernel: Weights, bias: Array | None, window: Window) -> int:
        function = (TRANSPOSED if window.transposed else CONVOLUTIONS)[len(window.kernel)]

        def run(*operands: torch.Tensor) -> torch.Tensor:
            return function(
                *operands, stride=window.stride, padding=window.pad, dilation=window.dilation,
                groups=window.groups,
            )  # fmt: skip

        weights = (self.constant(kernel),) + (() if bias is None else (self.constant(bias),))
        return self._step(run, x, *weights)

    def pool(self, x: int, fold: Fold, window: Window) -> int:
        function = POOLS[fold, len(window.kernel)]
        more = {} if fold is Fold.MAX else {"count_include_pad": False}

        def run(y: torch.Tensor) -> torch.Tensor:
            return function(y, window.kernel, stride=window.stride, padding=window.pad, **more)

        return self._step(run, x)

    def add(self, a: int, b: int) -> int:
        """The sum; with a bias of a product by weights, one function computes both."""
        function, places = self.steps[-1] if self.steps else (None, ())
        if function is torch.matmul and a == self._last() and places[1] < 0 and b < 0:
            self.steps.pop()
            return self._step(_linear, *places, b)
        return self._step(torch.add, a, b)

    def act(self, x: int, function: Act) -> int:
        return self._step(FUNCTIONS[function], x)

    def softmax(self, x: int) -> int:
        return self._step(lambda y: torch.softmax(y, -1), x)

    def attention(self, q: int, k: int, v: int, mask: Mask, added: int | None) -> int:
        def run(*operands: torch.Tensor) -> torch.Tensor:
            grouped = operands[0].shape[1] != operands[1].shape[1]
            return functional.scaled_dot_product_attention(
                *operands, is_causal=mask is Mask.CAUSAL, scale=1.0, enable_gqa=grouped
            )

        return self._step(run, q, k, v, *(() if added is None else (added,)))

    def normalize(self, x: int, gain: Array, bias: Array) -> int:
        size = gain.shape

        def run(y: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
            return functional.layer_norm(y, size, scale, shift, EPSILON)

        return self._step(run, x, self.constant(gain), self.constant(bias))

    def transpose(self, x: int, perm: Shape) -> int:
        return self._step(lambda y: y.permute(perm), x)

    def reshape(self, x: int, shape: Shape) -> int:
        return self._step(lambda y: y.reshape(shape), x)

    def dequantize(self, x: int, scale: float) -> int:
        """Not supported."""
        raise Cannot("no int8")

    def quantize(self, x: int, scale: float) -> int:
        """Not supported."""
        raise Cannot("no int8")
