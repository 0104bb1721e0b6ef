"""Who takes part: a file for each program with a record `PEER`, imported only when it takes part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias

from benchmarks.contractions.forms import Case
from benchmarks.peers import Way
from benchmarks.values import Array

NAMES = ("anyrt", "ort", "openvino", "torch", "inductor")
OURS = NAMES[0]
UNTILED = "without Winograd"  # a way of ours

Prepare: TypeAlias = Callable[[Case, dict[str, Array], int], tuple[Way, ...]]


@dataclass(frozen=True, slots=True)
class Peer:
    """A program. prepare(case, inputs, threads): memory bound beforehand."""

    name: str
    version: str
    prepare: Prepare


def load(names: tuple[str, ...]) -> tuple[dict[str, Peer], dict[str, str]]:
    """(peers that are here, why the others are not)."""
    here, missing = {}, {}
    for name in names:
        try:
            here[name] = import_module(f"{__name__}.{name}").PEER
        except ImportError as error:
            missing[name] = str(error)
    return here, missing
