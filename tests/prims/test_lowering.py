"""Every primitive's lowering at all indices, compared with its NumPy reference, with static and symbolic
dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

from anyrt.core.dims import Dim, Sym, add, mul, product
from anyrt.core.dimvalues import evaluate as size
from anyrt.core.dtype import cast, is_float, numpy_dtype
from anyrt.core.enums import (
    DataType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    SampleMode,
)
from anyrt.ir import kernel
from anyrt.ir.buffer import COMPUTED, Buffer, Space
from anyrt.ir.evaluate import evaluate
from anyrt.ir.graph import Type
from anyrt.ir.interpret import concrete
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.ir.reference import widen
from anyrt.prims.concat import Concat
from anyrt.prims.const import Iota, Shape
from anyrt.prims.map import Map
from anyrt.prims.pad import Pad
from anyrt.prims.reshape import Reshape
from anyrt.prims.taps import Border, Cubic, Linear, Nearest, Taps
from anyrt.prims.view import Axis, View

F, H, B8, U8, I4 = DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.UINT8, DataType.INT4
I32, I64, BOOL = DataType.INT32, DataType.INT64, DataType.BOOL
N, M = Sym("n", 1, 9), Sym("m", 0, 9)
n, m = N.dim, M.dim


@dataclass(frozen=True)
class Case:
    """A primitive on operands of these types, for every one of these sizes."""

    op: Prim
    types: tuple[Type, ...]
    sizes: tuple[Mapping[str, int], ...] = field(default=({},))


def case(op: Prim, *types: Type, sizes: Sequence[Mapping[str, int]] = ({},)) -> Case:
    return Case(op, types, tuple(sizes))


def t(dtype: DataType, *shape: Dim) -> Type:
    return Type(shape, dtype)


FEW = [{"n": 1, "m": 3}, {"n": 4, "m": 1}, {"n": 3, "m": 3}]
STRUCTURE = [
    case(Map("add", F), t(F, 2, 3), t(F, 1, 3)),
    case(Map("add", F), t(F, n, 3), t(F, 1, 3), sizes=FEW),
    case(Map("add", F), t(F, n, m), t(F, 3, m), sizes=[{"n": 1, "m": 2}, {"n": 3, "m": 2}]),
    case(Map("mul", F), t(F, n, 2), t(F, m, 2), sizes=FEW),
    case(Map("mul", F), t(F, n, 2), t(F, m, 2), sizes=[{"n": 1, "m": 0}]),
    case(Map("select", F), t(BOOL, 2, 1), t(F, 1, 3), t(F, 2, 3)),
    case(Map("add", B8), t(B8, 40), t(B8, 40)),
    case(Map("mul", U8), t(U8, 40), t(U8, 40)),
    case(Map("neg", B8), t(B8, 40)),
    case(Map("lt", BOOL), t(I32, 9), t(I32, 9)),
    case(Map("and", BOOL), t(BOOL, 9), t(BOOL, 9)),
    case(Reshape((6, 4)), t(F, 2, 3, 4)),
    case(Reshape((4, 6)), t(F, 6, 4)),
    case(Reshape((2, 1, 6, 5)), t(F, 4, 3, 1, 5)),
    case(Reshape(()), t(F, 1, 1)),
    case(Reshape((1, 1)), t(F)),
    case(Reshape((0, 7)), t(F, 3, 0)),
    case(Reshape((n * 12, 5)), t(F, n, 3, 4, 5), sizes=FEW),
    case(Reshape((n, 3, 20)), t(F, n * 12, 5), sizes=FEW),
    case(Reshape((m, n)), t(F, n, m), sizes=FEW),
    case(Reshape((2, m, 2)), t(F, n, 4), sizes=[{"n": 3, "m": 3}, {"n": 2, "m": 2}]),
    case(View((3, 2), (Axis(0, 1), Axis(0, 0))), t(F, 2, 3)),
    case(View((6, 2), (Axis(1, 1, 2), Axis(5, 0, -1))), t(F, 4, 6)),
    case(View((2, 5, 3), (Axis(0, None), Axis(0, 2))), t(F, 1, 3)),
    case(View((4,), (Axis(0, 0), Axis(0, 0))), t(F, 4, 4)),
    case(View((5, 2), (Axis(2, None), Axis(0, 1))), t(F, 3, 2)),
    case(View((n,), (Axis(n - 1, 0, -1),)), t(F, n), sizes=FEW),
    case(View((n, m), (Axis(1, 0), Axis(0, 1, 2))), t(F, n + 1, m * 2), sizes=FEW),
    case(Pad((1, 0), (2, 3), 7.0), t(F, 2, 2)),
    case(Pad((1,), (0,), -3.0), t(I32, 4)),
    case(Pad((2,), (2,), 1.0), t(F, 0)),
    case(Pad((m, 0), (1, n), 0.5), t(F, n, 2), sizes=FEW),
    case(Pad((1,), (1,), 0.5), t(F, m), sizes=[{"m": 0}, {"m": 2}]),
    case(Concat(1), t(F, 2, 3), t(F, 2, 1), t(F, 2, 0), t(F, 2, 2)),
    case(Concat(0), t(I64, n, 2), t(I64, m, 2), t(I64, 1, 2), sizes=[*FEW, {"n": 2, "m": 0}]),
    case(Iota((3, 4), 1, I32)),
    case(Iota((n, 4), 0, F), sizes=FEW),
    case(Shape((n * m, 5, n)), sizes=FEW),
    *(
        case(Taps(0, 9, Border(mode, -7, step)), t(dtype, 4))
        for mode in (SampleMode.WRAP, SampleMode.CLAMP, SampleMode.REFLECT)
        for step in (1, -2, 3)
        for dtype in (F, B8)
    ),
    case(Taps(1, n * 2, Border(SampleMode.REFLECT, m * -1, 2)), t(F, 2, n), sizes=FEW),
    case(Taps(0, 4, Border(SampleMode.REFLECT, -2, 1)), t(F, 1)),
]
LENGTHS = [(3, 6), (4, 8), (7, 3), (5, 1), (1, 4), (6, 6), (5, 8)]
NEAREST = [
    case(Taps(0, out, Nearest(how, selector, rounding)), t(I32, length))
    for how in ResizeCoordinateTransformation
    for selector in ResizeSelector
    for rounding in ResizeRoundMode
    for length, out in LENGTHS
]
WEIGHED = [
    case(Taps(1, out, rule), t(F, 2, length))
    for how in ResizeCoordinateTransformation
    for selector in ResizeSelector
    for rule in (Linear(how, selector), Cubic(how, selector, -0.75, False), Cubic(how, selector, -0.5, True))
    for length, out in LENGTHS
]
SYMBOLIC = [
    case(
        Taps(1, out, rule),
        t(F, 2, n),
        sizes=[{"n": a, "m": b} for a, b in LENGTHS if b < 9],
    )
    for how in ResizeCoordinateTransformation
    for selector in ResizeSelector
    for rule in (
        Nearest(how, selector, ResizeRoundMode.HALF_DOWN),
        Nearest(how, selector, ResizeRoundMode.CEIL),
        Linear(how, selector),
        Cubic(how, selector, -0.75, True),
    )
    for out in (m, 2 * n)
]
EVERY = [F, H, B8, U8, I32, I64, BOOL, I4]
CASTS = [case(Map("cast", to), t(source, 60)) for source in EVERY if source is not I4 for to in EVERY]


def random_array(dtype: DataType, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(7)
    wide = rng.uniform(-400, 400, shape)
    if is_float(dtype):
        special = np.array([0.0, -0.5, 0.5, 127.5, -128.5, 255.9, np.nan, np.inf, -np.inf, 3e9, -1e19])
        wide = np.where(rng.random(shape) < (0.5 if shape == (60,) else 0), rng.choice(special, shape), wide)
    return cast(wide, dtype) if is_float(dtype) else cast(wide.astype(np.int64), dtype)


def lowered(op: Prim, types: Sequence[Type], arrays: Sequence[Array], sizes: Mapping[str, int]) -> Array:
    """The lowering of `op` at every index of its result."""
    buffers = [Buffer(f"x{k}", ty.dtype, Space.INPUT, product(ty.shape)) for k, ty in enumerate(types)]

    def read(b: Buffer, ty: Type) -> Read:
        def at(index: Sequence[Dim]) -> Expr:
            flat: Dim = 0
            for i, d in zip(index, ty.shape, strict=True):
                flat = add(mul(flat, d), i)
            return kernel.cast(kernel.load(b, flat), COMPUTED[ty.dtype])

        return Read(ty, at)

    out = op.infer(tuple(types))
    index = [Sym(f"i{k}", extent=d) for k, d in enumerate(out.shape)]
    shape = tuple(size(d, sizes) for d in out.shape)
    body = op.lower(out, tuple(map(read, buffers, types)), tuple(s.dim for s in index))
    assert body.type is COMPUTED[out.dtype]
    grid = dict(zip((s.name for s in index), np.indices(shape, np.int64), strict=True))
    fixed = {name: np.full(shape, v) for name, v in sizes.items()}
    feeds = {b.name: x.reshape(-1) for b, x in zip(buffers, arrays, strict=True)}
    if any(x.size == 0 for x in arrays):  # a select would read the empty operand
        feeds = {name: x if x.size else np.zeros(1, x.dtype) for name, x in feeds.items()}
    return np.broadcast_to(evaluate(body, feeds, grid | fixed), shape)


@pytest.mark.parametrize(
    "case", [*STRUCTURE, *NEAREST, *WEIGHED, *SYMBOLIC, *CASTS], ids=lambda c: f"{c.op}-{c.types}"
)
def test_lowering_agrees_with_reference(case: Case):
    out = case.op.infer(case.types)
    for sizes in case.sizes:
        shapes = [tuple(size(d, sizes) for d in ty.shape) for ty in case.types]
        arrays = [random_array(ty.dtype, s) for ty, s in zip(case.types, shapes, strict=True)]
        shape = tuple(size(d, sizes) for d in out.shape)
        wide = tuple(widen(x, ty.dtype) for x, ty in zip(arrays, case.types, strict=True))
        expected = concrete(case.op, sizes).ref(wide, shape)
        got = lowered(case.op, case.types, arrays, sizes)
        assert expected.shape == shape
        if is_float(out.dtype):
            np.testing.assert_allclose(got, expected.astype(np.float32), rtol=2e-6, atol=4e-4)
        else:
            np.testing.assert_array_equal(got.astype(np.int64), expected.astype(np.int64))


KERNELS = [(-0.75, False), (-0.5, True), (0.0, False), (0.0, True), (4.0, False)]


@pytest.mark.parametrize("how", ResizeCoordinateTransformation)
@pytest.mark.parametrize("rule", [Linear, *(partial(Cubic, a=a, exclude_outside=e) for a, e in KERNELS)])
def test_taps_of_nan_and_infinities_agree_with_the_reference(how, rule):
    """One of them in each row, and in some rows an infinity of the other sign."""
    for length, out in [(5, 9), (5, 15), (6, 3), (3, 3), (2, 7), (1, 4), (5, 10)]:
        special, place = np.meshgrid([np.nan, np.inf, -np.inf], np.arange(length))
        x = np.tile(np.float32(np.arange(1, length + 1)), (3 * length, 1))
        x[::2, -1] = -np.inf
        np.put_along_axis(x, place.reshape(-1, 1), np.float32(special.reshape(-1, 1)), 1)
        op = Taps(1, out, rule(how, ResizeSelector.FORMULA))
        with np.errstate(invalid="ignore"):
            got = lowered(op, [t(F, *x.shape)], [x], {})
            np.testing.assert_allclose(got, op.ref((x,), (len(x), out)), rtol=1e-5, atol=1e-5)


def test_numpy_types_of_references_are_the_interpreters():
    for dtype in EVERY:
        x = Map("cast", dtype).ref((np.array([1.5, -2.5]),), (2,))
        assert x.dtype == (np.float64 if is_float(dtype) else np.int8 if dtype is I4 else numpy_dtype(dtype))
