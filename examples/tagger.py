"""A tagger with random weights: words to vectors, an LSTM or a GRU over the sentence, written with a loop,
and a score for each tag of each word.

python examples/tagger.py
"""

from dataclasses import dataclass

import numpy as np

import anyrt as trt

GATES = {"lstm": 4, "gru": 3}  # ordered as PyTorch orders them: i f g o, and r z n
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """Words of the longest sentence, sentences at a time, words that it knows, numbers of a word and of the
    state, tags."""

    cell: str = "lstm"
    longest: int = 40
    batch: int = 2
    vocabulary: int = 500
    width: int = 64
    hidden: int = 96
    tags: int = 17


def random_weights(size: Size, seed: int = 0) -> Weights:
    """Every weight by its name in PyTorch's Embedding, LSTM or GRU, and Linear."""
    random, rows = np.random.default_rng(seed), GATES[size.cell] * size.hidden
    shapes = {
        "words.weight": (size.vocabulary, size.width),
        "cell.weight_ih_l0": (rows, size.width),
        "cell.weight_hh_l0": (rows, size.hidden),
        "cell.bias_ih_l0": (rows,),
        "cell.bias_hh_l0": (rows,),
        "tags.weight": (size.tags, size.hidden),
        "tags.bias": (size.tags,),
    }
    most = size.hidden**-0.5
    return {name: random.uniform(-most, most, shape).astype(np.float32) for name, shape in shapes.items()}


class Writer:
    """Adds layers to a network, with short names for those that are needed often."""

    def __init__(self, network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
        self.network, self.size, self.weights = network, size, weights

    def constant(self, array: np.ndarray) -> trt.ITensor:
        return self.network.add_constant(array.shape, array).get_output(0)

    def both(self, a: trt.ITensor, b: trt.ITensor, how: trt.ElementWiseOperation) -> trt.ITensor:
        return self.network.add_elementwise(a, b, how).get_output(0)

    def act(self, x: trt.ITensor, how: trt.ActivationType) -> trt.ITensor:
        return self.network.add_activation(x, how).get_output(0)

    def dense(self, x: trt.ITensor, kernel: str, bias: str) -> trt.ITensor:
        plain, turned = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
        rows, columns = self.weights[kernel].shape
        extra = len(x.shape) - 2
        right = self.constant(self.weights[kernel].reshape(*(1,) * extra, rows, columns))
        product = self.network.add_matrix_multiply(x, plain, right, turned).get_output(0)
        added = self.constant(self.weights[bias].reshape(*(1,) * (extra + 1), rows))
        return self.both(product, added, trt.ElementWiseOperation.SUM)

    def part(self, x: trt.ITensor, number: int) -> trt.ITensor:
        shape = (self.size.batch, self.size.hidden)
        return self.network.add_slice(x, (0, number * shape[1]), shape, (1, 1)).get_output(0)

    def lstm(self, x: trt.ITensor, h: trt.ITensor, c: trt.ITensor) -> tuple[trt.ITensor, trt.ITensor]:
        """The next state and cell."""
        op, function = trt.ElementWiseOperation, trt.ActivationType
        gates = self.both(self._of(x, "ih"), self._of(h, "hh"), op.SUM)
        enter, keep, leave = (self.act(self.part(gates, n), function.SIGMOID) for n in (0, 1, 3))
        new = self.act(self.part(gates, 2), function.TANH)
        c = self.both(self.both(keep, c, op.PROD), self.both(enter, new, op.PROD), op.SUM)
        return self.both(leave, self.act(c, function.TANH), op.PROD), c

    def gru(self, x: trt.ITensor, h: trt.ITensor) -> trt.ITensor:
        """The next state: h + (1 - z) · (n - h), with n of x and of r times what h gives."""
        op, function = trt.ElementWiseOperation, trt.ActivationType
        of_x, of_h = self._of(x, "ih"), self._of(h, "hh")
        r, z = (
            self.act(self.both(self.part(of_x, n), self.part(of_h, n), op.SUM), function.SIGMOID)
            for n in (0, 1)
        )
        inner = self.both(r, self.part(of_h, 2), op.PROD)
        new = self.act(self.both(self.part(of_x, 2), inner, op.SUM), function.TANH)
        return self.both(new, self.both(z, self.both(h, new, op.SUB), op.PROD), op.SUM)

    def _of(self, x: trt.ITensor, side: str) -> trt.ITensor:
        return self.dense(x, f"cell.weight_{side}_l0", f"cell.bias_{side}_l0")


def describe(network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
    """From "words", (length, batch), to "scores", (length, batch, tags), and the last state, "state"."""
    w = Writer(network, size, weights)
    words = network.add_input("words", trt.int32, (-1, size.batch))
    vectors = network.add_gather(w.constant(weights["words.weight"]), words, 0).get_output(0)
    sizes = network.add_cast(network.add_shape(words).get_output(0), trt.int32).get_output(0)
    length = network.add_gather(sizes, w.constant(np.array(0, np.int32)), 0).get_output(0)
    zeros = w.constant(np.zeros((size.batch, size.hidden), np.float32))

    loop = network.add_loop()
    loop.name = size.cell
    loop.add_trip_limit(length, trt.TripLimit.COUNT)
    x = loop.add_iterator(vectors).get_output(0)
    state = loop.add_recurrence(zeros)
    if size.cell == "lstm":
        cell = loop.add_recurrence(zeros)
        h, c = w.lstm(x, state.get_output(0), cell.get_output(0))
        cell.set_input(1, c)
    else:
        h = w.gru(x, state.get_output(0))
    state.set_input(1, h)
    every = loop.add_loop_output(h, trt.LoopOutput.CONCATENATE)
    every.set_input(1, length)
    last = loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)

    scores = w.dense(every.get_output(0), "tags.weight", "tags.bias")
    for name, tensor in (("scores", scores), ("state", last)):
        tensor.name = name
        network.mark_output(tensor)


def build(size: Size, weights: Weights) -> trt.ICudaEngine:
    """The engine, for sentences of one word to the longest."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network, config = builder.create_network(), builder.create_builder_config()
    describe(network, size, weights)
    profile = builder.create_optimization_profile()
    profile.set_shape("words", (1, size.batch), (size.longest // 2, size.batch), (size.longest, size.batch))
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def main() -> None:
    """Sentences of noise, of two lengths, through both cells."""
    for name in GATES:
        size = Size(cell=name)
        engine = build(size, random_weights(size))
        for length in (5, 40):
            words = np.random.default_rng(length).integers(0, size.vocabulary, (length, size.batch))
            outputs = engine.run(words=words.astype(np.int32))
            tags = outputs["scores"].argmax(-1)[:, 0]
            print(name, "of", length, "words: tags", *tags[:5], "state", outputs["state"].shape)


if __name__ == "__main__":
    main()
