"""Loops and branches: recurrent layers written with a loop, many small steps, branches that cost little."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from onnx import parser

import anyrt as trt
from benchmarks.families.case import Case, Family, Node, constant, constant_of, normal
from benchmarks.values import Array

OP, FUNCTION, MATRIX = trt.ElementWiseOperation, trt.ActivationType, trt.MatrixOperation
GATES = {"lstm": 4, "gru": 3}  # as PyTorch orders them: i f g o, and r z n
ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}  # of these, as ONNX orders them
STEPS = 100
SHAPES = (  # steps, sequences, units
    *((50, 1, 128), (500, 1, 128), (100, 1, 256), (100, 8, 256)),
    *((100, 1, 512), (50, 1, 1024), (50, 8, 1024)),
)


def cases() -> Iterator[Case]:
    """128 to 1024 units over 50 to 500 steps; 100 steps of one row; both branches."""
    for cell in GATES:
        for shape in SHAPES:
            yield _recurrent(cell, *shape)
    yield _steps(64)
    yield _steps(4096)
    yield _branch(True)
    yield _branch(False)


class Cell:
    """A recurrent layer with random weights."""

    def __init__(self, kind: str, hidden: int) -> None:
        self.kind, self.hidden = kind, hidden
        random, rows = np.random.default_rng(1), GATES[kind] * hidden
        shapes = ((rows, hidden), (rows, hidden), (rows,), (rows,))
        most = hidden**-0.5
        self.weights = [random.uniform(-most, most, shape).astype(np.float32) for shape in shapes]

    def onnx(self) -> Node:
        """The ONNX node, with the weights in ONNX's order."""
        w, r, b, c = (self._ordered(a) for a in self.weights)
        more = {"linear_before_reset": 1} if self.kind == "gru" else {}
        biases = np.concatenate([b, c], 1).reshape(1, -1)
        return Node(self.kind.upper(), ("x", w, r, biases), {"hidden_size": self.hidden, **more})

    def _ordered(self, a: Array) -> Array:
        parts = a.reshape(GATES[self.kind], self.hidden, *a.shape[1:])
        whole = parts[list(ORDERS[self.kind])].reshape(1, -1, *a.shape[1:])
        return np.ascontiguousarray(whole)

    @cache  # noqa: B019  # one layer for each case, which is there as long as the process
    def layer(self, module: Any) -> Any:  # Any: PyTorch
        """PyTorch's layer."""
        layer = getattr(module.nn, self.kind.upper())(self.hidden, self.hidden)
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        layer.load_state_dict({n: module.from_numpy(a) for n, a in zip(names, self.weights, strict=True)})
        return layer.eval()

    def torch(self, module: Any, x: Any) -> Any:  # Any: tensors
        """The states after all steps."""
        return self.layer(module)(x)[0].unsqueeze(1)

    def ours(self, network: Any, x: Any) -> Any:  # Any: tensors and layers
        """The layer as a loop over steps."""
        steps, batch, _ = x.shape
        loop, w = network.add_loop(), _Writer(network)
        length = constant_of(network, np.array(steps, np.int32))
        loop.add_trip_limit(length, trt.TripLimit.COUNT)
        zeros = constant_of(network, np.zeros((batch, self.hidden), np.float32))
        states = [loop.add_recurrence(zeros) for _ in range(2 if self.kind == "lstm" else 1)]
        row = loop.add_iterator(x).get_output(0)
        of_x = w.dense(row, self.weights[0], self.weights[2])
        of_h = w.dense(states[0].get_output(0), self.weights[1], self.weights[3])
        nexts = (w.lstm if self.kind == "lstm" else w.gru)(of_x, of_h, states[-1].get_output(0))
        for state, new in zip(states, nexts, strict=True):
            state.set_input(1, new)
        every = loop.add_loop_output(nexts[0], trt.LoopOutput.CONCATENATE)
        every.set_input(1, length)
        shaped = network.add_shuffle(every.get_output(0))
        shaped.reshape_dims = (steps, 1, batch, self.hidden)
        return shaped


class _Writer:
    """Shorthands to add layers."""

    def __init__(self, network: Any) -> None:  # Any: whose class is derived
        self.network = network

    def op(self, a: Any, b: Any, how: Any) -> Any:  # Any: tensors
        return self.network.add_elementwise(a, b, how).get_output(0)

    def act(self, x: Any, how: Any) -> Any:  # Any: tensors
        return self.network.add_activation(x, how).get_output(0)

    def dense(self, x: Any, kernel: Array, bias: Array) -> Any:  # Any: tensors
        right, added = constant_of(self.network, kernel), constant_of(self.network, bias.reshape(1, -1))
        product = self.network.add_matrix_multiply(x, MATRIX.NONE, right, MATRIX.TRANSPOSE)
        return self.op(product.get_output(0), added, OP.SUM)

    def part(self, x: Any, k: int, count: int) -> Any:  # Any: tensors
        size = (x.shape[0], x.shape[1] // count)
        return self.network.add_slice(x, (0, k * size[1]), size, (1, 1)).get_output(0)

    def lstm(self, of_x: Any, of_h: Any, cell: Any) -> tuple[Any, Any]:  # Any: tensors
        gates = self.op(of_x, of_h, OP.SUM)
        i, f, o = (self.act(self.part(gates, k, 4), FUNCTION.SIGMOID) for k in (0, 1, 3))
        new = self.act(self.part(gates, 2, 4), FUNCTION.TANH)
        cell = self.op(self.op(f, cell, OP.PROD), self.op(i, new, OP.PROD), OP.SUM)
        return self.op(o, self.act(cell, FUNCTION.TANH), OP.PROD), cell

    def gru(self, of_x: Any, of_h: Any, h: Any) -> tuple[Any]:  # Any: tensors
        r, z = (
            self.act(self.op(self.part(of_x, k, 3), self.part(of_h, k, 3), OP.SUM), FUNCTION.SIGMOID)
            for k in (0, 1)
        )
        inner = self.op(r, self.part(of_h, 2, 3), OP.PROD)
        new = self.act(self.op(self.part(of_x, 2, 3), inner, OP.SUM), FUNCTION.TANH)
        return (self.op(new, self.op(z, self.op(h, new, OP.SUB), OP.PROD), OP.SUM),)


def _recurrent(kind: str, steps: int, batch: int, hidden: int) -> Case:
    cell = Cell(kind, hidden)
    return Case(
        f"{kind}_{steps}x{batch}x{hidden}",
        Family.CONTROL,
        {"x": normal(steps, batch, hidden)},
        cell.onnx(),
        cell.torch,
        ours=cell.ours,
        read=4 * (steps * batch * hidden + sum(a.size for a in cell.weights)),
    )


def _steps(length: int) -> Case:
    """x = tanh(0.9 x + 0.1), repeated."""

    def torch(module: Any, x: Any) -> Any:  # Any: tensors
        for _ in range(STEPS):
            x = module.tanh(0.9 * x + 0.1)
        return x

    body = parser.parse_graph(f"""body (int64 turn, bool on, float[1, {length}] before)
        => (bool still, float[1, {length}] after) <float by = {{0.9}}, float more = {{0.1}}> {{
            scaled = Mul(before, by)
            moved = Add(scaled, more)
            after = Tanh(moved)
            still = Identity(on)
        }}""")
    node = Node("Loop", (np.array(STEPS, np.int64), np.array(True), "x"), {"body": body})
    return Case(f"steps_{STEPS}x{length}", Family.CONTROL, {"x": normal(1, length)}, node, torch)


def _branch(flag: bool) -> Case:
    """2 x, or x + 1."""

    def torch(module: Any, x: Any, flag: Any) -> Any:  # Any: tensors
        return x * 2 if bool(flag) else x + 1

    ways = {
        name: parser.parse_graph(f"{kind} () => (float[64, 64] y) <float n = {{{n}}}> {{ y = {kind}(x, n) }}")
        for name, kind, n in (("then_branch", "Mul", 2), ("else_branch", "Add", 1))
    }
    inputs = {"x": normal(64, 64), "flag": constant(flag, np.bool_)}
    node = Node("If", ("flag",), ways)
    return Case(f"branch_{'then' if flag else 'else'}", Family.CONTROL, inputs, node, torch)
