"""An LSTM cell, with random weights: one engine that takes its state and gives the next one, step by step.

python examples/lstm.py
"""

from dataclasses import dataclass

import numpy as np

import anyrt as trt

GATES = 4  # input, forget, cell, output, as PyTorch orders them
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """Sequences at a time, numbers of a step, numbers of the state."""

    batch: int = 2
    input: int = 48
    hidden: int = 64


def random_weights(size: Size, seed: int = 0) -> Weights:
    """Every weight by its name in PyTorch's LSTMCell."""
    random = np.random.default_rng(seed)
    shapes = {
        "weight_ih": (GATES * size.hidden, size.input),
        "weight_hh": (GATES * size.hidden, size.hidden),
        "bias_ih": (GATES * size.hidden,),
        "bias_hh": (GATES * size.hidden,),
    }
    most = size.hidden**-0.5
    return {name: random.uniform(-most, most, shape).astype(np.float32) for name, shape in shapes.items()}


def describe(network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
    """From "x", "h" and "c" to "next_h" and "next_c"."""
    op, function, matrix = trt.ElementWiseOperation, trt.ActivationType, trt.MatrixOperation

    def both(a: trt.ITensor, b: trt.ITensor, how: trt.ElementWiseOperation) -> trt.ITensor:
        return network.add_elementwise(a, b, how).get_output(0)

    def act(x: trt.ITensor, how: trt.ActivationType) -> trt.ITensor:
        return network.add_activation(x, how).get_output(0)

    def dense(x: trt.ITensor, part: str) -> trt.ITensor:
        kernel, bias = weights[f"weight_{part}"], weights[f"bias_{part}"]
        right = network.add_constant(kernel.shape, kernel).get_output(0)
        product = network.add_matrix_multiply(x, matrix.NONE, right, matrix.TRANSPOSE).get_output(0)
        return both(product, network.add_constant((1, bias.size), bias).get_output(0), op.SUM)

    def gate(x: trt.ITensor, number: int) -> trt.ITensor:
        start, shape = (0, number * size.hidden), (size.batch, size.hidden)
        return network.add_slice(x, start, shape, (1, 1)).get_output(0)

    x = network.add_input("x", trt.float32, (size.batch, size.input))
    h, c = (network.add_input(name, trt.float32, (size.batch, size.hidden)) for name in "hc")
    gates = both(dense(x, "ih"), dense(h, "hh"), op.SUM)
    enter, keep, leave = (act(gate(gates, number), function.SIGMOID) for number in (0, 1, 3))
    new = act(gate(gates, 2), function.TANH)
    next_c = both(both(keep, c, op.PROD), both(enter, new, op.PROD), op.SUM)
    next_h = both(leave, act(next_c, function.TANH), op.PROD)
    for name, tensor in (("next_h", next_h), ("next_c", next_c)):
        tensor.name = name
        network.mark_output(tensor)


def build(size: Size, weights: Weights) -> trt.ICudaEngine:
    """The engine."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network()
    describe(network, size, weights)
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def follow(engine: trt.ICudaEngine, size: Size, sequence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The state after a sequence of shape (steps, batch, input), from a state of zeros."""
    h, c = (np.zeros((size.batch, size.hidden), np.float32) for _ in range(2))
    for x in sequence:
        state = engine.run(x=x, h=h, c=c)
        h, c = state["next_h"], state["next_c"]
    return h, c


def main() -> None:
    """A sequence of noise."""
    size = Size()
    engine = build(size, random_weights(size))
    sequence = np.random.default_rng(1).standard_normal((10, size.batch, size.input), np.float32)
    h, c = follow(engine, size, sequence)
    print("after", len(sequence), "steps: h", h.shape, "largest", round(float(np.abs(h).max()), 2))
    print("c", c.shape, "largest", round(float(np.abs(c).max()), 2))


if __name__ == "__main__":
    main()
