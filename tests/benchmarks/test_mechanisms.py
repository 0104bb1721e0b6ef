"""Mechanisms and attempts: each names a case and its effect there."""

import json
from dataclasses import replace
from functools import cache

import pytest

from anyrt.backends.cpu.processors import choose
from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.backends.cpu.target import CpuTarget
from anyrt.compiler.request import BuildRequest, Point
from anyrt.compiler.trial import constant_offsets
from anyrt.core.machine import REFERENCE, parse_machine
from anyrt.ir.kerneltext import print_kernels
from anyrt.passes import PASSES
from anyrt.schedule.cost import Sizes
from benchmarks.attempts import ATTEMPTS
from benchmarks.layers.cases import CASES
from benchmarks.layers.report import mechanisms
from benchmarks.machine import Machine
from benchmarks.mechanisms import MECHANISMS, Description, Mechanism, request
from benchmarks.record import Gain, Results, read, write
from tests import native

EVERY = (*MECHANISMS, *ATTEMPTS)
AVX512 = choose("avx512")
TARGET = CpuTarget(replace(AVX512, lacks=AVX512.lacks - {"has_bf16"}))  # for cases that need rare features


def text(asked: BuildRequest, description: Description) -> tuple[str, str]:
    """The text of a case's kernels, and their LLVM text."""
    graph = asked.graph
    for step in PASSES if asked.passes is None else asked.passes:
        graph = step.run(graph)
    strategies = asked.strategies or STRATEGIES
    sizes, machine = (
        Sizes(asked.sizes(0, Point.OPT)),
        parse_machine(json.dumps(description), REFERENCE, "a test"),
    )
    lowered = native.lower(graph, constant_offsets(graph), sizes, machine=machine, strategies=strategies)
    return print_kernels(lowered.module.kernels), native.text(lowered, TARGET)


@cache
def usual(case: str, engine: str) -> tuple[str, str]:
    return text(request(Mechanism("as it is", "", case, {}, engine=engine), 2), {})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", EVERY, ids=lambda m: f"{m.name}, {m.case}")
def test_a_mechanism_makes_a_difference(mechanism):
    assert mechanism.case in {c.name for c in CASES}
    assert text(mechanism.request(2), mechanism.machine) != usual(mechanism.case, mechanism.engine)


def test_adopted_and_rejected_attempts_are_in_separate_tables():
    kept = Gain("a", "x.py", "case", 2, 4.0, 3.0, 2.0, 1.0)
    tried = Gain("b", "x.py", "case", 2, 4.0, 3.0, 2.0, 1.0, kept=False)
    one, two = mechanisms([kept, tried])
    assert [r[3:] for r in one.rows] == [("4.00", "2.00", "2.00", "3.00")]
    assert [r[3:] for r in two.rows] == [("2.00", "4.00", "0.500", "0.333")]
    assert len(mechanisms([kept])) == 1


def test_one_attempt_on_two_cases_is_two_lines(tmp_path):
    machine = Machine("a processor", 2, "L1", "avx2", "Linux", "Python", "0.1.0", {}, {})
    gains = tuple(Gain("a", "x.py", case, 2, 4.0, 3.0, 2.0, 1.0, kept=False) for case in ("one", "two"))
    write(tmp_path / "lines", Results(machine, (), (), (), gains))
    assert read(tmp_path / "lines").gains == gains
