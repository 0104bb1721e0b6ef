"""Every instruction and conversion, for every type, in serial and vector loops: native code compared with
NumPy."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from anyrt.backends import loader
from anyrt.backends.cpu import processors
from anyrt.backends.cpu.intrinsics import INTRINSICS
from anyrt.core.dims import Sym
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.evaluate import evaluate
from anyrt.ir.kernel import (
    COMPARES,
    Expr,
    For,
    Intrinsic,
    Kernel,
    Loop,
    Op,
    Store,
    alu,
    bitcast,
    cast,
    const,
    load,
    select,
)
from anyrt.ir.program import Call, Guarded, Module
from anyrt.plan import abi
from anyrt.plan.program import Compiled, Program
from tests.targets import assembled, choose

LENGTH = 37  # two vectors of 16 and a tail
KINDS = (Loop.SERIAL, Loop.VECTOR)
LEVELS = [None, processors.Level.AVX2.value, processors.Level.SSE2.value]
NUMPY = {
    Scalar.BOOL: np.bool_,
    Scalar.I8: np.int8,
    Scalar.U8: np.uint8,
    Scalar.I16: np.int16,
    Scalar.I32: np.int32,
    Scalar.I64: np.int64,
    Scalar.F16: np.float16,
    Scalar.BF16: ml_dtypes.bfloat16,
    Scalar.F32: np.float32,
}
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    1e-42,
    -3e-39,
    65519.9,
    65520.0,
    3e38,
    np.inf,
    -np.inf,
    np.nan,
]
SHIFTS = (Op.SHL, Op.SHR, Op.LSHR)
BITS = (Op.AND, Op.OR, Op.XOR, Op.NOT)
ROUNDINGS = (Op.FLOOR, Op.CEIL, Op.RINT, Op.TRUNC, Op.SQRT)
UNARY = (*ROUNDINGS, Op.NEG, Op.ABS, Op.NOT, Op.ANGLE)


@dataclass(frozen=True)
class Case:
    """An expression of the buffers a, b and c."""

    name: str
    value: Expr
    buffers: tuple[Buffer, ...]


def buffers(type: Scalar, name: str) -> list[Buffer]:
    """Three operands; a bool takes a byte."""
    stored = Scalar.U8 if type is Scalar.BOOL else type
    return [Buffer(f"{name}_{letter}", stored, Space.INPUT, LENGTH) for letter in "abc"]


def element(buffer: Buffer, type: Scalar, i: Sym) -> Expr:
    return cast(load(buffer, i.dim), type)


def instruction(op: Op | Intrinsic, type: Scalar, i: Sym) -> Case:
    name = f"{op.value}_{type.value}"
    operands = buffers(type, name)
    a, b, c = (element(x, type, i) for x in operands)
    if op in (*SHIFTS, Op.CODE):
        b = alu(Op.AND, b, const(15, type))
    if op is Op.LDEXP:  # of a number whose halfway product is normal, and of infinities and NaN
        a = select((a > 2.0**-20) & (a < 2.0**20), a, select(alu(Op.EQ, a - a, const(0, type)), 0.75, a))
        b = alu(Op.RINT, select((b > -200.0) & (b < 200.0), b * 90.0, -145.0))
    if op is Op.REM:
        a, b = alu(Op.ABS, a), alu(Op.ABS, b)
        a, b = select(a < float("inf"), a, 7e37), select(b > 0.0, b, 0.3)
    if op is Op.SELECT:
        value = alu(op, alu(Op.NE, c, const(0, type)), a, b)
    elif op is Op.BITCAST:
        value = bitcast(a, {Scalar.F32: Scalar.I32, Scalar.I32: Scalar.F32}[type])
    else:
        value = alu(op, *((a,) if op in UNARY else (a, b, c) if op is Op.FMA else (a, b)))
    return Case(name, value, tuple(operands))


def suits(op: Op | Intrinsic, type: Scalar) -> bool:
    if isinstance(op, Intrinsic):
        return type is Scalar.I32
    if op is Op.CODE:
        return type is Scalar.I32
    if type is Scalar.BOOL:
        return op in (*BITS, Op.SELECT, Op.EQ, Op.NE)
    if op is Op.BITCAST:
        return type in (Scalar.F32, Scalar.I32)
    if type is Scalar.F32:
        return op not in (*BITS, *SHIFTS, Op.MOD, Op.FLOORDIV)
    return op not in (*ROUNDINGS, Op.FMA, Op.REM, Op.LDEXP, Op.ANGLE)


def conversion(source: Scalar, target: Scalar, i: Sym) -> Case:
    name = f"{source.value}_to_{target.value}"
    operands = buffers(source, name)[:1]
    return Case(name, cast(element(operands[0], source, i), target), tuple(operands))


def converts(source: Scalar, target: Scalar) -> bool:
    """Whether a conversion exists: half types convert to and from float32 only, all others to each other."""
    halves = {Scalar.F16, Scalar.BF16} & {source, target}
    return source is not target and (not halves or Scalar.F32 in (source, target))


COMPUTED = (Scalar.F32, Scalar.I32, Scalar.I64, Scalar.BOOL)
I = Sym("i1", extent=LENGTH)  # noqa: E741 - the index of every case
CASES = [instruction(op, t, I) for op in (*Op, *INTRINSICS) for t in COMPUTED if suits(op, t)]
CASES += [conversion(a, b, I) for a in NUMPY for b in NUMPY if converts(a, b)]


def result(case: Case, kind: Loop) -> Buffer:
    stored = Scalar.U8 if case.value.type is Scalar.BOOL else case.value.type
    return Buffer(f"{case.name}_{kind.value}", stored, Space.OUTPUT, LENGTH)


def kernel(kind: Loop) -> Kernel:
    """All loops in one kernel, in sequence."""
    outs = [(case, result(case, kind)) for case in CASES]
    loops = (For(I, kind, (Store(out, I.dim, cast(case.value, out.stored)),)) for case, out in outs)
    return Kernel(f"all_{kind.value}", Sym("p", extent=1), tuple(loops))


def operand(buffer: Buffer, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = np.dtype(NUMPY[buffer.stored])
    if kind.kind in "iub":
        limits = np.iinfo(kind)
        top = 1 if buffer.name.startswith(tuple(f"{op.value}_i1" for op in Op)) else limits.max
        ends = np.array([limits.min, limits.max, 0, 1, 2, 3, 7], kind)
        return np.where(
            rng.random(LENGTH) < 0.5, rng.choice(ends, LENGTH), rng.integers(0, top, LENGTH, kind)
        )
    with np.errstate(all="ignore"):
        numbers = rng.choice(FLOATS, LENGTH) * rng.choice([1, 1, 1.1, 3e9], LENGTH)
        return numbers.astype(np.float32).astype(kind)


@pytest.fixture(scope="module", params=LEVELS)
def results(request):
    """Actual and expected values of every case and kind of loop, from one module."""
    arrays = {x: operand(x, 10 * n + k) for n, case in enumerate(CASES) for k, x in enumerate(case.buffers)}
    outs = [result(case, kind) for case in CASES for kind in KINDS]
    arrays |= {out: np.zeros(LENGTH, NUMPY[out.stored]) for out in outs}
    places = {x: (abi.FIRST_BINDING + n, 0) for n, x in enumerate(arrays)}
    calls = [Call(kernel(kind), kind.value) for kind in KINDS]
    module = Module((), (Guarded(1, calls),), places, (), len(arrays))
    program = assembled(module, choose(request.param))
    loaded = loader.device().load(Compiled(Program((), 0, 0, 0, 0, (), program.entries), program.image))
    args = np.zeros(abi.slot_word(len(arrays), 0) + program.frames, np.int64)
    args[abi.PROGRAM] = loaded.address(abi.CODE)
    for n, array in enumerate(arrays.values()):
        args[abi.FIRST_BINDING + n] = array.ctypes.data
    assert loaded.function(abi.RUN, 1)(args.ctypes.data) == abi.Status.OK
    return {x.name: array for x, array in arrays.items()}


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether bits are equal, or both values are NaN."""
    nan = np.not_equal(a, a) & np.not_equal(b, b)
    return nan | (
        np.frombuffer(a.tobytes(), f"u{a.itemsize}") == np.frombuffer(b.tobytes(), f"u{b.itemsize}")
    )


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.value)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_native_result_is_the_one_that_numpy_gives(case, kind, results):
    inputs = {x.name: results[x.name] for x in case.buffers}
    expected = evaluate(case.value, inputs, {I.name: np.arange(LENGTH)})
    got = results[f"{case.name}_{kind.value}"]
    if case.name in ("min_f32", "max_f32"):  # of 0 and −0, either
        got, expected = got + np.float32(0), expected + np.float32(0)
    wrong = ~same(got, expected.astype(got.dtype))
    shown = [(k, *(x[k] for x in inputs.values()), got[k], expected[k]) for k in np.flatnonzero(wrong)[:5]]
    assert not shown


def test_every_instruction_is_tried():
    names = {c.name.rsplit("_", 1)[0] for c in CASES}
    assert {op.value for op in Op} <= names
    assert {op.value for op in COMPARES} <= names
