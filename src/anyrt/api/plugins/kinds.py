"""The common interface to plug-ins of every version, for the builder and the runtime.

It checks the results of a plug-in: an invalid one raises an error that names plug-in, layer and method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from anyrt.api.edge.interfaces import call_user
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IExprBuilder
from anyrt.api.plugins.user_calls import call_function, call_method
from anyrt.api.plugins.v3 import FORMATS, IPluginResourceContext
from anyrt.core.enums import DataType
from anyrt.core.errors import PluginError

T = TypeVar("T")
Descs = list[PluginTensorDesc]
Dynamic = list[DynamicPluginTensorDesc]
Enqueue = Callable[[Descs, Descs, list[int], list[int], int, int], object]
MOST_OUTPUTS: Final = 128


class Kind(ABC):
    """A plug-in of the layer `where`, for the builder and the runtime."""

    limit = FORMATS
    shown_sizes: object = None  # the shapes that `show` passed last

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
        """The number of outputs."""

    @property
    def metadata(self) -> str:
        """The metadata that the engine inspector shows."""
        return ""

    @property
    def timing_id(self) -> str:
        """The key of its measured tactics in the timing cache."""
        return ""

    # ---- building ---------------------------------------------------------------------------------------

    @abstractmethod
    def types(self, inputs: list[DataType]) -> list[DataType]:
        """The element type of each output."""

    @abstractmethod
    def shapes(
        self, inputs: list[DimsExprs], elements: list[DimsExprs], build: IExprBuilder
    ) -> list[DimsExprs]:
        """The shape of each output, for the shapes of inputs and the elements of shape inputs."""

    @abstractmethod
    def supports(self, pos: int, in_out: Dynamic, inputs: int) -> bool:
        """Whether the type and format of tensor `pos` are supported."""

    @abstractmethod
    def configure(self, inp: Dynamic, out: Dynamic) -> None:
        """Pass types, formats and ranges to the plug-in."""

    @abstractmethod
    def workspace(self, inp: Dynamic, out: Dynamic) -> int:
        """The bytes of its workspace."""

    def tactics(self) -> list[int]:
        """The numbers of its tactics; empty if it has only one."""
        return []

    def aliased(self, output: int) -> int:
        """The input whose memory an output shares, or −1."""
        return -1

    @abstractmethod
    def serialized(self) -> bytes:
        """The bytes from which its creator restores it."""

    def clone(self) -> Kind:
        """A copy."""
        return self._another(self.call_method("clone"), "clone")

    # ---- running ----------------------------------------------------------------------------------------

    @abstractmethod
    def attach(self, context: IPluginResourceContext) -> Kind:
        """A copy for an execution context."""

    @abstractmethod
    def set_tactic(self, tactic: int) -> None:
        """Select the tactic of the following calls."""

    @abstractmethod
    def show(self, inp: Descs, out: Descs) -> None:
        """Pass the shapes of the next inferences to the plug-in."""

    @property
    @abstractmethod
    def enqueue(self) -> Enqueue:
        """The function that computes the outputs."""

    def release(self) -> None:
        """Release the plug-in; exceptions are ignored."""
        destroy = getattr(self.plugin, "destroy", None)
        if destroy is not None:
            call_user(None, destroy)

    # ---- calls ------------------------------------------------------------------------------------------

    def call_method(self, method: str, *args: object) -> Any:  # Any: the caller checks the result
        """The result of a method of the plug-in."""
        return call_method(self.where, self.plugin, method, *args)

    def attribute(self, owner: object, name: str, default: object = None) -> object:
        """An attribute of the plug-in or of an interface of it; it may be a property that raises."""
        called = f"{type(owner).__name__}.{name}"
        value: object = call_function(self.where, called, lambda: getattr(owner, name, default))
        return value

    def wrong(self, method: str, got: str, wanted: str, do: str = "") -> PluginError:
        """The error for an invalid result."""
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
    """A result as a list of `count` objects of type `of`; PluginError AR822 for anything else."""
    if not isinstance(result, Sequence) or isinstance(result, str | bytes):
        raise kind.wrong(method, type(result).__name__, f"a list of {of.__name__}")
    items: list[T] = []
    for x in result:
        if not isinstance(x, of):
            raise kind.wrong(method, f"a list with {type(x).__name__}", f"a list of {of.__name__}")
        items.append(x)
    if count is not None and len(items) != count:
        do = f"return one for each of the {count} outputs in num_outputs"
        raise kind.wrong(method, f"{len(items)} elements", f"{count}", do)
    return items


def whole(kind: Kind, method: str, result: object, low: int, high: int) -> int:
    """A result as an int in a range; PluginError AR822 for anything else."""
    if result is None:
        result = low if low >= 0 else -1
    if isinstance(result, bool) or not hasattr(result, "__index__"):
        raise kind.wrong(method, type(result).__name__, "an int")
    number = int(result.__index__())
    if not low <= number <= high:
        raise kind.wrong(method, f"{number}", f"{low} to {high}")
    return number


def claim(kind: Kind, method: str, result: object) -> bool:
    """A result as a bool, which may be a NumPy bool; PluginError AR822 for None and text."""
    if result is None or isinstance(result, str):
        raise kind.wrong(method, type(result).__name__, "a bool", "return True or False")
    return bool(result)


def text(x: object) -> str:
    """An attribute of a plug-in as text that a plan can store."""
    return "" if x is None else str(x).encode(errors="replace").decode()
