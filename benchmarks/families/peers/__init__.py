"""Who takes part: a file for each program with a record `PEER`, imported only when it takes part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias

from benchmarks.families.case import Case
from benchmarks.peers import Way
from benchmarks.values import Array

NAMES = ("anyrt", "ort", "openvino", "torch", "inductor")
OURS = NAMES[0]


@dataclass(frozen=True, slots=True)
class Task:
    """A case on memory; results: the right ones, whose types and shapes those of a program must have."""

    case: Case
    given: Mapping[str, Array]
    results: tuple[Array, ...]
    threads: int


@dataclass(frozen=True, slots=True)
class Results:
    """A way to compute a case and all results of its last run."""

    way: Way
    fetch: Callable[[], tuple[Array, ...]]


Prepare: TypeAlias = Callable[[Task], tuple[Results, ...]]


@dataclass(frozen=True, slots=True)
class Peer:
    """A program. prepare(task): memory bound beforehand."""

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


def made(label: str, run: Callable[[], object], fetch: Callable[[], tuple[Array, ...]]) -> Results:
    """A way whose results are `fetch`'s."""
    return Results(Way(label, run, lambda: fetch()[0]), fetch)
