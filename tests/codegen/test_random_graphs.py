"""Random graphs: native code agrees with the interpreter, kernel by kernel and as a whole. The text of each
kernel parses back to it.

ANYRT_FUZZ=2000 tries 2000 new graphs instead of the few fixed ones.
"""

from dataclasses import dataclass

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from anyrt.backends.cpu.processors import Level
from anyrt.compiler.bounds import differing
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.compiler.verify import random_inputs, reference
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.counted import computed_sizes
from anyrt.passes import PASSES, passes_for
from anyrt.schedule.cost import Sizes
from anyrt.schedule.ports import port_names
from benchmarks.random_graphs import filtered_case, random_case
from tests import native
from tests.native import load, verify
from tests.networks import assert_readable
from tests.sampling import FUZZ, tries
from tests.targets import choose

LEVELS = [None, *(level.value for level in (Level.AVX2, Level.SSE2))]
NARROW = frozenset(t for t in DataType if is_float(t)) - {DataType.FLOAT}


@dataclass
class Drawn:
    """Random choices drawn by hypothesis."""

    draw: object

    def pick(self, *items):
        return self.draw(st.sampled_from(items))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def flag(self):
        return self.draw(st.booleans())

    def order(self, items):
        return self.draw(st.permutations(items))


@st.composite
def cases(draw):
    return random_case(Drawn(draw))


def whole_run(loaded, sizes, original):
    """For each output, the elements that differ from the interpreter's result for the graph before all
    passes, if all kernels run in sequence; none if the number of elements is not certain."""
    lowered = loaded.lowered
    trial, feeds = Trial(loaded, sizes), random_inputs(lowered.graph, sizes)
    buffers = {b.name: b for b in lowered.module.places}
    for name, value in lowered.graph.inputs:
        if f"in_{name}" in buffers:
            trial.write(buffers[f"in_{name}"], feeds[name], value.dtype)
    trial.run()
    assert not trial.overrun()
    held = {value: feeds[name] for name, value in original.inputs}
    for sym, value in computed_sizes(original):
        number = reference(value, held, sizes, NARROW)
        if not number.exact:
            return {}
        sizes = {**sizes, sym.name: int(number.array)}
    ports = dict(
        zip((n for n, _ in original.outputs), port_names(original)[len(original.inputs) :], strict=True)
    )
    return {
        name: int(
            differing(
                got(trial, buffers, ports[name], v, sizes), reference(v, held, sizes, NARROW), v.dtype
            ).sum()
        )
        for name, v in original.outputs
    }


def got(trial, buffers, port, value, sizes):
    shape = tuple(evaluate(d, sizes) for d in value.shape)
    return trial.read(buffers[port], value.dtype, shape)


LIMITS = settings(
    max_examples=tries(8),
    derandomize=FUZZ <= 1,
    print_blob=FUZZ > 1,
    suppress_health_check=list(HealthCheck),
)


@LIMITS
@given(cases(), st.sampled_from(LEVELS), st.booleans(), st.booleans())
def test_native_code_agrees_with_the_interpreter(case, level, optimise, checked):
    assume(case.sizes)
    graph = case.graph
    for step in PASSES if optimise else ():
        graph = step.run(graph)
    assert_agrees(case, graph, level, checked)


@st.composite
def filtered(draw):
    return filtered_case(Drawn(draw))


@settings(LIMITS, max_examples=tries(2))
@given(filtered(), st.sampled_from(LEVELS), st.sampled_from([2, 4]))
def test_windows_that_take_fewer_products_agree_with_their_sums(case, level, tile):
    assume(case.sizes)
    graph = case.graph
    for step in passes_for(REFERENCE, (tile,), True):
        graph = step.run(graph)
    assert_agrees(case, graph, level)


def assert_agrees(case, graph, level, checked=False):
    """Check that the graph built from the case's agrees with the interpreter, kernel by kernel and as a
    whole."""
    lowered = native.lower(graph, constant_offsets(graph), Sizes(case.sizes[0]), checked=checked)
    for kernel in lowered.module.distinct:
        assert_readable(kernel)
    target = choose(level)
    assert [str(m) for m in verify(lowered, target, case.sizes)] == []
    for sizes in case.sizes:
        assert not any(whole_run(load(lowered, target), sizes, case.graph).values()), sizes
