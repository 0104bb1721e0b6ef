"""The peers: a module for each program with a record `PEER`, imported only if it is measured. That of
PyTorch also has the record of torch.compile.

A peer prepares ways to compute a task. The package of the case's language (layers, contractions, families)
translates the case: `in_anyrt`, `onnx_model` and `in_torch`.
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
PLACES = {"inductor": ("torch", "COMPILED")}  # of a peer whose module has another name
DYNAMIC = "dynamic"  # an engine of ours for several sizes
UNTILED = "without Winograd"  # and one of those that have Winograd's tiles otherwise


class Cannot(Exception):
    """The peer cannot compute this case; the text is the reason."""


REASON = 200  # characters


def first_line(error: Exception) -> str:
    """The kind of an error and the first line of its text that does not end with a colon."""
    kind = "cannot" if isinstance(error, Cannot) else type(error).__name__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{kind}: {next((x for x in lines if not x.endswith(':')), '')}"[:REASON]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to compute a case: call `run` repeatedly, then `result` returns the outputs of the last run."""

    label: str
    run: Callable[[], object]
    result: Callable[[], tuple[Array, ...]] = tuple
    facts: tuple[tuple[str, float], ...] = ()


class Named(Protocol):
    """A case of any language; language: the package that translates it."""

    language: ClassVar[str]

    @property
    def name(self) -> str:
        """Unique in its table."""


@dataclass(frozen=True, slots=True)
class Task:
    """A case with its inputs. outputs: arrays of the types and shapes of results, with any content."""

    case: Any  # Any: of a language, which its own modules know
    inputs: Mapping[str, Array]
    outputs: tuple[Array, ...]
    threads: int

    def translated(self, module: str) -> Any:  # Any: a module of the language
        """The translation of the case's language for a program."""
        return import_module(f"{self.case.language}.{module}")

    def models(self) -> dict[str, Callable[[], Model]]:
        """The ONNX models of the case by label; the first one has none."""
        models: dict[str, Callable[[], Model]] = self.translated("onnx_model").models(self)
        return models


@dataclass(frozen=True, slots=True)
class Model:
    """An ONNX model, as bytes or a file, with inputs, and outputs as in `Task`.

    counted: results have data-dependent shapes, and programs allocate them. read: converts a result of the
    model to one of the case. precision: of OpenVINO. entries: of ONNX Runtime's configuration.
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
    """No further ways."""
    return ()


@dataclass(frozen=True, slots=True)
class Peer:
    """A program. prepare(task): ways with bound memory; plain: ways from arrays to arrays."""

    name: str
    version: str
    prepare: Prepare
    plain: Prepare = no_calls


def load_peers(names: tuple[str, ...]) -> tuple[dict[str, Peer], dict[str, str]]:
    """(installed peers, why the others are missing)."""
    here, missing = {}, {}
    for name in names:
        try:
            module, record = PLACES.get(name, (name, "PEER"))
            here[name] = getattr(import_module(f"benchmarks.peers.{module}"), record)
        except ImportError as error:
            missing[name] = str(error)
    return here, missing


class Kept:
    """Calls `function` and stores its result."""

    __slots__ = ("function", "value")

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self.value: object = None

    def __call__(self) -> None:
        self.value = self.function()
