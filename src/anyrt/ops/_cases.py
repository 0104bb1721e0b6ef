"""Graphs of the operators' cases, with operands to feed and the results of the reference.

Derived tests run them.

for op, case in all_cases():
    run = case_run(op, case, dynamic=True)
    outputs = my_backend(run.graph, run.feeds, run.sizes)      # by name: y0, y1, …
    assert not differences(run, outputs)
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import INF, Dim, Sym
from anyrt.core.dtype import cast, is_float, is_integer, is_packed, numpy_dtype
from anyrt.core.enums import DataType
from anyrt.ir.counted import counted
from anyrt.ir.graph import Graph, Symbol, Value
from anyrt.ir.reference import widen
from anyrt.ops import ALL_OPS
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import ABSENT, AnyOp, Array, Attrs, Case, Layer, Mistake
from anyrt.prims._convert import limits
from anyrt.prims.build import const, param

AnyCase = Case[Attrs]
AnyMistake = Mistake[Attrs]
# The distance of neighbouring numbers, relative to their magnitude.
STEP = {
    DataType.FLOAT: 2.0**-23,
    DataType.HALF: 2.0**-10,
    DataType.BF16: 2.0**-7,
    DataType.FP8: 2.0**-3,
    DataType.FP4: 2.0**-1,
    DataType.E8M0: 1.0,
    DataType.DOUBLE: 2.0**-52,
    DataType.FP8E5M2: 2.0**-2,
    DataType.FP8E4M3FNUZ: 2.0**-3,
    DataType.FP8E5M2FNUZ: 2.0**-2,
}
TINY = {
    DataType.HALF: 2.0**-24,
    DataType.FP8: 2.0**-9,
    DataType.FP8E5M2: 2.0**-16,
    DataType.FP8E4M3FNUZ: 2.0**-10,
    DataType.FP8E5M2FNUZ: 2.0**-17,
}


@dataclass(frozen=True, slots=True)
class Run:
    """A case as a graph with its inputs. `expected`: the results of the reference, real numbers or integers.
    `types`: of the outputs. `slack`: an absolute tolerance of each output in addition to `atol`."""

    graph: Graph
    feeds: dict[str, Array]
    sizes: dict[str, int]
    expected: tuple[Array, ...]
    types: tuple[DataType, ...]
    rtol: float
    atol: float
    slack: tuple[float, ...] = ()


def all_cases() -> Iterator[tuple[AnyOp, AnyCase]]:
    """Every case of every operator."""
    for op in ALL_OPS:
        for case in op.cases():
            yield op, case


def all_mistakes() -> Iterator[tuple[AnyOp, AnyMistake]]:
    """Every mistake that an operator lists."""
    for op in ALL_OPS:
        for mistake in op.mistakes():
            yield op, mistake


def case_run(op: AnyOp, case: AnyCase, dynamic: bool, followed: bool = True) -> Run:
    """The case as a graph with its operands. `dynamic`: the sizes that the case allows are dynamic. Without
    `followed`, sizes that are elements of operands are known at inference only."""
    arrays = operands(op, case)
    scales, out_scale = case.int8 or ((), None)
    graph, sizes = case_graph(op, case, dynamic and not case.static_only, arrays, followed)
    feeds = {name: _stored(arrays[int(name[1:])], v.dtype) for name, v in graph.inputs}
    expected = _expected(op, case, arrays, scales, out_scale)
    types = tuple(v.dtype for _, v in graph.outputs)
    expected = tuple(_in_range(y, t) for y, t in zip(expected, types, strict=False))  # counts follow
    return Run(graph, feeds, sizes, expected, types, case.rtol, case.atol)


def _in_range(y: Array, t: DataType) -> Array:
    """The result of a reference, which computes in bytes, as integers of fewer bits."""
    return widen(cast(y, t), t) if is_packed(t) and is_integer(t) and y.dtype.kind in "iu" else y


def case_graph(
    op: AnyOp, case: AnyCase | AnyMistake, dynamic: bool, arrays: tuple[Array, ...], followed: bool = True
) -> tuple[Graph, dict[str, int]]:
    """A graph of the layer alone, and the sizes of `arrays`. Operand i is input x{i}, output j is y{j}.

    Operands whose values are sizes are constants in the static form, and inputs in the dynamic form. If
    `followed`, the elements of these inputs are symbols."""
    values: list[Value | None] = []
    symbols: list[Symbol] = []
    sizes: dict[str, int] = {}
    inputs: list[tuple[str, Value]] = []
    for i, array in enumerate(arrays):
        if array is ABSENT:
            values.append(None)
            continue
        name, dtype = f"x{i}", dtype_of(case, i)
        spec = op.operand(i)
        if spec.build_time or (spec.shape_values and not dynamic):
            values.append(const(array, dtype))
            continue
        follow = followed and spec.shape_values and is_integer(dtype)
        open_axes = open_in(case, i, array.ndim) if dynamic and not spec.shape_values else ()
        own = [Symbol(Sym(f"{name}.{a}"), name, a) for a in open_axes]
        shape: tuple[Dim, ...] = tuple(
            next((s.sym.dim for s in own if s.axis == a), n) for a, n in enumerate(array.shape)
        )
        elements = tuple(Sym(f"{name}#{k}", -INF, INF) for k in range(array.size if follow else 0))
        own += [Symbol(s, name, k, True) for k, s in enumerate(elements)]
        sizes |= {f"{name}.{a}": array.shape[a] for a in open_axes}
        sizes |= {s.name: int(array.reshape(-1)[k]) for k, s in enumerate(elements)}
        symbols += own
        inputs.append((name, param(name, shape, dtype, elements)))
        values.append(inputs[-1][1])
    scales, out_scale = (isinstance(case, Case) and case.int8) or ((), None)
    outputs = expand_layer(op, Layer("layer", case.attrs, tuple(values)), scales, out_scale)
    named = tuple((f"y{j}", v) for j, v in enumerate(outputs))
    return counted(Graph(tuple(inputs), named, symbols=tuple(symbols)), outputs), sizes


def operands(op: AnyOp, case: AnyCase | AnyMistake) -> tuple[Array, ...]:
    """The operands in the interpreter's types: the values of the case, or random ones of a fixed seed."""
    seed = zlib.crc32(repr((op.layer.name, case.shapes, case.dtypes)).encode())
    random = np.random.default_rng(seed)
    low, high = (case.low, case.high) if isinstance(case, Case) else (-2.0, 2.0)
    out: list[Array] = []
    for i, shape in enumerate(case.shapes):
        values = case.data[i] if i < len(case.data) else None
        if shape is None:
            out.append(ABSENT)
            continue
        drawn = random.uniform(low, high, shape) if values is None else values.reshape(shape)
        out.append(widen(_stored(np.asarray(drawn), dtype_of(case, i)), dtype_of(case, i)))
    return tuple(out)


def dtype_of(case: AnyCase | AnyMistake, i: int) -> DataType:
    """The type of operand `i`."""
    return case.dtypes[i] if i < len(case.dtypes) else case.dtypes[-1]


def _stored(array: Array, dtype: DataType) -> Array:
    if dtype is DataType.BOOL and array.dtype.kind == "f":
        return np.greater(array, 0)
    if dtype is DataType.INT8 and array.dtype.kind == "f":
        return np.clip(np.rint(array), -128, 127).astype(np.int8)
    return cast(array, dtype)


def open_in(case: AnyCase | AnyMistake, i: int, rank: int) -> tuple[int, ...]:
    """The axes of operand `i` that are dynamic in the dynamic form of the case."""
    chosen = case.dynamic if isinstance(case, Case) else ()
    return chosen[i] if chosen else tuple(range(rank))


# ---- expected results ---------------------------------------------------------------------------


def _expected(
    op: AnyOp, case: AnyCase, arrays: tuple[Array, ...], scales: tuple[float, ...], out_scale: float | None
) -> tuple[Array, ...]:
    int8 = [dtype_of(case, i) is DataType.INT8 and a is not ABSENT for i, a in enumerate(arrays)]
    if out_scale is not None and op.becomes_codes(case.attrs):
        return tuple(_coded(x, float(np.float32(out_scale))) for x in arrays)
    if not any(int8):
        return op.ref(case.attrs, arrays)
    steps = [float(np.float32(scales[i])) if i < len(scales) else 1.0 for i in range(len(arrays))]
    real = tuple(a.astype(np.float64) * s if q else a for a, s, q in zip(arrays, steps, int8, strict=True))
    if op.real_int8(case.attrs):
        return tuple(_coded(y, float(np.float32(out_scale or 1.0))) for y in op.ref(case.attrs, real))
    if out_scale is None:
        return op.ref(case.attrs, arrays)
    return tuple(_coded(y, float(np.float32(out_scale))) for y in op.ref(case.attrs, real))


def _coded(y: Array, scale: float) -> Array:
    """Real numbers divided by `scale`; NaN becomes the lowest code."""
    if y.dtype.kind != "f":
        return y
    real = y.astype(np.float64)
    return np.where(np.isnan(real), -128.0, real / scale)


def differences(run: Run, outputs: Mapping[str, Array]) -> list[str]:
    """The differences of `outputs` from the expected results, one line each; an empty list if there are none.

    Floats may differ by one rounding to their type in addition to the tolerances of the case. Integers must
    be equal. If the reference returns real numbers for integers, they are rounded. Near a tie, both integers
    are accepted unless the tolerances of the case are 0."""
    lines = []
    slack = run.slack or (0.0,) * len(run.expected)
    outputs_of = run.graph.outputs[: len(run.expected)]  # counts follow them
    for (name, value), want, more in zip(outputs_of, run.expected, slack, strict=True):
        got = outputs[name]
        if got.shape != want.shape or got.dtype != numpy_dtype(value.dtype):
            lines.append(f"{name}: {got.dtype}{got.shape} instead of {want.dtype}{want.shape} ({value.type})")
            continue
        wrong = np.logical_not(_agrees(run, widen(got, value.dtype), want, value.dtype, more))
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            lines.append(
                f"{name}: {wrong.sum()} of {wrong.size} wrong; at {at} {got[at]!r} instead of {want[at]!r}"
            )
    return lines


def _agrees(run: Run, got: Array, want: Array, dtype: DataType, more: float) -> NDArray[np.bool_]:
    if want.dtype.kind != "f":
        return np.asarray(np.equal(got, want), np.bool_)
    wide, real = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        if is_integer(dtype):
            low, high = limits(dtype)
            if run.rtol == run.atol == 0:
                return np.asarray(wide == np.clip(np.rint(real), low, high))
            return np.abs(wide - np.clip(real, low, high)) <= 0.5 + 100 * run.rtol + run.atol
        assert is_float(dtype), f"a reference of real numbers for {dtype}"
        rounded = widen(cast(want, dtype), dtype).astype(np.float64)
        room = (STEP[dtype] + run.rtol) * np.abs(real) + run.atol + more + TINY.get(dtype, 0.0)
        near = np.isfinite(real) & (np.abs(wide - real) <= room)
        return near | np.equal(wide, rounded) | (np.isnan(wide) & np.isnan(rounded))
