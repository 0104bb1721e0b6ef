"""Code for AArch64, executed by an emulator in this process: kernels compared with the interpreter, and the
system calls and state that they need.

`make neon` runs all tests of kernels this way. An emulator on x86-64 cannot show that other threads may see
memory changes in another order; tests/runtime/test_pool.py reads the text of the pool instead.
"""

import ctypes
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anyrt.backends.cpu.aarch64 import dots
from anyrt.backends.cpu.device import CpuDevice
from anyrt.backends.cpu.mix import compile_mix
from anyrt.backends.cpu.pool import compile_pool
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dims import add
from anyrt.core.enums import DataType
from anyrt.core.errors import CompileError
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.plan.checksum import MIX, ROW_BYTES, mix
from anyrt.plan.pool import WORKER, PoolWord, pool_words
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.backends import test_contraction as products
from tests.codegen.test_checked import broken, run
from tests.codegen.test_random_graphs import LIMITS, assert_agrees, cases
from tests.compiler import test_kernels_run as pipeline
from tests.emulated import ARM, MISSING, SDOT, Emulated, Machine, arm, emulated, unicorn
from tests.messages import diagnostic
from tests.mmla import EXTREMES, error_of_bfloats, infinities, largest_bytes
from tests.native import load, verify
from tests.sampling import tries
from tests.targets import ARM_MM, NEON_MM, host

pytestmark = pytest.mark.skipif(unicorn is None, reason=MISSING)


@pytest.fixture(autouse=True)
def _aarch64():
    with emulated():
        yield


@pytest.mark.parametrize("name", pipeline.CASES)
def test_kernels_agree_with_the_interpreter(name):
    lowered = pipeline.lowered(name)
    assert verify(lowered, host(), pipeline.SIZES if lowered.graph.symbols else [{}]) == ()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", products.CASES)
def test_products_agree_with_the_interpreter(name):
    graph = products.CASES[name]
    sizes = [{products.N.name: n} for n in (0, 1, 13, 33)] if graph.symbols else [{}]
    assert verify(products.lowered(graph, ARM.limited(REFERENCE)), host(), sizes) == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in products.CASES if "of bytes" in name or name == "bytes"])
def test_sdot_sums_products_of_bytes_as_the_interpreter_does(name):
    graph, machine = products.CASES[name], SDOT.limited(replace(REFERENCE, has_sdot=True))
    lowered = products.lowered(graph, machine)
    with emulated(SDOT):
        assert "\tsdot\t" in host().assembly(host().text(lowered.module.kernels, machine))
        assert (
            verify(lowered, host(), [{products.N.name: n} for n in (0, 1, 33)] if graph.symbols else [{}])
            == ()
        )


def test_bfdot_sums_products_of_bfloat16():
    processor = replace(ARM, features="+bf16", lacks=ARM.lacks - {"has_bfdot"})
    machine = processor.limited(replace(REFERENCE, has_bfdot=True))
    kernels = products.lowered(products.CASES["halves"], machine).module.kernels
    with emulated(processor):
        assert "\tbfdot\t" in host().assembly(host().text(kernels, machine))


MATRICES = {
    "smmla": ("bytes", "few lanes of bytes", "open rows of bytes", "whole tiles of bytes"),
    "bfmmla": ("halves", "few rows turned of halves", "open tiles after tiles"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(("word", "name"), [(w, name) for w, names in MATRICES.items() for name in names])
def test_small_matrices_are_multiplied_as_by_the_interpreter(word, name, checked):
    graph, sizes = products.CASES[name], Sizes({products.N.name: 50})
    lowered = native.lower(graph, constant_offsets(graph), sizes, machine=NEON_MM, checked=checked)
    with emulated(ARM_MM):
        assert f"\t{word}\t" in host().assembly(host().text(lowered.module.kernels, NEON_MM))
        sizes = [{products.N.name: n} for n in (0, 1, 13, 33)] if graph.symbols else [{}]
        assert verify(lowered, host(), sizes) == ()


def test_rows_that_are_not_there_end_the_run_of_a_small_matrix():
    graph = products.CASES["whole tiles of bytes"]
    lowered = native.lower(graph, constant_offsets(graph), Sizes(), machine=NEON_MM, checked=True)
    with (
        emulated(ARM_MM),
        pytest.raises(CompileError, match=diagnostic("AR810", "contract", re.compile(r"\d+"), "in_x")),
    ):
        run(broken(lowered, "in_x", lambda at: add(at, 4096)), None)


@pytest.mark.parametrize("shape", EXTREMES)
def test_the_largest_bytes_give_exact_sums(shape):
    with emulated(ARM_MM):
        assert largest_bytes(*shape, NEON_MM)


@pytest.mark.parametrize("shape", EXTREMES)
def test_bfloat16_of_all_sizes_are_summed_within_the_bound_of_rounding_to_odd(shape):
    with emulated(ARM_MM):
        assert 0 < error_of_bfloats(*shape, NEON_MM) <= 1


def test_nan_propagates_through_products_of_small_matrices():
    with emulated(ARM_MM):
        assert infinities(*EXTREMES[0], NEON_MM)


def test_linux_reports_the_dots_of_a_processor(monkeypatch):
    words = {16: 1 << 20, 26: 1 << 13}
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(getauxval=lambda word: words[word]))
    assert dots.__wrapped__() == {"dotprod": True, "i8mm": True, "bf16": False}


@given(cases(), st.booleans())
@settings(LIMITS, max_examples=tries(4))
def test_random_graphs_agree_with_the_interpreter(case, checked):
    assume(case.sizes)
    assert_agrees(case, case.graph, None, checked)


def test_the_floating_point_mode_of_the_thread_has_no_effect_and_is_kept():
    """FPCR: flush to zero, and round towards zero."""
    x = b.param("x", (64,), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", b.map_("mul", x, b.scalar(1.05, x))),))
    trial = Trial(load(native.lower(graph, {}, Sizes()), host()), {})
    read, written = (trial.blocks[f"{n}"].bytes[:256].view(np.float32) for n in ("tensor x", "tensor y"))
    read[:] = 7.97e-40
    trial.loaded.code.machine.uc.reg_write(arm.UC_ARM64_REG_FPCR, asked := 1 << 24 | 3 << 22)
    trial.run()
    assert (written == np.float32(8.368498e-40)).all()
    assert trial.loaded.code.machine.uc.reg_read(arm.UC_ARM64_REG_FPCR) == asked


def test_checksums_are_mixed_as_by_numpy():
    code = Emulated().load(compile_mix(ARM))
    raw = np.random.default_rng(3).integers(0, 256, 77 * ROW_BYTES + 3, np.uint8)
    rows = np.frombuffer(raw[3:], np.uint64).reshape(-1, 64)  # starts at an odd address
    ours, theirs = np.arange(64, dtype=np.uint64), np.arange(64, dtype=np.uint64)
    mix(rows, ours)
    assert code.function(MIX, 3)(rows.ctypes.data, len(rows), theirs.ctypes.data) == 0
    assert ours.tolist() == theirs.tolist()


def test_a_worker_calls_linux_by_the_numbers_of_aarch64():
    """getcpu, then futex: the worker waits while the generation, the upper half of STATE, is 0."""
    machine, code, calls = Machine(), CpuDevice().load(compile_pool(ARM)), []
    words = np.zeros(pool_words(2), np.int64)

    def system(number, *arguments):
        calls.append((number, *arguments))
        if number == 98:
            words[PoolWord.STOP], words[PoolWord.STATE] = 1, 1 << 32
        return 0

    machine.system = system
    machine.execute(code)
    assert machine.call(code.address(WORKER), (at := words.ctypes.data, 1)) == 0
    assert [(c[0], c[1:4]) for c in calls][1:] == [(98, (at + 8 * PoolWord.STATE + 4, 128, 0))]
    assert (calls[0][0], words[PoolWord.SLEEPERS]) == (168, 0)
