"""Random chains of layers of half types give the same bits, whichever tensors are marked, with verification
and with threads, and the same as single layers run one after the other."""

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt

STRONG = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
A, E, R, U = trt.ActivationType, trt.ElementWiseOperation, trt.ReduceOperation, trt.UnaryOperation
NONE = trt.MatrixOperation.NONE
TYPES = {trt.float16: np.float16, trt.bfloat16: ml_dtypes.bfloat16}
SHAPES = [(5, 37), (3, 4, 64), (64, 130)]
SEEDS = range(48)
OTHERS = {
    "outputs": {"marks": "outputs"},
    "debug": {"marks": "debug"},
    "verified": {"verify": "full"},
    "one thread": {"num_threads": 1},
    "two threads": {"num_threads": 2},
    "level 0": {"builder_optimization_level": 0},
}


def chain(log, seed, marks="", apart=False, **settings):
    """A random chain of layers for the seed; `apart`: each layer reads inputs of the network."""
    rng, builder = np.random.default_rng(seed), trt.Builder(log)
    network, config = builder.create_network(STRONG), builder.create_builder_config()
    dtype, shape = [*TYPES][seed % 2], SHAPES[seed % 3]
    results = [network.add_input("x", dtype, shape)]
    for _ in range(3 + seed % 6):
        results.append(layer_of(network, results, dtype, rng))
        results[-1].name = f"t{len(results) - 1}"
        if apart:
            network.mark_output(results[-1])
            results[-1] = network.add_input(f"in{len(results) - 1}", dtype, results[-1].shape)
    if not apart:
        network.mark_output(results[-1])
    for tensor in results[1:-1]:
        if marks == "outputs":
            network.mark_output(tensor)
        if marks == "debug":
            network.mark_debug(tensor)
    for name, value in settings.items():
        setattr(config, name, value)
    return builder.build_engine_with_config(network, config)


def layer_of(network, result, dtype, rng):
    """One more layer, which reads the last tensor and perhaps an earlier one."""
    x, last = result[-1], len(result[-1].shape) - 1
    kind = KINDS[rng.integers(len(KINDS))]
    match kind:
        case U():
            return network.add_unary(x, kind).get_output(0)
        case A():
            return network.add_activation(x, kind).get_output(0)
        case E():
            other = result[rng.integers(len(result))]
            return network.add_elementwise(x, other, kind).get_output(0)
        case R():
            folded = network.add_reduce(x, kind, 1 << last, True).get_output(0)
            return network.add_elementwise(x, folded, E.SUB).get_output(0)
    return kind(network, x, dtype, rng)


def constant(network, dtype, rng, shape):
    values = rng.standard_normal(shape).astype(np.float32)
    return network.add_cast(network.add_constant(shape, values).get_output(0), dtype).get_output(0)


def product(network, x, dtype, rng):
    size = x.shape[-1]
    right = constant(network, dtype, rng, (1,) * (len(x.shape) - 2) + (size, size))
    return network.add_matrix_multiply(x, NONE, right, NONE).get_output(0)


def bias(network, x, dtype, rng):
    row = constant(network, dtype, rng, (1,) * (len(x.shape) - 1) + (x.shape[-1],))
    return network.add_elementwise(x, row, E.SUM).get_output(0)


def softmax(network, x, dtype, rng):
    layer = network.add_softmax(x)
    layer.axes = 1 << len(x.shape) - 1
    return layer.get_output(0)


def normalised(network, x, dtype, rng):
    shape = (1,) * (len(x.shape) - 1) + (x.shape[-1],)
    scale, shift = (constant(network, dtype, rng, shape) for _ in range(2))
    return network.add_normalization(x, scale, shift, 1 << len(x.shape) - 1).get_output(0)


def narrowed(network, x, dtype, rng):
    """Cast to the other half type, and back."""
    (other,) = TYPES.keys() - {dtype}
    return network.add_cast(network.add_cast(x, other).get_output(0), dtype).get_output(0)


def coded(network, x, dtype, rng):
    scale = network.add_cast(
        network.add_constant((), np.array(0.03, np.float32)).get_output(0), dtype
    ).get_output(0)
    codes = network.add_quantize(x, scale, trt.int8).get_output(0)
    return network.add_dequantize(codes, scale, dtype).get_output(0)


def turned(network, x, dtype, rng):
    """Transposed, and concatenated with the original."""
    for _ in range(2):
        layer = network.add_shuffle(x)
        layer.first_transpose = (1, 0, *range(2, len(x.shape)))
        x = layer.get_output(0)
    return x


KINDS = [
    *(U.EXP, U.SIN, U.ABS, U.NEG, U.SQRT, U.CEIL, U.ERF, U.RECIP, U.ROUND, U.ATAN),
    *(A.RELU, A.SIGMOID, A.TANH, A.GELU_ERF, A.ELU, A.LEAKY_RELU, A.SELU, A.HARD_SIGMOID),
    *(E.SUM, E.PROD, E.MAX, E.SUB, E.DIV, E.MIN, E.SUM, E.PROD),
    *(R.SUM, R.AVG, R.MAX),
    *(product, bias, softmax, normalised, narrowed, coded, turned, bias, coded),
]


def input_of(seed):
    x = np.random.default_rng(seed + 1).standard_normal(SHAPES[seed % 3]) * 2
    return x.astype([*TYPES.values()][seed % 2])


def last(engine, seed):
    """The last tensor, as bits."""
    result = engine.run(x=input_of(seed))
    return np.asarray(max(result.items(), key=lambda item: int(item[0][1:]))[1]).view(np.uint16)


# One parameter: a sample with every pair of a seed and a setting would be all of them.
@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", [f"{seed} {name}" for seed in SEEDS for name in OTHERS])
def test_a_chain_of_half_types_is_the_same_bit_for_bit(log, case):
    number, name = case.split(maxsplit=1)
    seed, other = int(number), OTHERS[name]
    np.testing.assert_array_equal(last(chain(log, seed, **other), seed), last(chain(log, seed), seed))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_of_half_types_is_what_its_layers_are_on_their_own(log, seed):
    x, chained = input_of(seed), chain(log, seed, marks="outputs").run(x=input_of(seed))
    alone = chain(log, seed, apart=True)
    fed = {f"in{name[1:]}": value for name, value in chained.items() if f"in{name[1:]}" in [*alone]}
    result = alone.run(x=x, **fed)
    for name, value in chained.items():
        np.testing.assert_array_equal(result[name].view(np.uint16), value.view(np.uint16), name)
