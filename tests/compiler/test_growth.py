"""The cost of a build grows at most linearly with the network. The tests use no clock; they count the
compiler's work."""

import re
import sys
import threading
from dataclasses import astuple, dataclass

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.building.freeze import freeze
from anyrt.backends.cpu.processors import Level
from anyrt.compiler.request import Settings
from anyrt.compiler.trial import constant_offsets
from anyrt.passes import PASSES
from anyrt.schedule.cost import Sizes
from benchmarks import networks
from benchmarks.builds import ROWS, Kind
from tests import native
from tests.networks import assert_readable
from tests.targets import forced, host

# Initial numbers of blocks or layers: few enough to be quick, enough that the first ones are a small part.
KINDS = {
    "residual": 6,
    "gelu": 6,
    "normalizations": 12,
    "linear": 5,
    "cubic": 4,
    "mixed": 50,
    "varied": 50,
}
LONG = 600  # layers of a long chain
SLACK = 1.25  # the first blocks may be fused with the input, but not those after them


@dataclass(frozen=True)
class Counts:
    """The compiler's work; `kernels` include rejected ones; `calls` are those of one inference."""

    kernels: int
    calls: int
    text: int
    instructions: int


def counts(lowered):
    """The only function that knows how to count the compiler's work."""
    text = native.text(lowered, forced(Level.AVX2))
    instructions = re.findall(r"^  \S", text, re.MULTILINE)
    kernels = sum(schedule.created for schedule in lowered.schedules)
    return Counts(kernels, len(lowered.module.calls), len(text), len(instructions))


def lowered(kind, size):
    network = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_network()
    network.mark_output(getattr(networks, kind)(network, size))
    return lower(network)


def lower(network):
    graph = freeze(network, [], Settings()).graph
    for step in PASSES:
        graph = step.run(graph)
    return native.lower(graph, constant_offsets(graph), Sizes({}))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
def test_twice_the_network_is_about_twice_the_work(kind):
    once, twice = (astuple(counts(lowered(kind, n * KINDS[kind]))) for n in (1, 2))
    ratios = [b / a for a, b in zip(once, twice, strict=True)]
    assert max(ratios) <= 2 * SLACK, (once, twice)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kernel_prints_to_text_that_parses_back(kind):
    for kernel in lowered(kind, 3).module.distinct:
        assert_readable(kernel)


def test_a_long_chain_is_about_ten_times_the_work_of_a_tenth():
    tenth, whole = (astuple(counts(lowered("mixed", n))) for n in (LONG // 10, LONG))
    ratios = [b / a for a, b in zip(tenth, whole, strict=True)]
    assert max(ratios) <= 10 * SLACK, (tenth, whole)


class Pieces(dict):
    """Compiled pieces by name."""

    get_bytes = dict.get

    def put_bytes(self, key, parts):
        self[key] = b"".join(map(bytes, parts))
        return True


def chain(changed=None):
    """Twelve functions, each followed by a normalisation; one may have another slope."""
    network = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_network()
    x = network.add_input("x", trt.float32, (1, 8, 40))
    for n in range(12):
        layer = network.add_activation(x, trt.ActivationType.LEAKY_RELU)
        layer.alpha = 0.7 if n == changed else 0.1
        ones = network.add_constant((1, 8, 1), trt.Weights(np.ones(8, np.float32))).get_output(0)
        x = network.add_normalization(layer.get_output(0), ones, ones, 1 << 2).get_output(0)
    network.mark_output(x)
    return lower(network)


def test_a_changed_layer_compiles_one_kernel():
    pieces = Pieces()
    native.compile_lowered(chain(), host(), pieces)
    known = len(pieces)
    native.compile_lowered(chain(), host(), pieces)
    assert len(pieces) == known
    native.compile_lowered(chain(changed=5), host(), pieces)
    assert len(pieces) == known + 1


def test_the_kinds_are_those_that_the_benchmark_builds():
    assert {r.network for r in ROWS if r.kind is Kind.COLD} == set(KINDS)


def nested_branches(network, depth):
    """Nested branches, each with a layer on both sides."""
    tensor, flag = network.add_input("x", trt.float32, (4,)), network.add_input("flag", trt.bool, ())
    sides = list[tuple[object, object]]()
    for _ in range(depth):
        choice = network.add_if_conditional()
        choice.set_condition(flag)
        sides.append((choice, choice.add_input(tensor).get_output(0)))
        tensor = network.add_unary(sides[-1][1], trt.UnaryOperation.ABS).get_output(0)
    for choice, inner in reversed(sides):
        other = network.add_unary(inner, trt.UnaryOperation.EXP).get_output(0)
        tensor = choice.add_output(tensor, other).get_output(0)
    return tensor


def nested_loops(network, depth):
    """Nested loops of one iteration each."""
    tensor, states = network.add_input("x", trt.float32, (4,)), list[object]()
    one = network.add_constant((), np.ones((), np.int32)).get_output(0)
    for _ in range(depth):
        loop = network.add_loop()
        loop.add_trip_limit(one, trt.TripLimit.COUNT)
        states.append((loop, loop.add_recurrence(tensor)))
        tensor = network.add_unary(states[-1][1].get_output(0), trt.UnaryOperation.ABS).get_output(0)
    for loop, state in reversed(states):
        state.set_input(1, tensor)
        tensor = loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE, 0).get_output(0)
    return tensor


def calls_of_a_build(kind, depth):
    """The number of function calls of a whole build, on all threads."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, result = builder.create_network(), list[None]()
    network.mark_output(kind(network, depth))
    count = lambda frame, event, arg: result.append(None) if event == "call" else None  # noqa: E731
    try:
        threading.setprofile(count)
        sys.setprofile(count)
        assert builder.build_serialized_network(network, builder.create_builder_config()) is not None
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len(result)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("depth", [25, 50])
@pytest.mark.parametrize("kind", [nested_branches, nested_loops], ids=lambda kind: kind.__name__)
def test_four_times_the_depth_is_about_four_times_the_work(kind, depth, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    once, more = (calls_of_a_build(kind, n * depth) for n in (1, 4))
    assert more <= 4 * SLACK * once
