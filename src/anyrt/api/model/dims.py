"""Shapes and permutations: `Dims`, its subclasses, and `Permutation`.

>>> shape = Dims([1, 3, -1])
>>> shape == (1, 3, -1), len(shape), shape[1:], DimsHW(4, 5).w
(True, 3, (3, -1), 5)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from anyrt.api.edge.fixed import Fixed, ListedABC
from anyrt.api.edge.fold import fold
from anyrt.api.edge.quiet import WrongValue, integer, number, wrong_type
from anyrt.core.dimlimits import MAX_RANK
from anyrt.core.errors import ArgumentError, ShapeError

MAX_DIMS = MAX_RANK


def integers(x: object, where: str) -> tuple[int, ...]:
    """The elements of a list, tuple, `Dims` or one-dimensional array as ints; TypeError for anything else."""
    if isinstance(x, str | bytes) or not isinstance(x, Iterable):
        do = f"write ({x},)" if isinstance(x, int) else ""
        raise wrong_type(where, x, "a sequence of ints", do)
    return tuple(integer(item, where) for item in x)


def sizes(x: object, where: str) -> tuple[int, ...]:
    """At most 8 ints, from any object that converts to `Dims`."""
    out = integers(x, where)
    if len(out) > MAX_DIMS:
        raise WrongValue(_too_long(where, len(out)))
    return out


def _too_long(where: str, length: int) -> ShapeError:
    return ShapeError("AR115", where, f"{length} dimensions", f"at most {MAX_DIMS}")


def floats(x: object, where: str) -> tuple[float, ...]:
    """A sequence of numbers."""
    try:
        return tuple(number(f, where) for f in x)  # type: ignore[attr-defined]  # not a sequence: TypeError, caught below
    except TypeError:
        raise wrong_type(where, x, "a sequence of floats") from None


@fold
class Dims(Fixed, Sequence[int], metaclass=ListedABC):
    """At most 8 dimensions. Acts like a tuple, but its elements can be assigned. Rank −1: not known."""

    __slots__ = ("__weakref__", "_known", "_sizes")

    MAX_DIMS = MAX_DIMS
    _length: int | None = None

    def __init__(self, *shape: int | Iterable[int]) -> None:
        elements = shape[0] if len(shape) == 1 and isinstance(shape[0], Iterable) else shape
        sizes = integers(elements, type(self).__name__) if shape else (0,) * (self._length or 0)
        if len(sizes) > MAX_DIMS:
            raise WrongValue(_too_long(type(self).__name__, len(sizes)))
        if self._length not in (None, len(sizes)):
            got, wanted = f"{len(sizes)} sizes", f"{self._length}"
            raise WrongValue(
                ShapeError(
                    "AR108", type(self).__name__, got, wanted, "use Dims for another number of dimensions"
                )
            )
        self._sizes = list(sizes)
        self._known = True

    @property
    def rank(self) -> int:
        """Number of dimensions, −1 when the shape is not known."""
        return len(self._sizes) if self._known else -1

    def __len__(self) -> int:
        if not self._known:
            raise ValueError("__len__() should return >= 0: these dimensions are not known")
        return len(self._sizes)

    def __bool__(self) -> bool:
        return self._known and bool(self._sizes)

    def __iter__(self) -> Iterator[int]:
        len(self)
        return iter(tuple(self._sizes))

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        return tuple(self._sizes[index]) if isinstance(index, slice) else self._sizes[index]

    def __setitem__(self, index: int | slice, value: int | Iterable[int]) -> None:
        if not isinstance(index, slice):
            self._sizes[index] = integers((value,), "Dims")[0]
            return
        sizes = integers(value, "Dims")
        if len(sizes) != len(self._sizes[index]):
            got, wanted = f"{len(sizes)} values", f"{len(self._sizes[index])}, as many as the slice has"
            raise WrongValue(ShapeError("AR108", "Dims", got, wanted, "pass one value per dimension"))
        self._sizes[index] = sizes

    def __add__(self, other: object) -> tuple[int, ...]:
        """A tuple: these dimensions, followed by those of `other`, a tuple or `Dims`."""
        return (*self, *other) if isinstance(other, Dims | tuple) else NotImplemented

    def __radd__(self, other: object) -> tuple[int, ...]:
        return (*other, *self) if isinstance(other, tuple) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dims):
            return self._known == other._known and self._sizes == other._sizes
        if isinstance(other, list | tuple):
            return self._known and self._sizes == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable and compared by value: what Python itself does without annotations

    def __repr__(self) -> str:
        return repr(tuple(self._sizes)) if getattr(self, "_known", False) else "(unknown)"


def unknown_dims() -> Dims:
    """The `Dims` of rank −1."""
    dims = Dims()
    dims._known = False
    return dims


@fold
class Dims2(Dims):
    """Two sizes."""

    __slots__ = ()

    _length = 2


@fold
class DimsHW(Dims2):
    """Height and width."""

    __slots__ = ()

    def __init__(self, *args: int | Iterable[int], **named: int) -> None:
        Dims2.__init__(self, *(args or tuple(named[k] for k in ("h", "w") if k in named)))

    @property
    def h(self) -> int:
        """Height."""
        return self[0]

    @h.setter
    def h(self, value: int) -> None:
        self[0] = value

    @property
    def w(self) -> int:
        """Width."""
        return self[1]

    @w.setter
    def w(self, value: int) -> None:
        self[1] = value


@fold
class Dims3(Dims):
    """Three sizes."""

    __slots__ = ()

    _length = 3


@fold
class Dims4(Dims):
    """Four sizes."""

    __slots__ = ()

    _length = 4


@fold
class Permutation(Fixed):
    """An array of 8 axes, of which a layer uses the first rank ones. `count`: how many were set."""

    __slots__ = ("__weakref__", "_axes", "count")

    def __init__(self, order: Permutation | Sequence[int] = ()) -> None:
        axes = integers(order, "Permutation")
        if len(axes) > MAX_DIMS:
            got, wanted = f"{len(axes)} axes", f"at most {MAX_DIMS}"
            raise WrongValue(ArgumentError("AR301", "Permutation", got, wanted))
        self.count: int = order.count if isinstance(order, Permutation) else len(axes)
        self._axes: list[int] = [*axes, *range(len(axes), MAX_DIMS)]

    def __len__(self) -> int:
        return MAX_DIMS

    def __getitem__(self, index: int) -> int:
        return self._axes[index]

    def __setitem__(self, index: int, axis: int) -> None:
        self._axes[index] = integers((axis,), "Permutation")[0]
        self.count = max(self.count, range(MAX_DIMS)[index] + 1)

    def __repr__(self) -> str:
        return repr(tuple(getattr(self, "_axes", ())))

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that were set."""
        return tuple(self._axes[: self.count])
