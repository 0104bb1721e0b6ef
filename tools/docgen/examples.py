"""A short program for an operator, from one of the cases in its record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from math import prod

import numpy as np

from anyrt.core.dtype import is_float, short_name
from anyrt.core.enums import DataType
from anyrt.ops._cases import AnyCase
from anyrt.ops._record import AnyOp, AttrSpec, Case, Kind
from anyrt.prims.const import Blob

MOST_ELEMENTS = 64
LONG = 60  # an argument with more characters gets its own line
ANY_RANGE = tuple(f.default for f in fields(Case) if f.name in ("low", "high"))  # no particular one
SIMPLE = {DataType.FLOAT, DataType.INT32, DataType.INT64, DataType.BOOL}
HEAD = """import numpy as np
import anyrt as trt

np.set_printoptions(precision=3, suppress=True)
builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
network = builder.create_network()
"""
MARK = """layer.get_output(0).name = "y"
network.mark_output(layer.get_output(0))
"""
BUILD = """engine = builder.build_engine_with_config(network, builder.create_builder_config())
"""


def example(op: AnyOp) -> str:
    """A program that builds the layer, runs it and prints the result."""
    case = min(op.cases(), key=lambda c: _awkwardness(op, c))
    names = _operand_names(op, case)
    lines = [_operand(op, case, i, name) for i, name in enumerate(names) if case.shapes[i] is not None]
    lines += [_add(op, case, names), *_settings(op, case, names)]
    fed = [i for i in range(len(names)) if _is_fed(op, case, i)]
    feeds = [f"{names[i]} = {_array(case, i)}" for i in fed]
    call = ", ".join(f"{names[i]}={names[i]}" for i in fed)
    body = "".join(f"{x}\n" for x in lines)
    tail = MARK + BUILD if op.outputs else f"layer = network.add_identity({names[0]})\n{MARK}{BUILD}"
    return HEAD + body + tail + "".join(f"{x}\n" for x in feeds) + f'print(engine.run({call})["y"])\n'


def _awkwardness(op: AnyOp, case: AnyCase) -> tuple[bool | int, ...]:
    """A rank that is least for the most readable case: floats, few elements but not too few, no special
    values."""
    shapes = [s for s in case.shapes if s is not None]
    elements = [prod(s) for s in shapes] or [1]
    values = [getattr(case.attrs, s.name) for s in op.specs()]
    blobs = [v for v in values if isinstance(v, Blob)]
    types = {_dtype(case, i) for i in range(len(shapes))}
    return (
        not types <= SIMPLE or any(b.dtype not in SIMPLE for b in blobs) or case.int8 is not None,
        sum(not hasattr(np, short_name(t)) for t in types),
        any(case.data[i] is not None and _is_fed(op, case, i) for i in range(len(case.data))),
        max([*elements, *(b.size for b in blobs)]) > MOST_ELEMENTS,
        min(elements) < 2 and bool(shapes),
        max((b.size for b in blobs), default=0) > 6,
        sum(b.size == 0 for b in blobs),
        sum(d == 1 for d in shapes[0]) > 2 if shapes else False,
        op.methods[0].variadic and len(shapes) < 2,
        any(not op.operand(i).required for i, s in enumerate(case.shapes) if s is not None),
        any(v in types for v in values if isinstance(v, DataType)),
        bool(shapes) and not 2 <= len(shapes[0]) <= 4,
        bool(shapes) and _dtype(case, 0) is not DataType.FLOAT,
        abs(max(elements) - 12),
    )  # fmt: skip


def _dtype(case: AnyCase, i: int) -> DataType:
    return case.dtypes[i if len(case.dtypes) > 1 else 0]


def _operand_names(op: AnyOp, case: AnyCase) -> list[str]:
    if op.methods[0].variadic:
        return [f"x{i}" for i in range(len(case.shapes))]
    return ["x" if x.name == "input" else x.name for x in op.inputs[: len(case.shapes)]]


def _is_fed(op: AnyOp, case: AnyCase, i: int) -> bool:
    return case.shapes[i] is not None and not (op.operand(i).shape_values or op.operand(i).build_time)


def _operand(op: AnyOp, case: AnyCase, i: int, name: str) -> str:
    shape, dtype = case.shapes[i], f"trt.{short_name(_dtype(case, i))}"
    if _is_fed(op, case, i):
        return f'{name} = network.add_input("{name}", {dtype}, {shape})'
    return f"{name} = network.add_constant({shape}, {_array(case, i)}).get_output(0)"


def _array(case: AnyCase, i: int) -> str:
    data, shape, dtype = (case.data[i] if i < len(case.data) else None), case.shapes[i], _dtype(case, i)
    name = f"np.{np.dtype(np.bool_).name if dtype is DataType.BOOL else short_name(dtype)}"
    if data is not None:
        return f"np.array({data.tolist()}, {name})"
    count = prod(shape or ())
    if dtype is DataType.BOOL:
        return f"(np.arange({count}) % 2 == 0).reshape{shape}"
    if is_float(dtype) and (case.low, case.high) != ANY_RANGE:
        return f"np.linspace({case.low:g}, {case.high:g}, {count}, dtype={name}).reshape{_shape(shape)}"
    return f"np.arange({count}, dtype={name}).reshape{_shape(shape)}"


def _shape(shape: tuple[int, ...] | None) -> str:
    return f"({', '.join(map(str, shape or ()))})"


def _add(op: AnyOp, case: AnyCase, names: list[str]) -> str:
    method, specs = op.methods[0], {s.name: s for s in op.specs()}
    renamed, defaults = dict(method.renamed), {s.name: s for s in op.specs()}
    arguments: list[str] = []
    before: list[str] = []
    skipped = False
    for i, parameter in enumerate(method.params):
        attribute = renamed.get(parameter, parameter)
        if method.variadic and i == 0:
            arguments.append(f"[{', '.join(names)}]")
        elif attribute not in specs or parameter in {x.name for x in op.inputs if x.required}:
            arguments.append("x" if parameter == "input" else parameter)
        elif parameter in dict(method.defaults) and _is_default(op, case, defaults[attribute]):
            skipped = True
        else:
            text = _literal(specs[attribute], _value(specs[attribute], case))
            if len(text) > LONG:
                before, text = [*before, f"{parameter} = {text}"], parameter
            arguments.append(f"{parameter}={text}" if skipped else text)
    return "\n".join([*before, f"layer = network.{method.name}({', '.join(arguments)})"])


def _value(spec: AttrSpec, case: AnyCase) -> object:
    """An attribute of the case as source text."""
    value = getattr(case.attrs, spec.name)
    if value is not None or spec.from_attr is None:
        return value
    name, stands_for = spec.from_attr
    return stands_for(getattr(case.attrs, name))


def _settings(op: AnyOp, case: AnyCase, names: list[str]) -> Iterator[str]:
    """Settings other than the method's arguments: attributes, and optional operands."""
    settings = {dict(op.methods[0].renamed).get(p, p) for p in op.methods[0].params} | {
        n for n, _ in op.methods[0].fixed
    }
    for spec in op.specs():
        if spec.name not in settings and not spec.read_only and not _is_default(op, case, spec):
            yield f"layer.{spec.name} = {_literal(spec, getattr(case.attrs, spec.name))}"
    if not op.methods[0].variadic:
        for i, operand in enumerate(op.inputs[: len(case.shapes)]):
            if not operand.required and case.shapes[i] is not None:
                yield f"layer.set_input({i}, {names[i]})"


def _is_default(op: AnyOp, case: AnyCase, spec: AttrSpec) -> bool:
    default, value = op.attrs.__dataclass_fields__[spec.name].default, getattr(case.attrs, spec.name)
    return value == default or (isinstance(value, Blob) and value.size == 0)


def _literal(spec: AttrSpec, value: object) -> str:
    match value:
        case DataType():
            return f"trt.{short_name(value)}"
        case Enum():
            return f"trt.{type(value).__name__}.{value.name}"
        case Blob():
            elements = [round(float(v), 3) for v in value.array.tolist()]
            kind, count, period = f"np.{short_name(value.dtype)}", len(elements), _period(elements)
            if period < count:
                return f"np.resize({kind}({elements[:period]}), {count})"
            return f"np.array({elements}, {kind})"
        case int() if spec.kind is Kind.AXES:
            bits = [f"1 << {i}" for i in range(value.bit_length()) if value >> i & 1]
            return " | ".join(bits)
        case float():
            return f"{value:g}"
        case str():
            return f'"{value}"'
    return repr(value)


def _period(elements: list[float]) -> int:
    """The period of repeating elements, if that shortens the program much; otherwise their number."""
    repeated = (n for n in range(1, len(elements) - 6) if elements[n:] == elements[:-n])
    return next(repeated, len(elements))
