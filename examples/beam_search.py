"""Beam search over a small recurrent language model with random weights: each step scores every word behind
every beam, keeps the best of all, and takes their states along.

python examples/beam_search.py
"""

from dataclasses import dataclass

import numpy as np

import anyrt as trt

START, END = 0, 1  # words that begin and end a sentence
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """Sentences at a time, beams of each, words that it knows, numbers of a word and of the state."""

    batch: int = 2
    beams: int = 4
    vocabulary: int = 1000
    width: int = 48
    hidden: int = 96


def random_weights(size: Size, seed: int = 0) -> Weights:
    """Every weight by its name."""
    random = np.random.default_rng(seed)
    shapes = {
        "words": (size.vocabulary, size.width),
        "of_word": (size.width, size.hidden),
        "of_state": (size.hidden, size.hidden),
        "scores": (size.hidden, size.vocabulary),
    }
    return {n: random.standard_normal(s).astype(np.float32) * 2 / s[0] ** 0.5 for n, s in shapes.items()}


class Writer:
    """Adds layers to a network, with short names for those that are needed often."""

    def __init__(self, network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
        self.network, self.size, self.weights = network, size, weights

    def constant(self, array: np.ndarray) -> trt.ITensor:
        return self.network.add_constant(array.shape, array).get_output(0)

    def both(self, a: trt.ITensor, b: trt.ITensor, how: trt.ElementWiseOperation) -> trt.ITensor:
        return self.network.add_elementwise(a, b, how).get_output(0)

    def dense(self, x: trt.ITensor, name: str) -> trt.ITensor:
        plain, kernel = trt.MatrixOperation.NONE, self.constant(self.weights[name][None])
        return self.network.add_matrix_multiply(x, plain, kernel, plain).get_output(0)

    def shaped(self, x: trt.ITensor, *shape: int) -> trt.ITensor:
        layer = self.network.add_shuffle(x)
        layer.reshape_dims = shape
        return layer.get_output(0)

    def next_state(self, words: trt.ITensor, states: trt.ITensor) -> trt.ITensor:
        """What the model remembers behind these words."""
        vectors = self.network.add_gather(self.constant(self.weights["words"]), words, 0).get_output(0)
        sums = (self.dense(vectors, "of_word"), self.dense(states, "of_state"))
        both = self.both(*sums, trt.ElementWiseOperation.SUM)
        return self.network.add_activation(both, trt.ActivationType.TANH).get_output(0)

    def log_softmax(self, x: trt.ITensor) -> trt.ITensor:
        """Logarithms of probabilities, along the last axis."""
        op, fold = trt.ElementWiseOperation, trt.ReduceOperation
        last = 1 << len(x.shape) - 1
        rest = self.both(x, self.network.add_reduce(x, fold.MAX, last, True).get_output(0), op.SUB)
        powers = self.network.add_unary(rest, trt.UnaryOperation.EXP).get_output(0)
        total = self.network.add_reduce(powers, fold.SUM, last, True).get_output(0)
        return self.both(rest, self.network.add_unary(total, trt.UnaryOperation.LOG).get_output(0), op.SUB)

    def of_ended(self, words: trt.ITensor, scores: trt.ITensor) -> trt.ITensor:
        """The scores, but for beams that have ended: these go on with END alone, which costs nothing."""
        size, op = self.size, trt.ElementWiseOperation
        ended = self.both(words, self.constant(np.array([[END]], np.int32)), op.EQUAL)
        only_end = np.where(np.arange(size.vocabulary) == END, 0, -np.inf).astype(np.float32)
        ended, stay = self.shaped(ended, size.batch, size.beams, 1), self.constant(only_end[None, None])
        return self.network.add_select(ended, stay, scores).get_output(0)


def describe(network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
    """Add one step: from the last words, scores and states of the beams to the next ones and their parent
    beams."""
    w, op = Writer(network, size, weights), trt.ElementWiseOperation
    words = network.add_input("words", trt.int32, (size.batch, size.beams))
    scores = network.add_input("scores", trt.float32, (size.batch, size.beams))
    states = network.add_input("states", trt.float32, (size.batch, size.beams, size.hidden))

    states = w.next_state(words, states)
    behind = w.of_ended(words, w.log_softmax(w.dense(states, "scores")))
    sums = w.both(w.shaped(scores, size.batch, size.beams, 1), behind, op.SUM)
    flat = w.shaped(sums, size.batch, size.beams * size.vocabulary)
    best = network.add_topk(flat, trt.TopKOperation.MAX, size.beams, 1 << 1)

    many = w.constant(np.array([[size.vocabulary]], np.int32))
    parents = w.both(best.get_output(1), many, op.FLOOR_DIV)
    chosen = w.both(best.get_output(1), w.both(parents, many, op.PROD), op.SUB)
    taken = network.add_gather(states, parents, 1)
    taken.num_elementwise_dims = 1
    outputs = (chosen, parents, best.get_output(0), taken.get_output(0))
    for name, tensor in zip(("chosen", "parents", "totals", "taken"), outputs, strict=True):
        tensor.name = name
        network.mark_output(tensor)


def build(size: Size, weights: Weights) -> trt.ICudaEngine:
    """The engine of one step."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network()
    describe(network, size, weights)
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def search(engine: trt.ICudaEngine, size: Size, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The best sentences of `length` words, (batch, beams, length), and their scores."""
    words = np.full((size.batch, size.beams), START, np.int32)
    scores = np.full((size.batch, size.beams), -np.inf, np.float32)
    scores[:, 0] = 0  # all beams begin alike: one of them is enough
    states = np.zeros((size.batch, size.beams, size.hidden), np.float32)
    states[:, :, 0] = np.arange(size.batch)[:, None]  # what the sentences are about
    sentences = np.empty((size.batch, size.beams, 0), np.int32)
    for _ in range(length):
        step = engine.run(words=words, scores=scores, states=states)
        words, scores, states = step["chosen"], step["totals"], step["taken"]
        before = np.take_along_axis(sentences, step["parents"][:, :, None], 1)
        sentences = np.concatenate([before, words[:, :, None]], 2)
    return sentences, scores


def main() -> None:
    """The best sentences of ten words."""
    size = Size()
    sentences, scores = search(build(size, random_weights(size)), size, 10)
    for sentence, score in zip(sentences[:, 0], scores[:, 0], strict=True):
        print(f"{score:8.3f}:", *sentence)


if __name__ == "__main__":
    main()
