"""The decorators that make a plug-in from functions, and the namespaces that hold it.

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
from anyrt.core.enums import QuickPluginCreationRequest, TensorRTPhase
from anyrt.core.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., object])
PlannedPlugin: TypeAlias = tuple[list[ITensor], list[ITensor], IPluginV3]


class Decorator(Protocol):
    """A decorator that returns the function unchanged."""

    def __call__(self, function: F, /) -> F: ...


class PluginDef(Fixed):
    """A plug-in that programs call with tensors, then attributes by name, as `register` declares. Pass the
    result to `network.add_plugin`.

    layer = network.add_plugin(trtp.op.my.scaled(x, factor=2.0))

    ValueError: AR315, a wrong number of tensors, a missing or unknown attribute; AR304, an attribute of a
    wrong type; AR306, no function computes the plug-in."""

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
        """The annotation of each attribute, in the same order."""
        return dict(self._definition.signature.attributes)

    @property
    def num_outputs(self) -> int:
        """The number of outputs, from the annotation of `register`."""
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
        """The function that returns its types, formats and tactics, if there is one."""
        return self._definition.autotune

    @property
    def aot_impl_func(self) -> Function | None:
        """The function that returns its kernel, if there is one."""
        return self._definition.aot_impl

    def __call__(
        self, *args: ITensor, **kwargs: object
    ) -> Callable[[QuickPluginCreationRequest | None], PlannedPlugin]:
        d = self._definition
        self._check(args, kwargs)
        values = {n: value(d.plugin_id, n, kind, kwargs[n]) for n, kind in d.signature.attributes.items()}
        creator = _creator(d)
        collection = PluginFieldCollection([to_field(n, x) for n, x in values.items()])
        tensors, (space, name) = list(args), d.names

        def create(quick_plugin_creation_request: QuickPluginCreationRequest | None = None) -> PlannedPlugin:
            """The tensors, no shape inputs, and a plug-in of these attributes."""
            request = quick_plugin_creation_request or QuickPluginCreationRequest.UNKNOWN
            fields = PluginFieldCollection_(collection)
            return tensors, [], creator.create_plugin(name, space, fields, TensorRTPhase.BUILD, request)

        return create

    def _check(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Raise AR315 for a wrong number of tensors, other objects than tensors, and wrong attribute
        names."""
        signature = self._definition.signature
        schema = f"{self._schema()}"
        others = [type_name(x) for x in args if not isinstance(x, ITensor)]
        problems = [f"{', '.join(others)} among the tensors"] if others else []
        if len(args) != len(signature.inputs):
            problems.append(f"{len(args)} tensors")
        missing = [name for name in signature.attributes if name not in kwargs]
        problems += [f"no {name}" for name in missing]
        for name in kwargs:
            if name not in signature.attributes:
                near = difflib.get_close_matches(name, signature.attributes, 1)
                problems.append(f"an unknown {name}" + (f" (is it {near[0]}?)" if near else ""))
        if problems:
            do = "pass tensors by position and attributes by name"
            raise WrongValue(ArgumentError("AR315", self.plugin_id, "; ".join(problems), schema, do))

    def _schema(self) -> str:
        signature = self._definition.signature
        return (
            f"{self.plugin_id}({', '.join((*signature.inputs, *(f'{n}=...' for n in signature.attributes)))})"
        )

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
"""All registered plug-ins, by "namespace::name". A program may delete one to register its name again."""

op = _Space("anyrt.plugin.op", "The registered plug-ins: op.my_namespace.my_plugin(x).")


def register(plugin_id: str, lazy_register: bool = False) -> Decorator:
    """Register a function that returns descriptions of the outputs of a plug-in.

    @trtp.register("my::scaled")
    def scaled(x: trtp.TensorDesc, factor: float) -> trtp.TensorDesc:
        return x.like()

    Tensors come first, then attributes: int, float, bool, str, bytes, or numpy.typing.NDArray with at most
    one axis. Each parameter needs an annotation and must not have a default. The annotation
    `Tuple[TensorDesc, TensorDesc]` declares two outputs.

    plugin_id: "namespace::name". lazy_register: add the creator to the registry at the first call of the
    plug-in.

    ValueError: AR304, an invalid identifier, or one of another function; AR315, all errors in the signature
    of the function."""
    space, name = split(plugin_id)

    def wrap(function: F) -> F:
        before = QDP_REGISTRY.get(plugin_id)
        if before is not None and not _is_again(before.register_func, function):
            got, do = f"{plugin_id!r}, which {place(before.register_func)} defines", "use another name"
            raise WrongValue(ArgumentError("AR304", "register", got, "one definition per name", do))
        d = Definition(plugin_id, read(plugin_id, function, lazy_register), function)
        if not lazy_register:
            _creator(d)
        QDP_REGISTRY[plugin_id] = definition = PluginDef(d)
        if space not in vars(op):
            setattr(op, space, _Space(f"{op.__name__}.{space}", f"The plug-ins of {space}."))
        setattr(vars(op)[space], name, definition)
        return function

    return wrap


def impl(plugin_id: str) -> Decorator:
    """Register the function that computes a plug-in.

    @trtp.impl("my::scaled")
    def scaled_impl(x: trtp.Tensor, factor: float, outputs: Tuple[trtp.Tensor], stream: int) -> None:
        np.multiply(np.asarray(x), factor, out=np.asarray(outputs[0]))

    Its arguments are the inputs, the attributes among its parameters, `outputs`, `stream`, and `tactic` if it
    has this parameter. A plan stores the attributes among its parameters.

    ValueError: AR304, no plug-in of this name is registered; AR315, all errors in the signature of the
    function. An exception in it ends the inference with AR824."""

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

    By default, a plug-in supports the element types of the network, row-major. The builder measures the
    tactics.

    ValueError: AR304, no plug-in of this name is registered; AR315, all errors in the signature."""

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

    It returns the kernel's name, its text, its launch parameters, and its extra arguments, which the kernel
    receives between the addresses of inputs and of outputs. The text is LLVM IR, or C if a compiler is
    installed.

    ValueError: AR304, no plug-in of this name is registered; AR315, all errors in the signature.
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
    """Whether `function` is a new version of `before`, as after a module is reloaded."""
    if function is before or getattr(before, "__qualname__", 0) != getattr(function, "__qualname__", 1):
        return False
    file, other = (getattr(getattr(f, "__code__", None), "co_filename", "") for f in (before, function))
    return file == other or before.__module__ == function.__module__


def _creator(d: Definition) -> QuickCreator:
    """The creator of a definition; registers it if necessary."""
    space, name = d.names
    registered = the_registry().get_creator(name, "1", space)
    if isinstance(registered, QuickCreator):
        if registered.definition is d:
            return registered
        the_registry().deregister_creator(registered)  # of the functions that `d` replaces
        registered = None
    creator = QuickCreator(d)
    if registered is not None or not the_registry().register_creator(creator, space):
        got, do = f"{name!r}, version '1', namespace {space!r}", "use another name"
        raise WrongValue(ArgumentError("AR304", d.plugin_id, got, "an unused name", do))
    return creator
