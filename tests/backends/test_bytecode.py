"""The executor's bytecode computes the same sizes as `evaluate`."""

import numpy as np
import pytest

from anyrt.backends.cpu.bytecode import Token, claimed_work, encode, serial_work
from anyrt.backends.cpu.device import CpuDevice
from anyrt.backends.cpu.emit import emit
from anyrt.core.dims import Sym, add, equal, floordiv, maximum, minimum, mod, mul, scaled, tdiv
from anyrt.core.dimvalues import evaluate
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import Kernel, Store, const
from anyrt.ir.program import Call, Guarded, Module, print_module
from anyrt.plan import abi
from anyrt.plan.program import Compiled, Program
from tests.targets import assembled, host

N, M = Sym("n", -50, 50), Sym("m", -50, 50)
SIZES = (
    add(mul(N.dim, 3), -7),
    floordiv(N.dim, M.dim),
    mod(add(N.dim, 5), M.dim),
    tdiv(N.dim, M.dim),
    minimum(N.dim, maximum(M.dim, 4)),
    equal(N.dim, M.dim),
    scaled(N.dim, 1.5),
    mul(add(floordiv(mul(N.dim, N.dim), 4), M.dim), mod(M.dim, 3)),
)

Y = Buffer("y", DataType.INT64, Space.OUTPUT, 1)


def module() -> Module:
    """One kernel for each size; it runs that many times, under a guard."""
    kernels = [Kernel(f"k{n}", Sym("i", extent=size), ()) for n, size in enumerate(SIZES)]
    return Module((), (Guarded(1, [Call(k, k.name) for k in kernels]),), {}, (N, M), 0)


@pytest.fixture(scope="module")
def prepared():
    """The slots that `prepare` fills for n and m, and the sizes in them."""
    instance = module()
    program = assembled(instance, host())
    code = CpuDevice().load(Compiled(Program((), 0, 0, 0, 0, (), program.entries), program.image))

    def run(n: int, m: int) -> dict[object, int]:
        slots, behind = abi.slot_word(0, 0), abi.slot_word(0, len(program.slots))
        args = np.zeros(behind + program.frames, np.int64)
        args[abi.PROGRAM], args[slots], args[slots + 1] = code.address(abi.CODE), n, m
        assert code.function(abi.PREPARE, 1)(args.ctypes.data) == abi.Status.OK
        return dict(zip(program.slots, args[slots:behind].tolist(), strict=True))

    return run


@pytest.mark.parametrize("n", [-50, -7, -1, 0, 1, 2, 3, 17, 50])
@pytest.mark.parametrize("m", [-50, -3, -1, 0, 1, 4, 7, 50])
def test_a_size_equals_the_result_of_evaluate(prepared, n, m):
    result = prepared(n, m)
    assert result == {size: evaluate(size, {"n": n, "m": m}) for size in result}
    assert set(SIZES) <= set(result)


def test_threads_share_work_from_the_amount_that_was_measured():
    assert (serial_work(REFERENCE), claimed_work(REFERENCE)) == (16384, 32768)


def test_every_token_is_tried():
    machine = host().limited(REFERENCE)
    encoded = encode(module(), lambda kernel: emit(kernel, machine).frame, lambda kernel: 0, machine)
    assert {int(t) for t in Token} <= set(encoded.words)


@pytest.fixture
def thrice():
    """The program, its code and its argument array, for one kernel that is called for three outputs."""
    out = [Buffer(f"y{n}", DataType.FLOAT, Space.OUTPUT, 8) for n in range(3)]
    i = Sym("i", extent=8)
    kernel = Kernel("one", i, (Store(out[0], i.dim, const(2.0, Scalar.F32)),))
    calls = [Call(kernel, "a"), Call(kernel, "b", {out[0]: out[1]}), Call(kernel, "c", {out[0]: out[2]})]
    places = {b: (abi.FIRST_BINDING + n, 0) for n, b in enumerate(out)}
    built = Module((), (Guarded(1, calls),), places, (), 3)
    program = assembled(built, host())
    code = CpuDevice().load(Compiled(Program((), 0, 0, 0, 0, (), program.entries), program.image))
    args = np.zeros(abi.slot_word(3, 0) + program.frames, np.int64)
    args[abi.PROGRAM] = code.address(abi.CODE)
    return built, code, args


def bound(args, arrays):
    args[abi.FIRST_BINDING :][: len(arrays)] = [a.ctypes.data for a in arrays]


def test_equal_kernels_share_their_code(thrice):
    built, code, args = thrice
    arrays = np.zeros((3, 8), np.float32)
    bound(args, arrays)
    assert code.function(abi.STEP, 2)(args.ctypes.data, 1) == abi.Status.OK
    assert arrays.tolist() == [[0.0] * 8, [2.0] * 8, [0.0] * 8]
    assert code.function(abi.RUN, 1)(args.ctypes.data) == abi.Status.OK
    assert arrays.tolist() == [[2.0] * 8] * 3
    assert (
        print_module(built)
        == """\
memory:
  y0: FLOAT 8, output
  y1: FLOAT 8, output
  y2: FLOAT 8, output
run:
  a(y0) over 8
  b(y1) over 8
  c(y2) over 8
"""
    )


def test_calls_follow_bindings_that_change_between_runs_and_steps(thrice):
    _, code, args = thrice
    run, step, prepare = (
        code.function(name, n) for name, n in ((abi.RUN, 1), (abi.STEP, 2), (abi.PREPARE, 1))
    )
    first, second, third = np.zeros((3, 3, 8), np.float32)
    for arrays in (first, second):
        bound(args, arrays)
        run(args.ctypes.data)
        run(args.ctypes.data)
    assert first.tolist() == second.tolist() == [[2.0] * 8] * 3
    bound(args, third)
    step(args.ctypes.data, 1)
    bound(args, second)
    second[:], third[:] = 0, 0
    run(args.ctypes.data)
    assert (second.sum(), third.sum()) == (48, 0)
    bound(args, first)
    prepare(args.ctypes.data)
    first[:] = 0
    run(args.ctypes.data)
    assert first.sum() == 48
