"""The docstrings of layers, their attributes and the methods that add them, from the operators' records.

>>> from anyrt.ops.reduce import OPS
>>> print(attribute_text(OPS[0], OPS[0].specs()[1]))
axes to reduce (bit i stands for dimension i); int, set by the method
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from itertools import groupby

from anyrt.api.derived.convert import annotation
from anyrt.api.edge.fold import API
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType
from anyrt.ops._record import AnyOp, AttrSpec, Input, Kind, Method, Scope, Setter
from anyrt.prims.const import Blob

WIDTH = 98
ANSWER = (
    "Returns the new {cls}. The shape and type of its output are known immediately. Raises AR403 for a tensor"
    " of a different network, and TypeError (AR311) for an argument of a wrong class."
)
HOSTS = {"": "network", "ILoop": "loop", "IIfConditional": "conditional"}
REFUSED = "Errors when the shape is read, and during the build:"
REFUSED_LATER = "Errors during an inference:"


def method_text(op: AnyOp, method: Method) -> str:
    """The docstring of an `add_*` method."""
    specs = {s.name: s for s in op.specs()}
    renamed, operands = dict(method.renamed), {x.name: x for x in op.inputs}
    arguments = []
    for name in method.params:
        spec = specs.get(renamed.get(name, name))
        is_operand = name in operands and operands[name].required
        text = operand_text(op, operands[name]) if is_operand else spec.doc + notes(spec) if spec else ""
        arguments.append(wrapped(f"{name}: {text}", "    "))
    parts = [wrapped(op.doc), "\n".join(arguments), wrapped(ANSWER.format(cls=op.owner))]
    example = "".join(f"    {line}\n" for line in method.example.splitlines()).rstrip()
    return "\n\n".join(filter(None, [*parts, *_later(op, method), *_mistakes(op), example, _source(op)]))


def class_text(op: AnyOp) -> str:
    """The docstring of a layer's class."""
    origin = f"Created by {' and '.join(f'`{HOSTS[op.within]}.{m.name}`' for m in op.methods)}."
    return "\n\n".join([wrapped(op.doc), origin, *_mistakes(op), _source(op)])


def setter_text(op: AnyOp, setter: Setter) -> str:
    """The docstring of a method that sets several attributes and inputs of a layer."""
    specs, operands = {s.name: s for s in op.specs()}, {x.name: i for i, x in enumerate(op.inputs)}
    lines = [
        f"{p}: {specs[name].doc if name in specs else f'input {operands[name]}'}" for p, name in setter.params
    ]
    return "\n\n".join([wrapped(setter.doc), "\n".join(wrapped(line, "    ") for line in lines)])


def boundary_text(op: AnyOp, scope: Scope) -> str:
    """The docstring of the classes of the layers around a part of a network."""
    methods = " or ".join(f"`network.{m.name}`" for m in op.methods)
    return f"Begins or ends {scope.cls}; created by {methods}.\n\n{_source(op)}"


def attribute_text(op: AnyOp, spec: AttrSpec) -> str:
    """The docstring of an attribute of a layer."""
    return f"{spec.doc}{notes(spec)}; {annotation(spec)}, {_default_text(op, spec)}"


def default(op: AnyOp, spec: AttrSpec) -> str:
    """The default of an attribute."""
    value = op.attrs.__dataclass_fields__[spec.name].default
    match value:
        case Blob():
            return "empty"
        case Enum():
            return value.name
        case None if spec.from_rank is not None:
            return "from the rank"
        case None if spec.from_attr is not None:
            return f"from `{spec.from_attr[0]}`"
        case None if spec.name not in op.methods[0].params:
            return "not set"
        case int() | float() | tuple() | str():
            return f"`{value}`"
    return "given"


def _default_text(op: AnyOp, spec: AttrSpec) -> str:
    text = default(op, spec)
    return "set by the method" if text == "given" else f"default: {text}"


def notes(spec: AttrSpec) -> str:
    """Remarks on an attribute, in brackets."""
    remarks = ["read only"] if spec.read_only else []
    remarks += [f"assigning it clears {', '.join(f'`{n}`' for n in spec.clears)}"] if spec.clears else []
    remarks += [f"assigning it sets {' and '.join(f'`{n}`' for n in spec.sets)}"] if spec.sets else []
    if spec.locked_by is not None:
        remarks.append(f"cannot be assigned while input {spec.locked_by} is connected")
    if spec.drops is not None:
        remarks.append(f"assigning it disconnects input {spec.drops}")
    if spec.kind is Kind.AXES:
        remarks.append("bit i stands for dimension i")
    return f" ({'; '.join(remarks)})" if remarks else ""


def operand_notes(op: AnyOp, x: Input) -> str:
    """Remarks on an operand."""
    variadic = op.methods[0].variadic
    setters = [f"`{s.name}`" for s in op.setters if x.name in dict(s.params).values()]
    way = " or ".join(setters) or ("a property" if x.is_property else "`set_input`")
    left_out = "" if setters else "optional; "
    remarks = [] if x.required else [f"{left_out}{way} connects it"]
    remarks += ["one or more tensors"] if variadic else []
    if x.shape_values and not x.build_time:
        remarks.append(
            "its values set dimensions, which are data-dependent unless they follow from shapes, "
            "constants or a shape tensor"
        )
    remarks += ["must be a constant"] if x.build_time else []
    remarks += ["all of the same type"] if variadic and x.same_as is not None else []
    if x.same_as is not None and not variadic:
        remarks.append(f"same type as input {x.same_as}")
    remarks += [f"connecting it clears {', '.join(f'`{n}`' for n in x.clears)}"] if x.clears else []
    return "; ".join(remarks)


def wrapped(text: str, indent: str = "") -> str:
    """`text` in lines, all except the first one indented; textwrap takes ten times as long, at each start."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) >= WIDTH:
            lines.append(line)
            line = indent
        line += word if line in ("", indent) else f" {word}"
    return "\n".join([*lines, line])


@cache
def types_text(dtypes: frozenset[DataType]) -> str:
    """Element types in the order of their numbers."""
    return ", ".join(short_name(t) for t in sorted(dtypes, key=int))


def operand_text(op: AnyOp, x: Input) -> str:
    """Types and notes of an operand."""
    return "; ".join(filter(None, [types_text(x.dtypes), operand_notes(op, x)]))


def _later(op: AnyOp, method: Method) -> Iterator[str]:
    """The attributes and inputs that are set on the layer instead of passed to the method."""
    passed = {dict(method.renamed).get(p, p) for p in method.params}
    names = [s.name for s in op.specs() if s.name not in passed and not s.read_only]
    names += [x.name for x in op.inputs if x.is_property]
    if names:
        yield wrapped(f"Attributes to set on the layer: {', '.join(names)}.")
    if op.setters:
        yield wrapped(
            f"Methods of the layer that set several attributes: {', '.join(s.name for s in op.setters)}."
        )
    inputs = [f"{i} ({x.name})" for i, x in enumerate(op.inputs) if not (x.required or x.is_property)]
    if inputs:
        yield wrapped(f"Optional inputs for `layer.set_input`: {', '.join(inputs)}.")


def _mistakes(op: AnyOp) -> Iterator[str]:
    mistakes = op.mistakes()
    for is_dynamic, head in ((False, REFUSED), (True, REFUSED_LATER)):
        errors = sorted({(m.code, m.why) for m in mistakes if m.dynamic is is_dynamic})
        lines = [
            wrapped(f"{code}: {'; '.join(why for _, why in group)}", "    ")
            for code, group in groupby(errors, lambda pair: pair[0])
        ]
        if lines:
            yield "\n".join([head, *lines])


def _source(op: AnyOp) -> str:
    return f"As in TensorRT {API}{f' ({op.source})' * bool(op.source)}."
