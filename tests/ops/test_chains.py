"""Chains of layers with an empty tensor inside: no kernel reads at its address.

ANYRT_FUZZ=1 tries every pair of layers that can follow one another, instead of a few for each layer.
"""

import re
from functools import reduce
from itertools import islice, product
from random import Random

import numpy as np
import pytest

from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dtype import bits, cast, is_integer, numpy_dtype
from anyrt.core.enums import DataType, LayerType
from anyrt.ir.interpret import interpret
from anyrt.ops import OPS
from anyrt.ops._cases import differences
from anyrt.ops._chains import Chain, chain, joined
from anyrt.passes import PASSES
from anyrt.plan import abi
from anyrt.prims.build import param
from anyrt.schedule.cost import Sizes
from anyrt.schedule.ports import port_names
from tests import native
from tests.native import load
from tests.sampling import FUZZ, sample
from tests.targets import host

# Only constants follow a constant, and no shape is empty.
LAYERS = [op for op in OPS.values() if op.layer not in (LayerType.CONSTANT, LayerType.SHAPE)]
FOLLOWERS = {False: 1, True: 2}  # layers tried after each one: with static and with dynamic dimensions
TRIES = 10_000 if FUZZ else 100
SAMPLE = 5  # triples in each of the tests
# Layers whose result depends on the last place of their operand: the side of a tie, or the sign of a zero.
# After another layer, their codes may be neighbours of the expected ones in the order of values, and a zero
# may have either sign. All other results must be equal.
LAST_PLACE = re.compile(r"bits=True|\bQUANTIZE |DYNAMIC_QUANTIZE ")
BIT_CAST = re.compile(r"bits=True")


def run_natively(run):
    """The outputs by name; tensors without elements have the address 0."""
    graph = reduce(lambda g, step: step.run(g), PASSES, run.graph)
    lowered = native.lower(graph, constant_offsets(graph), Sizes(run.sizes))
    trial, buffers = Trial(load(lowered, host()), run.sizes), {b.name: b for b in lowered.module.places}
    ports, arrays = port_names(graph), [*run.feeds.values(), *run.expected]
    for n, array in enumerate(arrays):
        if array.size == 0:
            trial.args[abi.FIRST_BINDING + n] = 0
    for (name, value), port in zip(graph.inputs, ports, strict=False):
        if port in buffers and run.feeds[name].size:
            trial.write(buffers[port], run.feeds[name], value.dtype)
    trial.run()
    assert trial.overrun() == ()
    outputs = zip(graph.outputs, ports[len(graph.inputs) :], run.expected, strict=False)
    return {
        name: trial.read(buffers[port], v.dtype, e.shape)
        if e.size
        else np.zeros(e.shape, numpy_dtype(v.dtype))
        for (name, v), port, e in outputs
    }


def places(codes, dtype):
    """Codes numbered in the order of their values: neighbours differ by 1, both zeros are equal,
    NaN is far."""
    if is_integer(dtype):
        return codes.astype(np.int64)
    sign = 1 << bits(dtype) - 1
    size = codes.view(np.uint8).astype(np.int64) & sign - 1
    signed = np.where(codes.view(np.uint8) & sign, -size, size)
    return np.where(np.isnan(codes.astype(np.float32)), 1 << 20, signed)


def is_last_place(chain, got):
    """Whether results differ only within the freedom of LAST_PLACE."""
    dtype = chain.y.dtype
    if not LAST_PLACE.search(chain.layers) or not (is_integer(dtype) or bits(dtype) <= 8):
        return False
    expected = cast(chain.expected, dtype)
    if got.shape != expected.shape:
        return False
    zero = (0, 1 << bits(dtype) - 1, -(1 << bits(dtype) - 1)) if BIT_CAST.search(chain.layers) else ()
    either = np.isin(got.astype(object), zero) & np.isin(expected.astype(object), zero)
    return bool((either | (np.abs(places(got, dtype) - places(expected, dtype)) <= 1)).all())


def wrong(chains):
    """The chains that fail, with their errors."""
    run, known = joined(chains), {c.name: c for c in chains}
    with np.errstate(all="ignore"):
        answers = interpret(run.graph, run.feeds, run.sizes), run_natively(run)
    results = [(answer, line) for answer in answers for line in differences(run, answer)]
    named = [(answer, line, known[line.split(":")[0]]) for answer, line in results]
    return [(line, c.layers) for answer, line, c in named if not is_last_place(c, answer[c.name])]


def behind(name, attributes, dtype, expected):
    """A chain that ends in such a layer."""
    x = param("x", (len(expected),), dtype)
    return Chain("x", x, x, (), expected, expected, f"['{name} Attrs({attributes})']", 0.0)


@pytest.mark.parametrize(
    ("name", "attributes", "dtype", "expected", "got", "fine"),
    [
        ("QUANTIZE", "", DataType.INT8, [3, -7], [4, -8], True),
        ("QUANTIZE", "", DataType.INT8, [3, -7], [5, -7], False),
        ("QUANTIZE", "", DataType.INT8, [3, -128], [3, 0], False),
        ("QUANTIZE", "", DataType.FP8, [448, 16, 2.0**-9], [416, 18, -0.0], True),
        ("QUANTIZE", "", DataType.FP8, [448, 16], [448, 20], False),
        ("QUANTIZE", "", DataType.FP8, [448], [np.nan], False),
        ("QUANTIZE", "", DataType.FP4, [6, 0], [4, -0.5], True),
        ("CAST", "bits=True", DataType.INT32, [0, 5], [-(2**31), 5], True),
        ("CAST", "bits=True", DataType.UINT16, [2**15], [0], True),
        ("CAST", "bits=True", DataType.INT32, [7], [-(2**31)], False),
        ("CAST", "bits=False", DataType.INT32, [7], [8], False),
    ],
)
def test_layers_depending_on_the_last_place_may_give_neighbours(name, attributes, dtype, expected, got, fine):
    known, actual = (np.array(x).astype(numpy_dtype(dtype)) for x in (expected, got))
    assert is_last_place(behind(name, attributes, dtype, known), actual) == fine


@pytest.mark.thirds
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "case", [f"{op.layer.name}-{sizes}" for op in LAYERS for sizes in ("static", "dynamic")]
)
def test_two_layers_around_nothing(case):
    name, sizes = case.split("-")
    first, dynamic = next(op for op in LAYERS if op.layer.name == name), sizes == "dynamic"
    others = Random(LAYERS.index(first)).sample(LAYERS, len(LAYERS))
    result = filter(None, (chain((first, second), dynamic, TRIES) for second in others))
    chains = list(islice(result, None if FUZZ else FOLLOWERS[dynamic]))
    assert len(chains) >= FOLLOWERS[dynamic], "others can follow this one"
    assert wrong(chains) == []


@pytest.mark.rare
@pytest.mark.thirds
@pytest.mark.sampled(9)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("part", sample(range(5), 2))
def test_three_layers_around_nothing(part, dynamic):
    triples = Random(part).sample(list(product(LAYERS, repeat=3)), 10 * SAMPLE)
    chains = list(islice(filter(None, (chain(ops, dynamic, TRIES) for ops in triples)), SAMPLE))
    assert len(chains) == SAMPLE
    assert wrong(chains) == []
