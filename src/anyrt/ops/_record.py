"""What an operator's file fills in: one `Op` record; the network method, layer class, docs page and tests
follow from it.

An operator keeps its attributes in a frozen dataclass whose fields are made with `attr(...)`;
the API derives the layer's
properties from them, converting what the user assigns by the field's `Kind`.
`ops/_expand.py` turns a layer into primitives.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType, LayerType
from anyrt.ir.graph import Value
from anyrt.prims.const import Blob

Array = NDArray[np.generic]
VOLUME_LIMIT = 2**31 - 1


class Kind(enum.Enum):
    """How the API converts a value assigned to an attribute, and how its getter shows it."""

    ENUM = "enum"  # member of `enum`
    INT = "int"
    FLOAT = "float"
    NUMBER = "int | float"  # what it was given as
    BOOL = "bool"
    TEXT = "str"
    DIMS = "Dims"  # tuple[int, ...] | None when unset; getter: Dims (rank −1 when unset)
    PERMUTATION = "Permutation"  # tuple[int, ...] | None when unset (identity)
    FLOATS = "list[float]"  # tuple[float, ...]
    WEIGHTS = "Weights"  # Blob; the empty Blob when unset
    AXES = "axes bitmask"  # int


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """One attribute as the API and the docs see it.

    from_rank: what an attribute that is None stands for, from the rank of the first operand;
    the getter shows it.
    from_attr: the same, from another attribute, which it names.
    clears: attributes that go back to their defaults when this one is assigned (Resize:
    the last of shape and scales counts).
    locked_by: while this operand is connected, an assignment is refused (AR310) and changes nothing.
    drops: this operand is disconnected when the attribute is assigned.
    sets: attributes that an assignment goes to; it shows the first of them.
    optional: None may be given, too.
    """

    name: str
    kind: Kind
    doc: str
    enum: type[enum.Enum] | None = None
    read_only: bool = False
    from_rank: Callable[[int], int] | None = None
    from_attr: tuple[str, Callable[[Any], object]] | None = None  # Any: whatever that attribute is
    clears: tuple[str, ...] = ()
    locked_by: int | None = None
    drops: int | None = None
    sets: tuple[str, ...] = ()
    optional: bool = False


REQUIRED = object()


def attr(
    kind: Kind,
    doc: str,
    default: object = REQUIRED,
    *,
    enum: type[enum.Enum] | None = None,
    read_only: bool = False,
    from_rank: Callable[[int], int] | None = None,
    from_attr: tuple[str, Callable[[Any], object]] | None = None,  # Any: as in AttrSpec
    clears: tuple[str, ...] = (),
    locked_by: int | None = None,
    drops: int | None = None,
    sets: tuple[str, ...] = (),
    optional: bool = False,
) -> Any:  # the field's annotation says the type, as with dataclasses.field
    """A dataclass field that carries its `AttrSpec`; without `default` the add method must give it."""
    spec = AttrSpec(
        "", kind, doc, enum, read_only, from_rank, from_attr, clears, locked_by, drops, sets, optional
    )
    meta = {"spec": spec}
    return field(metadata=meta) if default is REQUIRED else field(default=default, metadata=meta)


@dataclass(frozen=True, slots=True)
class Attrs:
    """Base of every operator's attribute dataclass."""


A = TypeVar("A", bound=Attrs)


@dataclass(frozen=True, slots=True)
class Query(Generic[A]):
    """A method of the layer class that takes nothing and tells a truth about the attributes."""

    name: str
    doc: str
    answer: Callable[[A], bool]


@dataclass(frozen=True, slots=True)
class Input:
    """An operand: its name, the types allowed, and whether it may be left out.

    shape_values: its *values* decide sizes (Shuffle's reshape_dims);
    they must be computable from shapes and constants.
    build_time: its values must be constants.
    is_property: the layer has a property of its name; it may be connected by `set_input`, too.
    same_as: must have the type of this operand.
    clears: attributes that go back to their defaults when the operand is connected.
    axes: their names, so that ranks and equal sizes are checked (`ops/_axes.py`); of some layers other ones.
    """

    name: str
    dtypes: frozenset[DataType]
    required: bool = True
    shape_values: bool = False
    same_as: int | None = None
    build_time: bool = False
    clears: tuple[str, ...] = ()
    is_property: bool = False
    axes: str | Callable[[Layer[Any]], str | None] | None = None  # Any: a layer of the operator


@dataclass(frozen=True, slots=True)
class Scope:
    """What an add method returns in place of its layer: an object of class `cls`, for a part of the network
    between two layers. The first one is the operator's, which computes; the other, of type `exit`, passes its
    output on. Both are `boundary` layers, whose property `attribute` is the object.
    """

    cls: str
    boundary: str
    attribute: str
    exit: LayerType
    exit_cls: str


@dataclass(frozen=True, slots=True)
class Method:
    """An `add_*` method: its Python parameters in order, each the name of an attribute or of a required
    operand.

    An optional operand is never a parameter, it arrives through set_input.
    defaults: Python-level defaults by name. fixed: attributes this method sets itself (is_v2=True).
    renamed: (parameter, attribute) where the names differ (axesMask).
    variadic: the first parameter is a list of tensors (Concatenation).
    label: what default names call the layer, where that is not the operator's title.
    example: a line or two of a program, whose tensors are named as the parameters, or x, a and b.
    """

    name: str
    params: tuple[str, ...]
    defaults: tuple[tuple[str, object], ...] = ()
    fixed: tuple[tuple[str, object], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    variadic: bool = False
    example: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Setter:
    """A method of the layer class that sets several at once.

    params: (parameter, attribute or operand) pairs in order; an operand is connected.
    clears: attributes that go back to their defaults.
    """

    name: str
    doc: str
    params: tuple[tuple[str, str], ...]
    clears: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layer(Generic[A]):
    """A layer as its operator sees it: frozen attributes and operands.

    int8: operands that were INT8 stand here as the real numbers (FLOAT) they mean.
    codes: for each of these also what is stored, and what a step of it is worth; None for the others.
    ranks: how many processes run it, each with a layer of its own.
    """

    name: str
    attrs: A
    inputs: tuple[Value | None, ...]
    int8: bool = False
    codes: tuple[tuple[Value, float | Value] | None, ...] = ()
    ranks: int = 1

    def input(self, i: int) -> Value:
        """Operand `i`, which `expand_layer` has made sure is there."""
        value = self.inputs[i]
        assert value is not None, f"{self.name}: input {i} is missing"
        return value

    def optional(self, i: int) -> Value | None:
        """Operand `i`, or None when it was never set."""
        return self.inputs[i] if i < len(self.inputs) else None


@dataclass(frozen=True, slots=True)
class Case(Generic[A]):
    """A derived test: attributes and operand shapes; values are random in low … high unless `data` fixes
    them.

    shapes: None for an operand that is left out. dtypes: one for all operands, or one for each.
    dynamic: the axes of each operand that the dynamic version leaves open; () = all.
    int8: scales of the operands and of the output, for INT8 tensors with dynamic ranges.
    rtol, atol: what native float32 code may add to the rounding of the result; with neither, ties of integer
    results must go to the even number, so that the arithmetic before has to be exact.
    """

    attrs: A
    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[DataType, ...] = (DataType.FLOAT,)
    data: tuple[Array | None, ...] = ()
    dynamic: tuple[tuple[int, ...], ...] = ()
    low: float = -2.0
    high: float = 2.0
    static_only: bool = False  # why a size must be fixed stands beside the case
    int8: tuple[tuple[float, ...], float] | None = None
    rtol: float = 1e-6
    atol: float = 1e-6


@dataclass(frozen=True, slots=True)
class Mistake(Generic[A]):
    """A layer that must be refused with `code`: when it is built, or (`dynamic`) when the sizes of a run
    are known.

    The docs list `why`; a derived test tries it."""

    code: str
    why: str
    attrs: A
    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[DataType, ...] = (DataType.FLOAT,)
    data: tuple[Array | None, ...] = ()
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class Op(Generic[A]):
    """A TensorRT layer: everything the product knows about it.

    expand: meaning in primitives; also gives shape and type of the outputs. Judges attributes:
    raises AnyrtError naming the
    layer. Called through `expand_layer`, which has checked that operands are there and have allowed types.
    ref: independent NumPy answer from float64 (or integer) arrays, used by tests only;
    an operand that is left out is ABSENT.
    It may answer an integer output with real numbers, which are then rounded half to even and saturated.
    dla: None when DLA could run the layer, else the documented reason why not (`dla_reason` adds the rules
    common to all).
    outputs: their names. A layer without any expands to an operand of its own, `Checked` or `Asserted`, which
    an output of the network then is as well.
    more_outputs: how default names of outputs behind the first one tell which one it is.
    shares: (output, operand) pairs: the output has the operand's memory, which is an input of the network.
    real_int8: whether INT8 operands stand for real numbers (dequantised before, quantised after, with the
    tensors' scales);
    otherwise their codes are copied.
    becomes_codes: whether numbers become INT8 codes by the dynamic range of the output, where there is one.
    coded: INT8 operands and results are codes here, whatever dynamic ranges they have.
    within: the class of a part of the network, as ILoop, that has the add methods; "" for the network itself.
    What such an operator means, the part as a whole says (api/model/parts.py).
    asked: how many of the outputs there are with these attributes, never fewer than before; None: all.
    exchanges: what it gives depends on how many ranks run it, and on what the others give.
    removed: TensorRT 10 has it no more, so that it is there with `python -m anyrt.compat --api 8.6` only.
    """

    layer: LayerType
    cls: str
    methods: tuple[Method, ...]
    inputs: tuple[Input, ...]
    attrs: type[A]
    expand: Callable[[Layer[A]], tuple[Value, ...]]
    ref: Callable[[A, tuple[Array, ...]], tuple[Array, ...]]
    doc: str
    cases: Callable[[], tuple[Case[A], ...]]
    mistakes: Callable[[], tuple[Mistake[A], ...]] = tuple
    dla: Callable[[Layer[A]], str | None] = lambda layer: "DLA does not run this layer"
    onnx: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("output",)
    more_outputs: str = "_{}"
    real_int8: Callable[[A], bool] = lambda attrs: False
    volume_limit: int = VOLUME_LIMIT
    source: str = ""
    removed: bool = False
    scope: Scope | None = None
    shares: tuple[tuple[int, int], ...] = ()
    queries: tuple[Query[A], ...] = ()
    setters: tuple[Setter, ...] = ()
    asked: Callable[[A], int] | None = None
    coded: bool = False
    becomes_codes: Callable[[A], bool] = lambda attrs: False
    exchanges: bool = False
    within: str = ""

    @property
    def owner(self) -> str:
        """The class of what the add methods return, which has the attributes."""
        return self.cls if self.scope is None else self.scope.cls

    @property
    def title(self) -> str:
        """What the operator is called in text."""
        return self.owner.removeprefix("I").removesuffix("Layer")

    def specs(self) -> tuple[AttrSpec, ...]:
        """The attributes in order."""
        return tuple(replace(f.metadata["spec"], name=f.name) for f in fields(self.attrs))

    def operand(self, i: int) -> Input:
        """What operand `i` may be; every operand of a variadic layer is like its first."""
        return self.inputs[0] if self.methods[0].variadic else self.inputs[i]


AnyOp: TypeAlias = Op[Any]  # attributes differ by operator
EMPTY_BLOB = Blob.empty(DataType.FLOAT)
ABSENT: Array = np.empty(0)  # known by identity: an operand that was left out, for `ref`


def weights(*values: float, dtype: DataType = DataType.FLOAT) -> Blob:
    """A blob of these numbers, for cases."""
    return Blob(np.array(values, np.float64).astype(numpy_dtype(dtype)), dtype)
