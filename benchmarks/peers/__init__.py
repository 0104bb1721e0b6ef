"""Who takes part: a module for each program with a record `PEER`, imported only when it takes part.

A peer gets a task and gives ways to compute it. What a case means to a program says the package of the case's
language (layers, contractions, families): `in_anyrt`, `onnx_model` and `in_torch` there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Protocol, TypeAlias

from benchmarks.values import Array

NAMES = ("anyrt", "numpy", "ort", "openvino", "torch", "inductor", "jax", "iree", "opencv")
OF_ALL = ("anyrt", "ort", "openvino", "torch", "inductor")  # those that know every language
OURS = NAMES[0]
DYNAMIC = "dynamic"  # an engine of ours for several sizes
UNTILED = "without Winograd"  # and one of those that have Winograd's tiles otherwise


class Cannot(Exception):
    """The peer has no way to compute this case; the text says why."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to compute a case: `run` again and again, then `result` gives all that the last run made."""

    label: str
    run: Callable[[], object]
    result: Callable[[], tuple[Array, ...]] = tuple
    facts: tuple[tuple[str, float], ...] = ()


class Named(Protocol):
    """What every case has; language: the package that translates it."""

    language: ClassVar[str]

    @property
    def name(self) -> str:
        """Unlike those of the others of its table."""


@dataclass(frozen=True, slots=True)
class Task:
    """A case on memory. outputs: arrays of the types and shapes that results must have; what they hold is no
    matter."""

    case: Any  # Any: of a language, which its own modules know
    inputs: Mapping[str, Array]
    outputs: tuple[Array, ...]
    threads: int

    def translated(self, module: str) -> Any:  # Any: a module of the language
        """What the case means to a program."""
        return import_module(f"{self.case.language}.{module}")


@dataclass(frozen=True, slots=True)
class Model:
    """An ONNX model, as text or a file, with inputs, and outputs as `Task` has them, in its own types.

    counted: programs make memory for results, whose sizes data decide. read: what makes the case's result of
    one of the model's. precision: of OpenVINO. entries: of ONNX Runtime's configuration.
    """

    text: bytes | str
    inputs: Mapping[str, Array]
    outputs: tuple[Array, ...] = ()
    counted: bool = False
    read: Callable[[Array], Array] = lambda y: y
    precision: str = "f32"
    entries: Mapping[str, str] = field(default_factory=dict)


Prepare: TypeAlias = Callable[[Task], tuple[Way, ...]]


def no_calls(task: Task) -> tuple[Way, ...]:
    """Nothing beside what `prepare` gives."""
    return ()


@dataclass(frozen=True, slots=True)
class Peer:
    """A program. prepare(task): memory bound beforehand; plain: arrays in, arrays out."""

    name: str
    version: str
    prepare: Prepare
    plain: Prepare = no_calls


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
