"""Sequences and optionals: lists of tensors during parsing, which do not appear in layers."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError
from anyrt.onnx.node import Argument, Node, importer

INT64 = DataType.INT64

MOST = 1024  # maximum number of tensors of a split, each of which is a layer


@importer("SequenceEmpty")
def sequence_empty(node: Node) -> list[Argument]:
    """An empty sequence."""
    return [[]]


@importer("SequenceConstruct")
def sequence_construct(node: Node) -> list[Argument]:
    """A sequence of the inputs."""
    return [node.present()]


@importer("SequenceLength")
def sequence_length(node: Node) -> Tensor:
    """The number of tensors."""
    return node.constant(len(node.sequence(0)), INT64)


@importer("SequenceAt")
def sequence_at(node: Node) -> Tensor:
    """A tensor of the sequence; the position may be data-dependent if all have the same shape."""
    tensors, position = node.sequence(0), node.input(1)
    known = node.ints(position)
    if known is not None:
        return tensors[_place(node, known[0], tensors)]
    if not tensors or any(x.sizes != tensors[0].sizes or x.dtype is not tensors[0].dtype for x in tensors):
        raise node.unsupported("a data-dependent position in a sequence of tensors with different shapes")
    at = position.cast(INT64).reshape((1,))
    at = node.where_(at < 0, at + len(tensors), at)
    return node.gather(node.concat([x.unsqueeze(0) for x in tensors], 0), at, 0).squeeze(0)


@importer("SequenceInsert")
def sequence_insert(node: Node) -> list[Argument]:
    """The sequence with one more tensor, by default at the end."""
    tensors, position = [*node.sequence(0)], node.optional(2)
    at = len(tensors) if position is None else _known(node, position)
    if not -len(tensors) <= at <= len(tensors):
        raise ArgumentError("AR304", node.where, f"position {at}", f"{-len(tensors)} to {len(tensors)}")
    tensors.insert(at, node.input(1))
    return [tensors]


@importer("SequenceErase")
def sequence_erase(node: Node) -> list[Argument]:
    """The sequence without one tensor, by default the last."""
    tensors, position = [*node.sequence(0)], node.optional(1)
    del tensors[_place(node, -1 if position is None else _known(node, position), tensors)]
    return [tensors]


def _known(node: Node, position: Tensor) -> int:
    known = node.ints(position)
    if known is None:
        raise node.unsupported("a data-dependent position", "make it a constant of the model")
    return known[0]


def _place(node: Node, at: int, tensors: Sequence[Tensor]) -> int:
    """The position of a tensor; negative positions count from the end."""
    if not -len(tensors) <= at < len(tensors):
        raise ArgumentError(
            "AR304", node.where, f"position {at}", f"a position in a sequence of {len(tensors)}"
        )
    return at


@importer("ConcatFromSequence")
def concat_from_sequence(node: Node) -> Tensor:
    """The concatenation of the tensors, or their stack along a new axis."""
    tensors, axis = node.sequence(0), node.required("axis", 0)
    if not tensors:
        raise node.unsupported("an empty sequence, whose result has no shape")
    new = bool(node.attr("new_axis", 0))
    rank = tensors[0].rank + new
    if not -rank <= axis < rank:
        raise ArgumentError("AR304", node.where, f"axis {axis}", f"{-rank} to {rank - 1}")
    axis %= rank
    return node.concat([x.unsqueeze(axis) for x in tensors] if new else tensors, axis)


@importer("SplitToSequence")
def split_to_sequence(node: Node) -> list[Argument]:
    """Parts of a tensor along an axis: of an equal size, of given sizes, or of size 1."""
    x, split = node.input(0), node.optional(1)
    axis = node.axis(x)
    sizes = [1] * _few(node, _size(node, x, axis)) if split is None else _parts(node, x, split, axis)
    keep = split is not None or bool(node.attr("keepdims", 1))
    out: list[Tensor] = []
    at: int | Tensor = 0
    for size in sizes:
        start: list[int | Tensor] = [0] * x.rank
        shape: list[int | Tensor] = [n if n >= 0 else x.size(k) for k, n in enumerate(x.sizes)]
        start[axis], shape[axis] = at, size
        part = node.slice(x, start, shape)
        out.append(part if keep else part.squeeze(axis))
        at = at + size
    return [out]


def _size(node: Node, x: Tensor, axis: int) -> int:
    if x.sizes[axis] < 0:
        got = f"axis {axis} of {x.sizes}, whose size is dynamic"
        raise node.unsupported(got, "export the model with a static size, or pass the size of each part")
    return x.sizes[axis]


def _few(node: Node, count: int) -> int:
    if count > MOST:
        raise node.unsupported(f"a sequence of {count} tensors", f"split into at most {MOST}")
    return count


def _parts(node: Node, x: Tensor, split: Tensor, axis: int) -> Sequence[int | Tensor]:
    """The size of each part."""
    known = node.ints(split)
    if split.rank == 0:
        if known is None:
            raise node.unsupported("parts of a data-dependent size", "make the size a constant of the model")
        each, size = max(known[0], 1), _size(node, x, axis)
        _few(node, -(-size // each))
        return [min(each, size - at) for at in range(0, size, each)]
    if known is not None:
        return known
    return [node.slice(split.cast(INT64), [k], [1]) for k in range(_few(node, _size(node, split, 0)))]


@importer("SequenceMap")
def sequence_map(node: Node) -> list[Argument]:
    """Apply a graph to each tensor of one or more sequences; plain tensors are the same for each."""
    count = len(node.sequence(0))
    results = []
    for k in range(count):
        arguments = [x[k] if isinstance(x, list) else x for x in node.arguments]
        results.append(node.body("body")(arguments))
    if not results:
        return [[] for _ in node.outputs_named]
    return [[x for x in column if isinstance(x, Tensor)] for column in zip(*results, strict=True)]


@importer("Optional")
def optional(node: Node) -> list[Argument]:
    """An optional with the input, or an empty one."""
    return [node.arguments[0] if node.arguments else None]


@importer("OptionalHasElement")
def optional_has_element(node: Node) -> Tensor:
    """Whether the optional has a value."""
    return node.constant(bool(node.arguments) and node.arguments[0] is not None)


@importer("OptionalGetElement")
def optional_get_element(node: Node) -> list[Argument]:
    """The value of the optional."""
    if not node.arguments or node.arguments[0] is None:
        raise node.unsupported("an optional without a value", "check with OptionalHasElement first")
    return [node.arguments[0]]
