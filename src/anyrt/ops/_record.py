"""The record of an operator, `Op`: the network method, layer class, docs page and tests are derived from it.

An operator keeps its attributes in a frozen dataclass whose fields are made with `attr(...)`. The API derives
the properties of the layer from them, and converts assigned values by the `Kind` of the field.
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
    NUMBER = "int | float"  # of the assigned type
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

    from_rank: the value of an attribute that is None, from the rank of the first operand; the getter returns
    it.
    from_attr: the same, from another attribute, which it names.
    clears: attributes that return to their defaults when this one is assigned (Resize: the last assignment
    of shape and scales applies).
    locked_by: while this operand is connected, an assignment is rejected (AR310) and changes nothing.
    drops: this operand is disconnected when the attribute is assigned.
    sets: the attributes that an assignment sets; the getter returns the first of them.
    optional: None is accepted, too.
    """

    name: str
    kind: Kind
    doc: str
    enum: type[enum.Enum] | None = None
    read_only: bool = False
    from_rank: Callable[[int], int] | None = None
    from_attr: tuple[str, Callable[[Any], object]] | None = None  # Any: the type of that attribute
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
) -> Any:  # the field's annotation states the type, as with dataclasses.field
    """A dataclass field that carries its `AttrSpec`; without `default`, the add method must set it."""
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
    """A method of the layer class without arguments that returns a bool computed from the attributes."""

    name: str
    doc: str
    answer: Callable[[A], bool]


@dataclass(frozen=True, slots=True)
class Input:
    """An operand: its name, the allowed types, and whether it is required.

    shape_values: its *values* are sizes (Shuffle's reshape_dims);
    they must be computable from shapes and constants.
    build_time: its values must be constants.
    is_property: a property of this name connects the operand, as `set_input` does.
    same_as: it must have the type of this operand.
    clears: attributes that return to their defaults when the operand is connected.
    axes: names of its axes, for checks of ranks and equal sizes (`ops/_axes.py`); may depend on the layer.
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
    between two layers. The first layer is the operator's, which computes. The second, of type `exit`, passes
    the output on. Both are `boundary` layers; their property `attribute` is the object.
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

    An optional operand is never a parameter; set_input connects it.
    defaults: Python-level defaults by name. fixed: attributes this method sets itself (is_v2=True).
    renamed: (parameter, attribute) where the names differ (axesMask).
    variadic: the first parameter is a list of tensors (Concatenation).
    label: the name of the layer's kind in default names, if it is not the operator's title.
    example: one or two lines of a program; its tensors are named as the parameters, or x, a and b.
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
    """A method of the layer class that sets several attributes at once.

    params: (parameter, attribute or operand) pairs in order; an operand is connected.
    clears: attributes that return to their defaults.
    """

    name: str
    doc: str
    params: tuple[tuple[str, str], ...]
    clears: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layer(Generic[A]):
    """A layer as its operator sees it: frozen attributes and operands.

    int8: INT8 operands are replaced by the real numbers (FLOAT) that they represent.
    codes: for each of these operands its codes and their scale; None for the others.
    ranks: the number of processes that run the layer, each with a layer of its own.
    """

    name: str
    attrs: A
    inputs: tuple[Value | None, ...]
    int8: bool = False
    codes: tuple[tuple[Value, float | Value] | None, ...] = ()
    ranks: int = 1

    def input(self, i: int) -> Value:
        """Operand `i`; `expand_layer` has checked that it is connected."""
        value = self.inputs[i]
        assert value is not None, f"{self.name}: input {i} is missing"
        return value

    def optional(self, i: int) -> Value | None:
        """Operand `i`, or None if it is not connected."""
        return self.inputs[i] if i < len(self.inputs) else None


@dataclass(frozen=True, slots=True)
class Case(Generic[A]):
    """A derived test: attributes and operand shapes; values are random in low … high unless `data` fixes
    them.

    shapes: None for an operand that is not connected. dtypes: one for all operands, or one for each.
    dynamic: the axes of each operand that are dynamic in the dynamic form; () = all.
    int8: scales of the operands and of the output, for INT8 tensors with dynamic ranges.
    rtol, atol: the error of native float32 code in addition to the rounding of the result. If both are 0,
    ties of integer results must round to the even number, so that the arithmetic before must be exact.
    """

    attrs: A
    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[DataType, ...] = (DataType.FLOAT,)
    data: tuple[Array | None, ...] = ()
    dynamic: tuple[tuple[int, ...], ...] = ()
    low: float = -2.0
    high: float = 2.0
    static_only: bool = False  # a comment at the case says why
    int8: tuple[tuple[float, ...], float] | None = None
    rtol: float = 1e-6
    atol: float = 1e-6


@dataclass(frozen=True, slots=True)
class Mistake(Generic[A]):
    """A layer that must be rejected with `code`: by the build, or (`dynamic`) when the shapes of an inference
    are set.

    The docs list `why`; a derived test checks it."""

    code: str
    why: str
    attrs: A
    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[DataType, ...] = (DataType.FLOAT,)
    data: tuple[Array | None, ...] = ()
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class Op(Generic[A]):
    """A TensorRT layer: everything that AnyRT knows about it.

    expand: the layer in primitives, which also determine shapes and types of the outputs. It checks the
    attributes, and raises an AnyrtError that names the layer. `expand_layer` calls it after checking that
    required operands are connected and have allowed types.
    ref: an independent NumPy implementation on float64 (or integer) arrays, used by tests only. A missing
    operand is ABSENT. For an integer output it may return real numbers, which are then rounded half to even
    and saturated.
    dla: None if DLA could run the layer, else the documented reason why not (`dla_reason` adds the rules
    common to all).
    outputs: their names. A layer without outputs expands to its operand, `Checked` or `Asserted`; an output
    of the network is then tied to it.
    more_outputs: the suffix of default names of outputs after the first one.
    shares: (output, operand) pairs: the output uses the memory of the operand, an input of the network.
    real_int8: whether INT8 operands represent real numbers (dequantised before, quantised after, with the
    tensors' scales); otherwise their codes are copied.
    becomes_codes: whether numbers become INT8 codes by the dynamic range of the output, if it has one.
    coded: INT8 operands and results are codes, whatever dynamic ranges they have.
    within: the class of a part of the network, such as ILoop, that has the add methods; "" for the network.
    The part as a whole defines the meaning of such an operator (api/model/parts.py).
    asked: the number of outputs for these attributes, never fewer than before; None: all.
    exchanges: the result depends on the number of ranks that run the layer, and on their operands.
    removed: TensorRT 10 lacks it; `python -m anyrt.compat --api 8.6` provides it.
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
        """The class of the objects that the add methods return; it has the attributes."""
        return self.cls if self.scope is None else self.scope.cls

    @property
    def title(self) -> str:
        """The name of the operator in texts."""
        return self.owner.removeprefix("I").removesuffix("Layer")

    def specs(self) -> tuple[AttrSpec, ...]:
        """The attributes in order."""
        return tuple(replace(f.metadata["spec"], name=f.name) for f in fields(self.attrs))

    def operand(self, i: int) -> Input:
        """The specification of operand `i`; all operands of a variadic layer have that of the first."""
        return self.inputs[0] if self.methods[0].variadic else self.inputs[i]


AnyOp: TypeAlias = Op[Any]  # attributes differ by operator
EMPTY_BLOB = Blob.empty(DataType.FLOAT)
ABSENT: Array = np.empty(0)  # known by identity: an operand that is not connected, for `ref`


def weights(*values: float, dtype: DataType = DataType.FLOAT) -> Blob:
    """A blob of these numbers, for cases."""
    return Blob(np.array(values, np.float64).astype(numpy_dtype(dtype)), dtype)
