"""What each peer offers: how many ways there are to compute a case with it, and who is here.

A peer is a module of this package with a record `PEER`. It is imported only when it takes part, since its
program may not be installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TypeAlias

from benchmarks.cases import Case
from benchmarks.values import Array

NAMES = ("anyrt", "numpy", "ort", "openvino", "torch", "inductor", "jax", "iree", "opencv")
OURS = NAMES[0]


class Cannot(Exception):
    """The peer has no way to compute this case; the text says why."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to compute a case: `run` again and again, then `result` gives what the last run made."""

    label: str
    run: Callable[[], object]
    result: Callable[[], Array]
    facts: tuple[tuple[str, float], ...] = ()


Prepare: TypeAlias = Callable[[Case, Array, int], tuple[Way, ...]]


def no_calls(case: Case, x: Array, threads: int) -> tuple[Way, ...]:
    """Nothing beside what `prepare` gives."""
    return ()


@dataclass(frozen=True, slots=True)
class Peer:
    """A program. prepare(case, input, threads): memory bound beforehand; plain: arrays in, arrays out."""

    name: str
    version: str
    prepare: Prepare
    plain: Prepare = field(default=no_calls)


def load_peers(names: tuple[str, ...]) -> tuple[dict[str, Peer], dict[str, str]]:
    """(peers that are here, why the others are not)."""
    here, missing = {}, {}
    for name in names:
        try:
            here[name] = import_module(f"benchmarks.peers.{name}").PEER
        except ImportError as error:
            missing[name] = str(error)
    return here, missing


class Kept:
    """Calls `function` and keeps what it gave."""

    __slots__ = ("function", "value")

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self.value: object = None

    def __call__(self) -> None:
        self.value = self.function()
