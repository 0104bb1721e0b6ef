"""Plug-ins of every version as building and running see them.

The results of a plug-in are checked here: an invalid one is an error that names plug-in, layer and method,
like an exception.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from anyrt.api.edge.interfaces import call_user
from anyrt.api.plugins.asking import ask, asked
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IExprBuilder
from anyrt.api.plugins.v3 import FORMATS, IPluginResourceContext
from anyrt.core.enums import DataType
from anyrt.core.errors import PluginError

T = TypeVar("T")
Descs = list[PluginTensorDesc]
Dynamic = list[DynamicPluginTensorDesc]
Enqueue = Callable[[Descs, Descs, list[int], list[int], int, int], object]
MOST_OUTPUTS: Final = 128


class Kind(ABC):
    """A plug-in of the layer `where`, for building and running."""

    limit = FORMATS
    shown_sizes: object = None  # the sizes that it was shown last

    def __init__(self, plugin: object, where: str) -> None:
        self.plugin = plugin
        self.where = where
        self.ranks: list[int] = []  # of the inputs

    # ---- identity ---------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def key(self) -> tuple[str, str, str]:
        """Name, version and namespace."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many outputs it has."""

    @property
    def metadata(self) -> str:
        """What the inspector shows of it."""
        return ""

    @property
    def timing_id(self) -> str:
        """What times of its tactics are kept under."""
        return ""

    # ---- building ---------------------------------------------------------------------------------------

    @abstractmethod
    def types(self, inputs: list[DataType]) -> list[DataType]:
        """The type of each output."""

    @abstractmethod
    def shapes(
        self, inputs: list[DimsExprs], elements: list[DimsExprs], build: IExprBuilder
    ) -> list[DimsExprs]:
        """The sizes of each output, for those of inputs and the elements of shape inputs."""

    @abstractmethod
    def supports(self, pos: int, in_out: Dynamic, inputs: int) -> bool:
        """Whether tensor `pos` is supported in this form."""

    @abstractmethod
    def configure(self, inp: Dynamic, out: Dynamic) -> None:
        """Tell it types, formats and ranges."""

    @abstractmethod
    def workspace(self, inp: Dynamic, out: Dynamic) -> int:
        """Bytes that it wants to work in."""

    def tactics(self) -> list[int]:
        """Its ways to compute; none for one."""
        return []

    def aliased(self, output: int) -> int:
        """The input in whose memory an output lies, or −1."""
        return -1

    @abstractmethod
    def serialized(self) -> bytes:
        """What its creator makes it of again."""

    def clone(self) -> Kind:
        """Another one that does the same."""
        return self._another(self.ask("clone"), "clone")

    # ---- running ----------------------------------------------------------------------------------------

    @abstractmethod
    def attach(self, context: IPluginResourceContext) -> Kind:
        """One for an execution context."""

    @abstractmethod
    def set_tactic(self, tactic: int) -> None:
        """Compute in this way from now on."""

    @abstractmethod
    def show(self, inp: Descs, out: Descs) -> None:
        """Tell it the sizes of the next runs."""

    @property
    @abstractmethod
    def enqueue(self) -> Enqueue:
        """What computes."""

    def release(self) -> None:
        """It is used no more, and nobody can receive errors."""
        destroy = getattr(self.plugin, "destroy", None)
        if destroy is not None:
            call_user(None, destroy)

    # ---- asking -----------------------------------------------------------------------------------------

    def ask(self, method: str, *args: object) -> Any:  # Any: the caller judges the answer
        """The result of a method of the plug-in."""
        return ask(self.where, self.plugin, method, *args)

    def attribute(self, owner: object, name: str, default: object = None) -> object:
        """An attribute of the plug-in, or of a face of it, which may be computed."""
        called = f"{type(owner).__name__}.{name}"
        value: object = asked(self.where, called, lambda: getattr(owner, name, default))
        return value

    def wrong(self, method: str, got: str, wanted: str, do: str = "") -> PluginError:
        """The error for an answer that does not fit."""
        return wrong(self.where, self.plugin, method, got, wanted, do)

    def _another(self, plugin: object, method: str) -> Kind:
        if not isinstance(plugin, self._base):
            raise self.wrong(method, type(plugin).__name__, f"an {self._base.__name__}", "return a plug-in")
        return type(self)(plugin, self.where)

    _base: type = object


def wrong(where: str, owner: object, method: str, got: str, wanted: str, do: str = "") -> PluginError:
    """The error for an invalid result of a plug-in's method."""
    do = do or f"correct {type(owner).__name__}.{method}"
    return PluginError("AR822", where, f"{got} from {type(owner).__name__}.{method}", wanted, do)


def listed(kind: Kind, method: str, result: object, of: type[T], count: int | None = None) -> list[T]:
    """An answer as a list of so many things of one type."""
    if not isinstance(result, Sequence) or isinstance(result, str | bytes):
        raise kind.wrong(method, type(result).__name__, f"a list of {of.__name__}")
    items: list[T] = []
    for x in result:
        if not isinstance(x, of):
            raise kind.wrong(method, f"a list with {type(x).__name__}", f"a list of {of.__name__}")
        items.append(x)
    if count is not None and len(items) != count:
        do = f"give one for each of {count} outputs, as num_outputs says"
        raise kind.wrong(method, f"{len(items)} answers", f"{count}", do)
    return items


def whole(kind: Kind, method: str, result: object, low: int, high: int) -> int:
    """An answer as an int in a range."""
    if result is None:
        result = low if low >= 0 else -1
    if isinstance(result, bool) or not hasattr(result, "__index__"):
        raise kind.wrong(method, type(result).__name__, "an int")
    number = int(result.__index__())
    if not low <= number <= high:
        raise kind.wrong(method, f"{number}", f"{low} to {high}")
    return number


def claim(kind: Kind, method: str, result: object) -> bool:
    """A result as a bool; the result of a NumPy comparison is one, too."""
    if result is None or isinstance(result, str):
        raise kind.wrong(method, type(result).__name__, "a bool", "return True or False")
    return bool(result)


def text(x: object) -> str:
    """A property of a plug-in as text that a plan can store."""
    return "" if x is None else str(x).encode(errors="replace").decode()
