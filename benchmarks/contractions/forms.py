"""The cases as data: a form, an element type, and the layers that follow.

>>> Product(8, 768, 3072).flops
37748736
>>> Window((3, 3), (2, 2), (1, 1)).sizes((56, 56))
(28, 28)
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from benchmarks.steps import Element, Shape, Tensor


class Group(enum.Enum):
    """Cases with the same goal."""

    LARGE = "large products and convolutions"
    MEMORY = "products bound by memory"
    SMALL = "small and odd products"
    OTHER = "depthwise, first layers, 1-D, 3-D, deconvolution, pooling, softmax"
    ATTENTION = "attention"
    HALF = "half types"
    INT8 = "int8"
    NETWORK = "networks"


class Tail(enum.Enum):
    """A layer behind a form; RESIDUAL adds an input of the result's shape."""

    BIAS = "bias"
    GELU = "gelu"
    RESIDUAL = "residual"
    RELU = "relu"


class Mask(enum.Enum):
    """The positions that attention masks: none, by numbers that are added to the scores, or later ones."""

    NONE = "none"
    ADDED = "mask"
    CAUSAL = "causal"


class Fold(enum.Enum):
    """How pooling reduces a window."""

    MAX = "max"
    AVERAGE = "avg"


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel size, stride, padding of both sides of each axis, groups and dilation; transposed: of a
    deconvolution."""

    kernel: Shape
    stride: Shape
    pad: Shape
    groups: int = 1
    dilation: int = 1
    transposed: bool = False

    def sizes(self, size: Shape) -> Shape:
        """The number of positions along each axis, or the size of the result of a deconvolution."""
        axes = [*zip(size, self.kernel, self.stride, self.pad, strict=True)]
        if self.transposed:
            return tuple((d - 1) * s + k - 2 * p for d, k, s, p in axes)
        return tuple((d + 2 * p - self.dilation * (k - 1) - 1) // s + 1 for d, k, s, p in axes)


@dataclass(frozen=True, slots=True)
class Product:
    """(…, m, k) times (…, k, n); constant: the right side is weights, without batches."""

    m: int
    k: int
    n: int
    batch: Shape = ()
    constant: bool = True

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * math.prod(self.batch) * self.m * self.k * self.n

    @property
    def result(self) -> Shape:
        """The result's shape."""
        return (*self.batch, self.m, self.n)


@dataclass(frozen=True, slots=True)
class Convolution:
    """Of (batch, c_in, *size) by a constant kernel."""

    c_in: int
    c_out: int
    size: Shape
    window: Window
    batch: int = 1

    @property
    def flops(self) -> int:
        """Multiplications and additions; of deconvolution without the zeros between elements."""
        places = self.size if self.window.transposed else self.result[2:]
        each = self.c_in * self.c_out // self.window.groups * math.prod(self.window.kernel)
        return 2 * self.batch * each * math.prod(places)

    @property
    def result(self) -> Shape:
        """The result's shape."""
        return (self.batch, self.c_out, *self.window.sizes(self.size))

    @property
    def kernel(self) -> Shape:
        """The kernel's shape: (c_out, c_in / groups, …), or (c_in, c_out / groups, …) when transposed."""
        outer, inner = (self.c_in, self.c_out) if self.window.transposed else (self.c_out, self.c_in)
        return (outer, inner // self.window.groups, *self.window.kernel)


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax of queries times keys, times values, for each head; `shared`: heads that share their keys."""

    heads: int
    queries: int
    keys: int
    size: int
    mask: Mask = Mask.NONE
    shared: int = 1
    batch: int = 1

    @property
    def flops(self) -> int:
        """Multiplications and additions of both products; of causal attention without masked positions."""
        pairs = self.queries * self.keys
        if self.mask is Mask.CAUSAL:
            pairs = sum(min(i + 1, self.keys) for i in range(self.queries))
        return 4 * self.batch * self.heads * pairs * self.size

    @property
    def result(self) -> Shape:
        """The result's shape."""
        return (self.batch, self.heads, self.queries, self.size)

    @property
    def remembered(self) -> Shape:
        """The shape of keys and of values."""
        return (self.batch, self.heads // self.shared, self.keys, self.size)


@dataclass(frozen=True, slots=True)
class Pool:
    """The maximum of each window, or the mean without padding."""

    fold: Fold
    channels: int
    size: Shape
    window: Window
    batch: int = 1
    flops: int = 0

    @property
    def result(self) -> Shape:
        """The result's shape."""
        return (self.batch, self.channels, *self.window.sizes(self.size))


@dataclass(frozen=True, slots=True)
class Softmax:
    """Softmax of each row."""

    rows: int
    length: int
    flops: int = 0

    @property
    def result(self) -> Shape:
        """The result's shape."""
        return (self.rows, self.length)


@dataclass(frozen=True, slots=True)
class Whole:
    """A network of networks.py, by name; weights: the number of its weights."""

    network: str
    input: Shape
    result: Shape
    flops: int
    weights: int


Form: TypeAlias = Product | Convolution | Attention | Pool | Softmax | Whole


@dataclass(frozen=True, slots=True)
class Case:
    """A form with the layers that follow. open: minimum, optimum and maximum of the inputs' first axis, for
    one more engine that serves all of them."""

    language: ClassVar[str] = "benchmarks.contractions"
    name: str
    group: Group
    form: Form
    tail: tuple[Tail, ...] = ()
    dtype: Element = Element.F32
    open: Shape = ()


def inputs(case: Case) -> dict[str, Tensor]:
    """The inputs of a case, by name."""
    shapes: dict[str, Shape]
    match case.form:
        case Product(constant=True) as form:
            shapes = {"x": (*form.batch, form.m, form.k)}
        case Product() as form:
            shapes = {"x": (*form.batch, form.m, form.k), "w": (*form.batch, form.k, form.n)}
        case Convolution() as form:
            shapes = {"x": (form.batch, form.c_in, *form.size)}
        case Pool() as form:
            shapes = {"x": (form.batch, form.channels, *form.size)}
        case Softmax() as form:
            shapes = {"x": form.result}
        case Attention() as form:
            shapes = {"q": form.result, "k": form.remembered, "v": form.remembered}
            if form.mask is Mask.ADDED:
                shapes["m"] = (1, 1, form.queries, form.keys)
        case Whole() as form:
            shapes = {"x": form.input}
    if Tail.RESIDUAL in case.tail:
        shapes["r"] = case.form.result
    return {name: Tensor(shape, case.dtype) for name, shape in shapes.items()}


def result(case: Case) -> Tensor:
    """The result of a case."""
    return Tensor(case.form.result, case.dtype)


def traffic(case: Case) -> tuple[int, int]:
    """(bytes read, bytes written) at least: inputs and weights, the result."""
    read = sum(t.nbytes for t in inputs(case).values()) + _weights(case) * case.dtype.numpy.itemsize
    if isinstance(case.form, Convolution) and not case.form.window.transposed:
        read -= _unread(case.form) * case.dtype.numpy.itemsize
    return read, result(case).nbytes


def _weights(case: Case) -> int:
    match case.form:
        case Product(constant=True) as form:
            count = form.k * form.n
        case Convolution() as form:
            count = math.prod(form.kernel)
        case Whole() as form:
            count = form.weights
        case _:
            count = 0
    return count + (_channels(case.form) if Tail.BIAS in case.tail else 0)


def _channels(form: Form) -> int:
    return form.c_out if isinstance(form, Convolution) else form.result[-1]


def _unread(form: Convolution) -> int:
    """Elements of rows that lie between windows; inside a row, each cache line is read."""
    kernel, stride = form.window.kernel[:-1], form.window.stride[:-1]
    rows = math.prod(form.size[:-1])
    read = math.prod(d if k >= s else n * k for d, k, s, n in
                     zip(form.size[:-1], kernel, stride, form.result[2:-1], strict=True))  # fmt: skip
    return form.batch * form.c_in * form.size[-1] * (rows - read)
