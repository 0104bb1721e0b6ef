"""A decoder with random weights writes 100 tokens in one call of its engine: a loop in the network feeds each
token back, and keeps the keys and values of all tokens before it in caches.

python examples/decoder.py
"""

from dataclasses import dataclass

import numpy as np

import anyrt as trt

Weights = dict[str, np.ndarray]
EPSILON = 1e-5
OP = trt.ElementWiseOperation


@dataclass(frozen=True)
class Size:
    """Layers, heads, numbers of a head and of the hidden layer, tokens that it knows and that it writes."""

    layers: int = 2
    heads: int = 4
    head: int = 16
    hidden: int = 256
    vocabulary: int = 200
    length: int = 100

    @property
    def width(self) -> int:
        return self.heads * self.head


def random_weights(size: Size, seed: int = 0) -> Weights:
    """Every weight by its name."""
    random, width = np.random.default_rng(seed), size.width
    shapes = {
        "tokens": (size.vocabulary, width),
        "positions": (size.length, width),
        "last": (width, size.vocabulary),
    }
    for layer in range(size.layers):
        names = {f"{layer}.{name}": (width, width) for name in ("query", "key", "value", "mix")}
        shapes |= {**names, f"{layer}.up": (width, size.hidden), f"{layer}.down": (size.hidden, width)}
    return {
        name: (random.standard_normal(shape) * 2 * shape[0] ** -0.5).astype(np.float32)
        for name, shape in shapes.items()
    }


class Writer:
    """Adds the layers of a turn."""

    def __init__(self, network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
        self.network, self.size, self.weights = network, size, weights
        self.loop = network.add_loop()
        self.loop.name = "write"

    def constant(self, array: np.ndarray) -> trt.ITensor:
        return self.network.add_constant(array.shape, array).get_output(0)

    def number(self, value: int) -> trt.ITensor:
        return self.constant(np.array(value, np.int32))

    def op(self, a: trt.ITensor, b: trt.ITensor, how: trt.ElementWiseOperation) -> trt.ITensor:
        return self.network.add_elementwise(a, b, how).get_output(0)

    def shaped(self, x: trt.ITensor, *shape: int) -> trt.ITensor:
        layer = self.network.add_shuffle(x)
        layer.reshape_dims = shape
        return layer.get_output(0)

    def product(self, x: trt.ITensor, name: str) -> trt.ITensor:
        plain = trt.MatrixOperation.NONE
        return self.network.add_matrix_multiply(
            x, plain, self.constant(self.weights[name]), plain
        ).get_output(0)

    def normalized(self, x: trt.ITensor) -> trt.ITensor:
        ones, zeros = (self.constant(np.full((1, self.size.width), n, np.float32)) for n in (1, 0))
        layer = self.network.add_normalization_v2(x, ones, zeros, 1 << 1)
        layer.epsilon = EPSILON
        return layer.get_output(0)

    def row(self, table: str, index: trt.ITensor) -> trt.ITensor:
        gathered = self.network.add_gather(self.constant(self.weights[table]), index, 0).get_output(0)
        return self.shaped(gathered, 1, self.size.width)

    def cached(self, new: trt.ITensor, here: trt.ITensor) -> trt.ITensor:
        """The vectors of all tokens so far, of each head: of this one what is new, `here`."""
        shape = (self.size.heads, self.size.length, self.size.head)
        cache = self.loop.add_recurrence(self.constant(np.zeros(shape, np.float32)))
        new = self.shaped(new, self.size.heads, 1, self.size.head)
        updated = self.network.add_select(here, new, cache.get_output(0)).get_output(0)
        cache.set_input(1, updated)
        return updated

    def attended(self, x: trt.ITensor, layer: int, here: trt.ITensor, later: trt.ITensor) -> trt.ITensor:
        """The token's query over the keys of all tokens so far."""
        size, plain, turned = self.size, trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
        query = self.shaped(self.product(x, f"{layer}.query"), size.heads, 1, size.head)
        keys, values = (self.cached(self.product(x, f"{layer}.{n}"), here) for n in ("key", "value"))
        scores = self.network.add_matrix_multiply(query, plain, keys, turned).get_output(0)
        scores = self.op(scores, self.constant(np.full((1, 1, 1), size.head**-0.5, np.float32)), OP.PROD)
        softmax = self.network.add_softmax(self.op(scores, later, OP.SUM))
        softmax.axes = 1 << 2
        mixed = self.network.add_matrix_multiply(softmax.get_output(0), plain, values, plain).get_output(0)
        return self.product(self.shaped(mixed, 1, size.width), f"{layer}.mix")

    def masks(self, turn: trt.ITensor) -> tuple[trt.ITensor, trt.ITensor]:
        """Where this turn writes, (1, length, 1), and what hides the positions behind it, (1, 1, length)."""
        length = self.size.length
        positions = np.arange(length, dtype=np.int32)
        at = self.shaped(turn, 1, 1, 1)
        here = self.op(self.constant(positions.reshape(1, length, 1)), at, OP.EQUAL)
        behind = self.op(self.constant(positions.reshape(1, 1, length)), at, OP.GREATER)
        hidden, seen = (self.constant(np.full((1, 1, 1), n, np.float32)) for n in (-1e9, 0))
        return here, self.network.add_select(behind, hidden, seen).get_output(0)

    def turn(self, token: trt.ITensor, turn: trt.ITensor) -> trt.ITensor:
        """The token that follows."""
        here, later = self.masks(turn)
        x = self.op(self.row("tokens", token), self.row("positions", turn), OP.SUM)
        for layer in range(self.size.layers):
            x = self.op(x, self.attended(self.normalized(x), layer, here, later), OP.SUM)
            inner = self.product(self.normalized(x), f"{layer}.up")
            inner = self.network.add_activation(inner, trt.ActivationType.GELU_ERF).get_output(0)
            x = self.op(x, self.product(inner, f"{layer}.down"), OP.SUM)
        scores = self.product(self.normalized(x), "last")
        best = self.network.add_topk(scores, trt.TopKOperation.MAX, 1, 1 << 1).get_output(1)
        return self.shaped(best)


def describe(network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
    """From "first", a token, to "written", as many as the length."""
    first = network.add_input("first", trt.int32, (1,))
    w = Writer(network, size, weights)
    w.loop.add_trip_limit(w.number(size.length), trt.TripLimit.COUNT)
    token, turn = w.loop.add_recurrence(w.shaped(first)), w.loop.add_recurrence(w.number(0))
    following = w.turn(token.get_output(0), turn.get_output(0))
    token.set_input(1, following)
    turn.set_input(1, w.op(turn.get_output(0), w.number(1), OP.SUM))
    written = w.loop.add_loop_output(following, trt.LoopOutput.CONCATENATE)
    written.set_input(1, w.number(size.length))
    written.get_output(0).name = "written"
    network.mark_output(written.get_output(0))


def build(size: Size, weights: Weights) -> trt.ICudaEngine:
    """The engine."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network()
    describe(network, size, weights)
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def main() -> None:
    """Two first tokens, and what follows them."""
    size = Size()
    engine = build(size, random_weights(size))
    for first in (7, 11):
        written = engine.run(first=np.array([first], np.int32))["written"]
        print(first, "->", *written[:12], "...", len(written), "tokens")


if __name__ == "__main__":
    main()
