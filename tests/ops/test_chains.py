"""Layers one after the other with nothing in some tensor between them: it is read at no address.

ANYRT_FUZZ=1 tries every pair of layers that can follow one another, instead of some for each layer.
"""

import re
from functools import reduce
from itertools import islice, product
from random import Random

import numpy as np
import pytest

from anyrt.compiler import native
from anyrt.compiler.trial import Trial, constant_offsets, load
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import LayerType
from anyrt.ir.interpret import interpret
from anyrt.ops import OPS
from anyrt.ops._cases import differences
from anyrt.ops._chains import chain, joined
from anyrt.passes import PASSES
from anyrt.plan import abi
from anyrt.schedule.cost import Sizes
from anyrt.schedule.ports import port_names
from tests.sampling import FUZZ, sample
from tests.targets import host

# Nothing but constants follows a constant, and no shape is empty.
LAYERS = [op for op in OPS.values() if op.layer not in (LayerType.CONSTANT, LayerType.SHAPE)]
FOLLOWERS = {False: 1, True: 2}  # layers tried behind each one: of static sizes, and of open ones
TRIES = 10_000 if FUZZ else 100
SAMPLE = 5  # triples in each of the tests
# Layers that tell the last place of what they read, as the sign of a zero, or the side of a tie: behind
# another layer they are run, and compared where they are alone (test_native.py).
LAST_PLACE = re.compile(r"bits=True|\bQUANTIZE |DYNAMIC_QUANTIZE ")


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


def wrong(chains):
    """What is wrong with chains, and which they are."""
    run, told = joined(chains), {c.name: c.told for c in chains}
    compared = {c.name for c in chains if not LAST_PLACE.search(c.told)}
    with np.errstate(all="ignore"):
        answers = interpret(run.graph, run.feeds, run.sizes), run_natively(run)
    found = [(line.split(":")[0], line) for answer in answers for line in differences(run, answer)]
    return [(line, told[name]) for name, line in found if name in compared]


@pytest.mark.thirds
@pytest.mark.sampled(99)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("first", LAYERS, ids=lambda op: op.layer.name)
def test_two_layers_around_nothing(first, dynamic):
    others = Random(LAYERS.index(first)).sample(LAYERS, len(LAYERS))
    found = filter(None, (chain((first, second), dynamic, TRIES) for second in others))
    chains = list(islice(found, None if FUZZ else FOLLOWERS[dynamic]))
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
