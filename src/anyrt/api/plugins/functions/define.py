"""The decorators that make functions a plug-in, and the namespaces in which programs find it.

>>> from anyrt.api.plugins.functions.desc import TensorDesc
>>> @register("docs::doubled")
... def doubled(x: TensorDesc) -> TensorDesc:
...     return x.like()
>>> op.docs.doubled
<PluginDef docs::doubled(x)>
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.quiet import WrongValue, type_name
from anyrt.api.model.tensor import ITensor
from anyrt.api.plugins.field import PluginFieldCollection, PluginFieldCollection_
from anyrt.api.plugins.functions.attributes import to_field, value
from anyrt.api.plugins.functions.creator import QuickCreator
from anyrt.api.plugins.functions.quick import Definition
from anyrt.api.plugins.functions.signature import (
    Function,
    place,
    read,
    read_aot_impl,
    read_autotune,
    read_impl,
    split,
)
from anyrt.api.plugins.registry import the_registry
from anyrt.api.plugins.v3 import IPluginV3
from anyrt.core.enums_more import QuickPluginCreationRequest, TensorRTPhase
from anyrt.core.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., object])
Made: TypeAlias = tuple[list[ITensor], list[ITensor], IPluginV3]


class Decorator(Protocol):
    """Gives a function back as it is."""

    def __call__(self, function: F, /) -> F: ...


class PluginDef(Fixed):
    """A plug-in as programs call it: with tensors, then attributes by name, as `register` declares. Pass the
    result to `network.add_plugin`.

    layer = network.add_plugin(trtp.op.my.scaled(x, factor=2.0))

    ValueError: AR403, other than so many tensors; AR306, an attribute is missing; AR304, one is unknown or of
    another type; AR306, nothing computes the plug-in."""

    __slots__ = ("__weakref__", "_definition")

    def __init__(self, definition: Definition) -> None:
        self._definition = definition

    @property
    def plugin_id(self) -> str:
        """ "namespace::name"."""
        return self._definition.plugin_id

    @property
    def input_tensor_names(self) -> list[str]:
        """Names of the tensors, in the order of `register`'s arguments."""
        return list(self._definition.signature.inputs)

    @property
    def input_attrs(self) -> dict[str, object]:
        """Of each attribute, in the same order, its annotation."""
        return dict(self._definition.signature.attributes)

    @property
    def num_outputs(self) -> int:
        """How many tensors `register` says that there are."""
        return self._definition.signature.outputs

    @property
    def register_func(self) -> Function:
        """The function that describes it."""
        return self._definition.register

    @property
    def impl_func(self) -> Function | None:
        """The function that computes it, if there is one."""
        return self._definition.impl

    @property
    def autotune_func(self) -> Function | None:
        """The function that says its types, formats and tactics, if there is one."""
        return self._definition.autotune

    @property
    def aot_impl_func(self) -> Function | None:
        """The function that returns its kernel, if there is one."""
        return self._definition.aot_impl

    def __call__(
        self, *args: ITensor, **kwargs: object
    ) -> Callable[[QuickPluginCreationRequest | None], Made]:
        d = self._definition
        self._judge(args, kwargs)
        values = {n: value(d.plugin_id, n, kind, kwargs[n]) for n, kind in d.signature.attributes.items()}
        creator = _creator(d)
        kept = PluginFieldCollection([to_field(n, x) for n, x in values.items()])
        tensors, (space, name) = list(args), d.names

        def create(quick_plugin_creation_request: QuickPluginCreationRequest | None = None) -> Made:
            """The tensors, no shape inputs, and a plug-in of these attributes."""
            request = quick_plugin_creation_request or QuickPluginCreationRequest.UNKNOWN
            given = PluginFieldCollection_(kept)
            return tensors, [], creator.create_plugin(name, space, given, TensorRTPhase.BUILD, request)

        return create

    def _judge(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Refuse another number of tensors, other things than tensors, and names of nothing."""
        told = self._definition.signature
        wanted = f"{self._schema()}"
        others = [type_name(x) for x in args if not isinstance(x, ITensor)]
        problems = [f"{', '.join(others)} among the tensors"] if others else []
        if len(args) != len(told.inputs):
            problems.append(f"{len(args)} tensors")
        missing = [name for name in told.attributes if name not in kwargs]
        problems += [f"no {name}" for name in missing]
        for name in kwargs:
            if name not in told.attributes:
                near = difflib.get_close_matches(name, told.attributes, 1)
                problems.append(f"an unknown {name}" + (f" (is it {near[0]}?)" if near else ""))
        if problems:
            do = "pass tensors by position and attributes by name"
            raise WrongValue(ArgumentError("AR315", self.plugin_id, "; ".join(problems), wanted, do))

    def _schema(self) -> str:
        told = self._definition.signature
        return f"{self.plugin_id}({', '.join((*told.inputs, *(f'{n}=...' for n in told.attributes)))})"

    def __repr__(self) -> str:
        return f"<PluginDef {self._schema()}>"


class _Space(ModuleType):
    """A namespace, of plug-ins or of such namespaces."""

    def __getattr__(self, name: str) -> Any:  # Any: a plug-in, or a namespace
        known = [n for n in vars(self) if not n.startswith("_")]
        near = difflib.get_close_matches(name, known, 1)
        do = f"; the nearest is {near[0]!r}" if near else "; register it first"
        raise AttributeError(f"{self.__name__} has no {name!r}{do}")

    def __dir__(self) -> list[str]:
        return sorted(n for n in vars(self) if not n.startswith("_"))


QDP_REGISTRY: Final[dict[str, PluginDef]] = {}
"""All that were registered, by "namespace::name"; a name that a program deletes is free again."""

op = _Space("anyrt.plugin.op", "The plug-ins that were registered: op.my_namespace.my_plugin(x).")


def register(plugin_id: str, lazy_register: bool = False) -> Decorator:
    """Register a function that describes a plug-in: its outputs, for inputs and attributes.

    @trtp.register("my::scaled")
    def scaled(x: trtp.TensorDesc, factor: float) -> trtp.TensorDesc:
        return x.like()

    Tensors come first, then attributes: int, float, bool, str, bytes, or numpy.typing.NDArray of one axis (or
    without any, of one element).
    Every argument has an annotation, and none a default; `Tuple[TensorDesc, TensorDesc]` says two outputs.

    plugin_id: "namespace::name". lazy_register: leave the plug-in registry alone until the plug-in is called.

    ValueError: AR304, an identifier that is none, or is another function's; AR315, all that is wrong with
    the function."""
    space, name = split(plugin_id)

    def wrap(function: F) -> F:
        before = QDP_REGISTRY.get(plugin_id)
        if before is not None and not _is_again(before.register_func, function):
            got, do = f"{plugin_id!r} again, as {place(before.register_func)} is", "give it another name"
            raise WrongValue(ArgumentError("AR304", "register", got, "one definition per name", do))
        d = Definition(plugin_id, read(plugin_id, function, lazy_register), function)
        if not lazy_register:
            _creator(d)
        QDP_REGISTRY[plugin_id] = made = PluginDef(d)
        if space not in vars(op):
            setattr(op, space, _Space(f"{op.__name__}.{space}", f"The plug-ins of {space}."))
        setattr(vars(op)[space], name, made)
        return function

    return wrap


def impl(plugin_id: str) -> Decorator:
    """Register the function that computes a plug-in.

    @trtp.impl("my::scaled")
    def scaled_impl(x: trtp.Tensor, factor: float, outputs: Tuple[trtp.Tensor], stream: int) -> None:
        np.multiply(np.asarray(x), factor, out=np.asarray(outputs[0]))

    It is given the inputs, those attributes that it names, `outputs` and `stream`, and, where it names it,
    `tactic`. A plan keeps the attributes that it names.

    ValueError: AR304, nothing is registered under the name; AR315, all that is wrong with the function. An
    exception in it ends the run with AR824."""

    def wrap(function: F) -> F:
        d = _defined(plugin_id)
        d.impl_attributes, d.takes_tactic = read_impl(plugin_id, function, d.signature)
        d.impl = function
        return function

    return wrap


def autotune(plugin_id: str) -> Decorator:
    """Register a function that returns the types and formats that a plug-in supports, and its tactics.

    @trtp.autotune("my::scaled")
    def scaled_autotune(x: trtp.TensorDesc, outputs: Tuple[trtp.TensorDesc]) -> List[AutoTuneCombination]:
        return [trtp.AutoTuneCombination("FP32|FP16, FP32|FP16", tactics=[1, 2])]

    Without one, a plug-in takes the types of the network, row-major. Building measures the tactics.

    ValueError: AR304, nothing is registered under the name; AR315, all that is wrong with the function."""

    def wrap(function: F) -> F:
        d = _defined(plugin_id)
        d.autotune_attributes = read_autotune(plugin_id, function, d.signature)
        d.autotune = function
        return function

    return wrap


def aot_impl(plugin_id: str) -> Decorator:
    """Register a function that returns the kernel of a plug-in, which is compiled when an engine is built.

    @trtp.aot_impl("my::scaled")
    def scaled_aot(x: trtp.TensorDesc, factor: float, outputs: Tuple[trtp.TensorDesc], tactic: int
    ) -> Tuple[Union[str, bytes], Union[str, bytes], trtp.KernelLaunchParams, trtp.SymExprs]:
        return "scale", TEXT, trtp.KernelLaunchParams(), trtp.SymIntExprs.from_tuple([x.shape_expr.numel()])

    It returns the kernel's name, its text, its launch parameters, and its arguments between those for inputs
    and those for outputs. The text is LLVM IR, or C if a compiler is installed.

    ValueError: AR304, nothing is registered under the name; AR315, all that is wrong with the function.
    NotSupportedError AR901: PTX and other code for a GPU."""

    def wrap(function: F) -> F:
        d = _defined(plugin_id)
        d.aot_attributes = read_aot_impl(plugin_id, function, d.signature)
        d.aot_impl = function
        return function

    return wrap


def _defined(plugin_id: str) -> Definition:
    if plugin_id not in QDP_REGISTRY:
        near = difflib.get_close_matches(str(plugin_id), QDP_REGISTRY, 1)
        do = f"the nearest is {near[0]!r}" if near else f"write @register({plugin_id!r}) first"
        raise WrongValue(ArgumentError("AR304", "plugin_id", repr(plugin_id), "a registered plug-in", do))
    return QDP_REGISTRY[plugin_id]._definition


def _is_again(before: Callable[..., object], function: Callable[..., object]) -> bool:
    """Whether a function is another one again, as where a module is loaded once more."""
    if function is before or getattr(before, "__qualname__", 0) != getattr(function, "__qualname__", 1):
        return False
    file, other = (getattr(getattr(f, "__code__", None), "co_filename", "") for f in (before, function))
    return file == other or before.__module__ == function.__module__


def _creator(d: Definition) -> QuickCreator:
    """The registered creator of a definition; it is registered now where it was not."""
    space, name = d.names
    found = the_registry().get_creator(name, "1", space)
    if isinstance(found, QuickCreator):
        if found.definition is d:
            return found
        the_registry().deregister_creator(found)  # it was of the functions that these replace
        found = None
    made = QuickCreator(d)
    if found is not None or not the_registry().register_creator(made, space):
        got, do = f"{name!r}, version '1', of namespace {space!r}", "give it another name"
        raise WrongValue(ArgumentError("AR304", d.plugin_id, got, "an unused name", do))
    return made
