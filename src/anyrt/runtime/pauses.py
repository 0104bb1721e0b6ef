"""Data-dependent sizes without an upper bound: an inference pauses when they are computed (plan/abi.py).

The memory of their outputs contains NOT_COMPUTED until an inference has computed their numbers.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from anyrt.core.counts import is_open, named
from anyrt.plan import abi
from anyrt.plan.plan import Binding, Plan

NOT_COMPUTED: Final = -(1 << 63)
# For each open size, in the order of the plan; None: not computed yet.
ComputedSizes: TypeAlias = tuple[int | None, ...]


def open_outputs(plan: Plan, position: Mapping[str, int]) -> tuple[int, ...]:
    """The outputs that contain open sizes, as indices of bindings."""
    return tuple(position[s.tensor] for s in plan.symbols if is_open(s.sym))


def late_outputs(plan: Plan) -> tuple[int, ...]:
    """The outputs whose memory is requested when open sizes are computed."""
    return tuple(i for i, b in enumerate(plan.bindings) if names(b))


def names(binding: Binding) -> frozenset[str]:
    """The open sizes that the shape of a tensor, or its upper bound, depends on."""
    return frozenset(s.name for d in binding.shape for s in named(d) if is_open(s))


def forget(words: array[int], outputs: Iterable[int]) -> None:
    """Reset before an inference."""
    for at in outputs:
        ctypes.c_int64.from_address(words[abi.FIRST_BINDING + at]).value = NOT_COMPUTED


def computed_sizes(words: array[int], outputs: Iterable[int]) -> ComputedSizes:
    """The sizes that the inference has computed so far."""
    numbers = (ctypes.c_int64.from_address(words[abi.FIRST_BINDING + at]).value for at in outputs)
    return tuple(None if x == NOT_COMPUTED else x for x in numbers)
