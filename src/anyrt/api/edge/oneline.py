"""The text of objects in the interpreter: one line that never raises, logs nothing and computes little.

>>> quoted("two\\nlines"), listed(["a", "b", "c", "d", "e"], 3)
("'two\\\\nlines'", 'a, b, c, 2 more')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from anyrt.core.dims import Dim
from anyrt.core.dtype import short_name
from anyrt.core.enums import TensorFormat
from anyrt.core.trt_enum import TrtEnum
from anyrt.ir.graph import Type
from anyrt.plan.plan import Binding, Range

if TYPE_CHECKING:
    from anyrt.api.model.state import TensorState

T = TypeVar("T")

MOST_LISTED = 4
MOST_LETTERS = 60


def one_line(text: Callable[[T], str]) -> Callable[[T], str]:
    """A `__repr__` of the name of the class and `text`; only the name if `text` fails.

    Debuggers also show objects whose `__init__` is not complete, or with an internal error."""

    @wraps(text)
    def show(self: T) -> str:
        kind = type(self).__name__
        with suppress(Exception):
            return f"<{kind}{text(self)}>"
        return f"<{kind}, not complete>"

    return show


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def quoted(name: str) -> str:
    """A name in quotes, on one line, truncated if it is long."""
    return repr(cut(name))


def brief(value: object) -> str:
    """The value of a setting; for objects, the class."""
    if isinstance(value, TrtEnum):
        return value.name
    return cut(repr(value)) if isinstance(value, int | str) else f"a {type(value).__name__}"


def listed(parts: Sequence[str], most: int = MOST_LISTED) -> str:
    """The first `most` parts, and the number of the others."""
    more = len(parts) - most
    return ", ".join([*parts[:most], f"{more} more"] if more > 0 else parts) or "nothing"


def sizes(shape: Sequence[Dim]) -> str:
    """A shape as users write it; -1 for dynamic dimensions."""
    return str(tuple(d if isinstance(d, int) else -1 for d in shape))


def type_of(tensor: TensorState) -> Type | None:
    """The shape and type of a tensor of a network; None if they are invalid, without a report."""
    return tensor.network.expansion.peek(tensor)


def shape_text(tensor: TensorState | None) -> str:
    """The shape of an operand or result of a layer."""
    if tensor is None:
        return "not connected"
    type_ = type_of(tensor)
    return "unknown" if type_ is None else sizes(type_.shape)


def tensor_text(tensor: TensorState) -> str:
    """The element type and shape of a tensor of a network."""
    type_ = type_of(tensor)
    return (
        "unknown, its layer is incomplete or invalid"
        if type_ is None
        else f"{short_name(type_.dtype)} {sizes(type_.shape)}"
    )


def bindings_text(bindings: Sequence[Binding]) -> str:
    """The inputs and outputs of an engine: name, element type and shape."""
    texts = {b.name: f"{quoted(b.name)} {short_name(b.dtype)} {sizes(b.shape)}{_format(b)}" for b in bindings}
    takes, gives = ([texts[b.name] for b in bindings if b.is_input is side] for side in (True, False))
    return f"{listed(takes)} -> {listed(gives)}"


def _format(binding: Binding) -> str:
    return "" if binding.format is TensorFormat.LINEAR else f" {binding.format.name}"


def range_text(limits: Range) -> str:
    """The range of an input in a profile."""
    return f"{limits.min} to {limits.max}, optimum {limits.opt}"
