"""Data-dependent sizes without an upper bound: an inference pauses when they are computed (plan/abi.py).

Their numbers are in the memory of their outputs, which contains UNTOLD until an inference has computed them.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from anyrt.core.counts import is_open, named
from anyrt.plan import abi
from anyrt.plan.plan import Binding, Plan

UNTOLD: Final = -(1 << 63)
Told: TypeAlias = tuple[int | None, ...]  # for each open size in the order of the plan; None: not found yet


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
        ctypes.c_int64.from_address(words[abi.FIRST_BINDING + at]).value = UNTOLD


def told(words: array[int], outputs: Iterable[int]) -> Told:
    """The sizes that the inference has computed so far."""
    found = (ctypes.c_int64.from_address(words[abi.FIRST_BINDING + at]).value for at in outputs)
    return tuple(None if x == UNTOLD else x for x in found)
