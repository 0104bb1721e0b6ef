"""The tensors that may share memory: inputs with one another, and a cache with its update.

>>> from anyrt.core.enums import DataType
>>> x, y = (Binding(n, n == "x", DataType.FLOAT, (4,)) for n in "xy")
>>> check((x, y), {}, (64, 80), (16, 16))
>>> check((x, y), {}, (64, 76), (16, 16))
Traceback (most recent call last):
anyrt.core.errors.BindingError: [AR711] y: got memory that the input x also uses, wanted separate memory; \
bind the output to another array
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from anyrt.core.errors import BindingError
from anyrt.plan.plan import Binding

FEW: Final = 16  # tensors below which comparing one with all others is faster than sorting


def check(
    bindings: Sequence[Binding],
    sources: Mapping[int, int],
    addresses: Sequence[int],
    sizes: Sequence[int],
    lenders: Mapping[int, int] | None = None,
) -> None:
    """BindingError if an output overlaps an input, or does not have the address of its input. `sources`: the
    inputs that outputs update, by index; `lenders`: those whose memory they may share."""
    for output, source in sources.items():
        if addresses[output] != addresses[source] and sizes[output]:
            name = bindings[source].name
            got, wanted = f"other memory than {name}", f"that of {name}, which it updates in place"
            do = f"bind {bindings[output].name} to the address of {name}"
            raise BindingError("AR711", bindings[output].name, got, wanted, do)
    for a, b in _overlaps(addresses, sizes):
        output, source = (b, a) if bindings[a].is_input else (a, b)
        if bindings[output].is_input or not bindings[source].is_input or sources.get(output) == source:
            continue
        if (lenders or {}).get(output) == source and addresses[output] == addresses[source]:
            continue
        got, do = (
            f"memory that the input {bindings[source].name} also uses",
            "bind the output to another array",
        )
        raise BindingError("AR711", bindings[output].name, got, "separate memory", do)


def rivals(bindings: Sequence[Binding], sources: Mapping[int, int]) -> list[tuple[int, ...] | None]:
    """For each tensor those that it must not overlap; None if these are many, or not all of the other
    side."""
    if sources or len(bindings) > FEW:
        return [None] * len(bindings)
    return [tuple(k for k, b in enumerate(bindings) if b.is_input is not a.is_input) for a in bindings]


def _overlaps(addresses: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """All pairs of ranges that overlap."""
    there: list[int] = []
    for k in sorted((k for k, size in enumerate(sizes) if size), key=addresses.__getitem__):
        there = [j for j in there if addresses[j] + sizes[j] > addresses[k]]
        yield from ((j, k) for j in there)
        there.append(k)
