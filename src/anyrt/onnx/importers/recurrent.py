"""RNN, LSTM and GRU: loops over contractions.

One product before the loop multiplies the inputs of all steps; an iteration multiplies only the state. With
half types, only factors of products and results have these; all other values, including states, are float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from anyrt.api.compose.layers import HALVES
from anyrt.api.compose.regions import Iterations
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import ActivationType, DataType
from anyrt.core.errors import ArgumentError
from anyrt.onnx.node import Argument, Node, importer

A = ActivationType
Function: TypeAlias = Callable[[Tensor], Tensor]
# The layer of each activation, and the defaults of alpha and beta; None: it has no such parameter.
ACTIVATIONS: dict[str, tuple[ActivationType, float | None, float | None]] = {
    "relu": (A.RELU, None, None),
    "tanh": (A.TANH, None, None),
    "sigmoid": (A.SIGMOID, None, None),
    "softsign": (A.SOFTSIGN, None, None),
    "softplus": (A.SOFTPLUS, None, None),
    "leakyrelu": (A.LEAKY_RELU, 0.01, None),
    "thresholdedrelu": (A.THRESHOLDED_RELU, 1.0, None),
    "elu": (A.ELU, 1.0, None),
    "hardsigmoid": (A.HARD_SIGMOID, 0.2, 0.5),
    "scaledtanh": (A.SCALED_TANH, 1.0, 1.0),
}
AFFINE = "affine"
NONE: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of a node: weights (gates · hidden, …), biases (gates · hidden,), states (batch, hidden).

    of_x: the products of the inputs of all steps, (steps, batch, gates · hidden), with the biases in `bias`;
    recurrent: the weights of the state; rest: the biases that an iteration adds; valid: whether a step is
    inside its sequence, (steps, batch, 1)."""

    node: Node
    hidden: int
    functions: Sequence[Function]
    of_x: Tensor
    recurrent: Tensor
    rest: Tensor | None
    states: Sequence[Tensor]
    peepholes: Sequence[Tensor]
    valid: Tensor | None
    backwards: bool

    def gate(self, x: Tensor, first: int, count: int = 1) -> Tensor:
        """Some of the gates, (batch, gates · hidden) or (gates · hidden, …)."""
        at, axis = first * self.hidden, 0 if x is self.recurrent or x is self.rest else 1
        start, size = [0] * x.rank, [n if n >= 0 else x.size(k) for k, n in enumerate(x.sizes)]
        start[axis], size[axis] = at, count * self.hidden
        return self.node.slice(x, start, size)

    def product(self, state: Tensor, weights: Tensor) -> Tensor:
        """The product of a state and these weights."""
        return _wide(self.node.matmul(state.cast(weights.dtype), weights, turn_b=True))


Cell: TypeAlias = Callable[[Way, Tensor, Sequence[Tensor]], tuple[Tensor, ...]]


@importer("RNN")
def rnn(node: Node) -> list[Argument]:
    """Ht = f(Xt W + Ht-1 R + b)."""

    def cell(way: Way, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return (way.functions[0](x + way.product(states[0], way.recurrent)),)

    return _recurrent(node, cell, gates=1, default=("Tanh",))


@importer("LSTM")
def lstm(node: Node) -> list[Argument]:
    """Gates i, o, f and c, in this order, from which the cell and the state are computed."""
    forget = bool(node.attr("input_forget", 0))

    def cell(way: Way, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        (h, c), (f, g, out) = states, way.functions
        gates = x + way.product(h, way.recurrent)
        i, o, keep, new = (way.gate(gates, k) for k in range(4))
        if way.peepholes:
            i, keep = i + way.peepholes[0] * c, keep + way.peepholes[2] * c
        i = f(i)
        c = (1 - i if forget else f(keep)) * c + i * g(new)
        return f(o + way.peepholes[1] * c if way.peepholes else o) * out(c), c

    return _recurrent(node, cell, gates=4, default=("Sigmoid", "Tanh", "Tanh"), states=2)


@importer("GRU")
def gru(node: Node) -> list[Argument]:
    """Gates z, r and h, in this order; the reset r is applied to the state, or to its product."""
    before = bool(node.attr("linear_before_reset", 0))

    def cell(way: Way, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        (h,), (f, g) = states, way.functions
        if before:
            product = way.product(h, way.recurrent)
            z, r = (f(way.gate(x, k) + way.gate(product, k)) for k in (0, 1))
            inner = way.gate(product, 2)
            inner = r * (inner if way.rest is None else inner + way.gate(way.rest, 2).unsqueeze(0))
        else:
            product = way.product(h, way.gate(way.recurrent, 0, 2))
            z, r = (f(way.gate(x, k) + way.gate(product, k)) for k in (0, 1))
            inner = way.product(r * h, way.gate(way.recurrent, 2))
        new = g(way.gate(x, 2) + inner)
        return ((1 - z) * new + z * h,)

    return _recurrent(node, cell, gates=3, default=("Sigmoid", "Tanh"), held=1 if before else 0)


def _recurrent(
    node: Node, cell: Cell, gates: int, default: tuple[str, ...], states: int = 1, held: int = 0
) -> list[Argument]:
    """Y and the last states of all directions. `held`: the number of last gates whose state biases stay
    separate."""
    ways = [*_ways(node, gates, default, states, held)]
    batchwise = bool(node.attr("layout", 0))
    runs = [_run(way, cell, node.asks(0)) for way in ways]
    out: list[Argument] = [None]
    if node.asks(0):
        every = node.concat([y.unsqueeze(1) for y, _ in runs if y is not None], 1)
        out[0] = every.transpose(2, 0, 1, 3) if batchwise else every
    for k in range(states):
        last = node.concat([state[k].unsqueeze(0) for _, state in runs], 0)
        out.append(last.transpose(1, 0, 2) if batchwise else last)
    return out


def _run(way: Way, cell: Cell, keeps_all: bool) -> tuple[Tensor | None, list[Tensor]]:
    """The outputs of all steps of a direction, (steps, batch, hidden), if requested, and its last states."""
    node, turns = way.node, Iterations(way.node, way.of_x.size(0))
    inner = [turns.state(s) for s in way.states]
    results = list(cell(way, turns.each(way.of_x, 0, way.backwards), inner))
    y = results[0]
    if way.valid is not None:  # after its end a sequence keeps its state, and its outputs are zeros
        valid = turns.each(way.valid, 0, way.backwards)
        y = node.where_(valid, y, node.like(0, y))
        results = [node.where_(valid, new, old) for new, old in zip(results, inner, strict=True)]
    for state, new in zip(inner, results, strict=True):
        turns.then(state, new)
    every = turns.all(y.cast(way.recurrent.dtype), 0, way.backwards) if keeps_all else None
    return every, [turns.last(s).cast(way.recurrent.dtype) for s in inner]


def _ways(node: Node, gates: int, default: tuple[str, ...], states: int, held: int) -> Iterator[Way]:
    """The directions of a node, each with its part of the operands."""
    batchwise, direction = bool(node.attr("layout", 0)), node.attr("direction", "forward")
    x = node.input(0).transpose(1, 0, 2) if batchwise else node.input(0)
    hidden = node.input(2).sizes[2]
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if backwards is None:
        wanted = "forward, reverse or bidirectional"
        raise ArgumentError("AR304", node.where, f"direction {direction!r}", wanted)
    starts = [node.optional(5 + k) for k in range(states)]
    if batchwise:
        starts = [None if s is None else s.transpose(1, 0, 2) for s in starts]
    functions = [*_functions(node, default * len(backwards))]
    valid = _valid(node, x)
    for k, back in enumerate(backwards):
        bias, rest = _biases(node, k, gates, hidden, held)
        of_x = _wide(node.matmul(x, _of_way(node.input(1), k), turn_b=True))
        yield Way(
            node,
            hidden,
            functions[k * len(default) : (k + 1) * len(default)],
            of_x if bias is None else of_x + bias,
            _of_way(node.input(2), k),
            rest,
            [_zeros(node, x, hidden) if s is None else _wide(_of_way(s, k)) for s in starts],
            _peepholes(node, k, hidden),
            valid,
            back,
        )


def _of_way(x: Tensor, k: int) -> Tensor:
    """Entry `k` of the first axis, without it."""
    sizes = [n if n >= 0 else x.size(axis) for axis, n in enumerate(x.sizes)]
    return x.layers.slice(x, [k, *[0] * (x.rank - 1)], [1, *sizes[1:]]).squeeze(0)


def _wide(x: Tensor) -> Tensor:
    """Convert half types to float32."""
    return x.cast(DataType.FLOAT) if x.dtype in HALVES else x


def _zeros(node: Node, x: Tensor, hidden: int) -> Tensor:
    batch = x.sizes[1] if x.sizes[1] >= 0 else x.size(1)
    return node.full([batch, hidden], _wide(node.constant(0, x.dtype)))


def _valid(node: Node, x: Tensor) -> Tensor | None:
    """The mask of steps inside the sequences: (steps, batch, 1)."""
    lengths = node.optional(4)
    if lengths is None:
        return None
    steps = node.counted(x.size(0)).cast(DataType.INT32)
    return steps.reshape((-1, 1, 1)) < lengths.cast(DataType.INT32).reshape((1, -1, 1))


def _biases(node: Node, k: int, gates: int, hidden: int, held: int) -> tuple[Tensor | None, Tensor | None]:
    """The biases for the products of the inputs and, if some are `held` back, those of the state."""
    bias = node.optional(3)
    if bias is None:
        return None, None
    both = _wide(_of_way(bias, k))
    ours, state = (node.slice(both, [n * gates * hidden], [gates * hidden]) for n in (0, 1))
    if not held:
        return ours + state, None
    free = (gates - held) * hidden
    nothing = node.constant([0.0] * (held * hidden), state.dtype)
    shared = node.concat([node.slice(state, [0], [free]), nothing], 0)
    return ours + shared, state


def _peepholes(node: Node, k: int, hidden: int) -> list[Tensor]:
    """The peephole weights of i, o and f, each (1, hidden)."""
    weights = node.optional(7)
    if weights is None:
        return []
    own = _wide(_of_way(weights, k))
    return [node.slice(own, [n * hidden], [hidden]).unsqueeze(0) for n in range(3)]


def _functions(node: Node, default: tuple[str, ...]) -> Iterator[Function]:
    """The activations, in order; those with parameters use the next ones of the node. As in ONNX Runtime, the
    cell of an LSTM is not clipped before its activation; the gates are."""
    alphas, betas = (iter(node.attr(f"activation_{name}", NONE)) for name in ("alpha", "beta"))
    limit = node.attr("clip", 0.0)
    for k, name in enumerate(node.attr("activations", default)):
        defaults = ACTIVATIONS.get(name.lower(), (None, 1.0, 0.0))
        if defaults[0] is None and name.lower() != AFFINE:
            raise ArgumentError("AR304", node.where, f"activation {name}", ", ".join((*ACTIVATIONS, AFFINE)))
        alpha = None if defaults[1] is None else next(alphas, defaults[1])
        beta = None if defaults[2] is None else next(betas, defaults[2])
        yield partial(
            _activated, node, defaults[0], alpha, beta, 0.0 if k % 3 == 2 and node.op == "LSTM" else limit
        )


def _activated(
    node: Node, kind: ActivationType | None, alpha: float | None, beta: float | None, limit: float, x: Tensor
) -> Tensor:
    if limit:
        x = x.clip(-limit, limit)
    if kind is None:
        return x * (1.0 if alpha is None else alpha) + (beta or 0.0)
    parameters = {name: value for name, value in (("alpha", alpha), ("beta", beta)) if value is not None}
    if kind is A.SOFTPLUS:
        parameters = {"alpha": 1.0, "beta": 1.0}
    return node.activation(kind, x, **parameters)
