"""The compiler passes the description of the machine to kernels, to code and to the names of cache
entries."""

from dataclasses import replace

import pytest

from anyrt.backends import loader
from anyrt.backends.cpu.processors import Level
from anyrt.compiler.cached import plan_key, report_key
from anyrt.compiler.request import BuildRequest
from anyrt.core.enums import DataType
from anyrt.core.flags import Flags
from anyrt.core.machine import REFERENCE, Machine, this_machine
from anyrt.ir.graph import Graph
from anyrt.plan.file import read_plan
from anyrt.prims import build as b
from tests import native
from tests.targets import choose, forced, host


@pytest.fixture
def described(monkeypatch, tmp_path):
    """A function that replaces this machine's description."""

    def describe(machine: Machine) -> None:
        (tmp_path / "machine.json").write_text(str(machine))
        monkeypatch.setenv("ANYRT_MACHINE", str(tmp_path / "machine.json"))

    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "cache"))
    return describe


def plan():
    x = b.param("x", (5, 7), DataType.FLOAT)
    return read_plan(native.build(BuildRequest("net", Graph((("x", x),), (("y", b.map_("tanh", x)),)))))


def test_kernels_are_made_for_this_machine():
    assert native.lower_plan(plan()).machine == choose(None).limited(this_machine(Flags()))


def test_kernels_are_made_for_the_machine_of_the_file(described):
    described(replace(REFERENCE, l2_bytes=3 << 20, vector_bits=128))
    result = native.lower_plan(plan()).machine
    assert (result.l2_bytes, result.vector_bits) == (3 << 20, 128)


def test_a_description_has_no_more_than_the_processor():
    avx2 = forced(Level.AVX2).limited(REFERENCE)
    assert avx2 == replace(
        REFERENCE, vector_bits=256, registers=16, permutes=(), has_bf16=False, has_vnni=False
    )
    assert forced(Level.SSE2).limited(avx2) == replace(
        avx2, vector_bits=128, has_fma=False, has_rounding=False
    )
    assert host().limited(avx2) == avx2


def test_another_machine_has_code_of_its_own_in_the_cache(described):
    keys, device = set(), loader.device()
    for machine in (REFERENCE, replace(REFERENCE, l1_bytes=32 << 10), replace(REFERENCE, cores=8)):
        described(machine)
        keys |= {plan_key(device, b"digest"), report_key(device, "graph"), plan_key(device, b"digest")}
    assert len(keys) == 6


def test_half_types_are_worth_it_where_instructions_sum_them():
    plain = replace(REFERENCE, has_bf16=False)
    results = [m.halves for m in (plain, REFERENCE, replace(plain, has_tiles=True))]
    assert results == [set(), {DataType.BF16}, {DataType.BF16, DataType.HALF}]


def test_tiles_and_panels_follow_from_registers_and_lines():
    results = [(m.tile_rows, m.panel) for m in (REFERENCE, forced(Level.AVX2).limited(REFERENCE))]
    assert results == [(14, 32), (6, 32)]
    assert replace(REFERENCE, line_bytes=128).panel == 64
