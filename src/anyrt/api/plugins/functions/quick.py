"""The plug-in of a definition, whose functions describe and compute it.

The methods that TensorRT calls call these functions: `register` for types and shapes, `autotune` for types,
formats and tactics, `impl` to compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IExprBuilder
from anyrt.api.plugins.field import PluginFieldCollection
from anyrt.api.plugins.functions.attributes import to_field
from anyrt.api.plugins.functions.combination import AutoTuneCombination, Combination, combinations
from anyrt.api.plugins.functions.desc import SizeTensorDesc, TensorDesc, frozen, numbered, set_properties
from anyrt.api.plugins.functions.lists import ShapeExprs
from anyrt.api.plugins.functions.signature import Function, Signature, place
from anyrt.api.plugins.functions.sizes import ShapeExpr, size_in
from anyrt.api.plugins.functions.tensor import share, tensor
from anyrt.api.plugins.user_calls import call_function
from anyrt.api.plugins.v3 import (
    IPluginV3,
    IPluginV3QuickBuild,
    IPluginV3QuickCore,
    IPluginV3QuickRuntime,
)
from anyrt.core.enums import DataType, PluginCapabilityType, TensorFormat
from anyrt.core.errors import PluginError

Descs = list[PluginTensorDesc]


@dataclass(slots=True)
class Definition:
    """The registered functions of a plug-in, and the attributes among the parameters of each."""

    plugin_id: str
    signature: Signature
    register: Function
    impl: Function | None = None
    impl_attributes: tuple[str, ...] = ()
    takes_tactic: bool = False
    autotune: Function | None = None
    autotune_attributes: tuple[str, ...] = ()
    aot_impl: Function | None = None
    aot_attributes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, str]:
        """Namespace and name."""
        space, _, name = self.plugin_id.partition("::")
        return space, name


class Described(IPluginV3, IPluginV3QuickCore, IPluginV3QuickBuild):
    """The base class: a plug-in as `register` and `autotune` describe it."""

    def __init__(self, definition: Definition, values: Mapping[str, object]) -> None:
        IPluginV3.__init__(self)
        IPluginV3QuickCore.__init__(self)
        IPluginV3QuickBuild.__init__(self)
        self.plugin_namespace, self.plugin_name = definition.names
        self.plugin_version = "1"
        self.definition = definition
        self.values = dict(values)
        self.types: list[DataType] = []
        self.inputs: tuple[TensorDesc, ...] = ()
        self.outputs: tuple[TensorDesc, ...] = ()
        self.supported: list[Combination] = []
        self.selected: Combination | None = None
        self.tactic = 0

    def get_capability_interface(self, type: PluginCapabilityType) -> object:
        """The plug-in itself."""
        return self

    def clone(self) -> IPluginV3:
        """A copy with the same functions and attributes."""
        copy = type(self)(self.definition, self.values)
        copy.__dict__.update(self.__dict__)
        return copy

    def get_num_outputs(self) -> int:
        """The number of outputs, from the annotation of `register`."""
        return self.definition.signature.outputs

    def get_output_data_types(self, input_types: list[DataType], ranks: list[int]) -> list[DataType]:
        """The types from `register`, called with fake dimensions."""
        self.types = list(input_types)
        sizes = [ShapeExprs(rank, _is_dummy=True) for rank in ranks]
        self.inputs, self.outputs = self._describe(sizes)
        return [y.dtype for y in self.outputs]

    def get_output_shapes(
        self,
        inputs: list[DimsExprs],
        shape_inputs: list[DimsExprs],
        expr_builder: IExprBuilder,
        ranks: list[int],
    ) -> list[DimsExprs]:
        """The shapes from `register`."""
        sizes = [ShapeExprs.from_tuple(ShapeExpr(d) for d in dims) for dims in inputs]
        self.inputs, self.outputs = self._describe(sizes)
        outputs = ([size_in(size, expr_builder) for size in y.shape_expr.sizes()] for y in self.outputs)
        return [DimsExprs(sizes) for sizes in outputs]

    def _describe(self, sizes: Sequence[ShapeExprs]) -> tuple[tuple[TensorDesc, ...], tuple[TensorDesc, ...]]:
        """Descriptions of inputs of these sizes, and of the outputs, from `register`."""
        inputs = tuple(frozen(TensorDesc(s, t)) for s, t in zip(sizes, self.types, strict=True))
        function, names = self.definition.register, self.definition.signature.inputs
        arguments = dict(zip(names, inputs, strict=True)) | self.values
        result = self._call(function, arguments)
        outputs = result if isinstance(result, tuple | list) else (result,)
        wanted = self.definition.signature.outputs
        if len(outputs) != wanted:
            raise self._wrong(function, f"{len(outputs)} outputs", f"{wanted}, as in its annotation")
        for k, y in enumerate(outputs):
            self._check_output(function, k, y, inputs)
        return inputs, tuple(outputs)

    def _check_output(self, function: Function, k: int, y: object, inputs: tuple[TensorDesc, ...]) -> None:
        """Raise AR822 for an output without a type or shape, and for one that shares unknown memory."""
        if not isinstance(y, TensorDesc):
            raise self._wrong(function, f"{type(y).__name__} as output {k}", "a TensorDesc")
        if not isinstance(y.dtype, DataType) or not y.has_shape_expr:
            raise self._wrong(
                function, f"output {k} without a {'shape' if y.dtype else 'type'}", "a shape and a type"
            )
        if y.get_aliased() is not None and not any(y.get_aliased() is x for x in inputs):
            raise self._wrong(
                function, f"output {k}, which shares memory with no input", "x.aliased() of an input x"
            )
        if isinstance(y, SizeTensorDesc):
            numbered(y, k)

    def get_aliased_input(self, output_index: int) -> int:
        """The input whose `aliased()` is this output; −1 for none."""
        source = self.outputs[output_index].get_aliased()
        return next((k for k, x in enumerate(self.inputs) if x is source), -1)

    def get_supported_format_combinations(
        self, in_out: list[DynamicPluginTensorDesc], num_inputs: int
    ) -> list[PluginTensorDesc]:
        """The combinations from `autotune`, one after the other; without it, the types of the network,
        row-major."""
        self.supported = self._combinations(in_out, num_inputs)
        descs = []
        for c in self.supported:
            for dtype, format in zip(c.types, c.formats, strict=True):
                desc = PluginTensorDesc()
                desc.type, desc.format = dtype, format
                descs.append(desc)
        return descs

    def _combinations(self, in_out: list[DynamicPluginTensorDesc], inputs: int) -> list[Combination]:
        own = Combination(
            (*self.types, *(y.dtype for y in self.outputs)), (TensorFormat.LINEAR,) * len(in_out)
        )
        function = self.definition.autotune
        if function is None:
            return [own]
        for known, desc in zip(in_out, (*self.inputs, *self.outputs), strict=True):
            set_properties(desc, known)
        arguments = self._first_arguments(self.definition.autotune_attributes)
        result = self._call(function, {**arguments, "outputs": self.outputs})
        rows = [result] if isinstance(result, AutoTuneCombination) else result
        if not isinstance(rows, list | tuple) or not all(isinstance(x, AutoTuneCombination) for x in rows):
            raise self._wrong(function, type(result).__name__, "a list of AutoTuneCombination")
        where = f"{self.definition.plugin_id}: {place(function)}"
        merged: dict[tuple[object, object], Combination] = {}
        for c in (c for row in rows for c in combinations(row, len(in_out), where)):
            before = merged.get((c.types, c.formats), c)
            tactics = tuple(dict.fromkeys((*before.tactics, *c.tactics)))
            merged[c.types, c.formats] = Combination(c.types, c.formats, tactics)
        return list(merged.values()) or [own]

    def configure_plugin(
        self, inp: list[DynamicPluginTensorDesc], out: list[DynamicPluginTensorDesc]
    ) -> None:
        """Store the combination that the builder selected."""
        types, formats = (tuple(getattr(x.desc, what) for x in (*inp, *out)) for what in ("type", "format"))
        for known, desc in zip((*inp, *out), (*self.inputs, *self.outputs), strict=True):
            set_properties(desc, known)
        same = (c for c in self.supported if (c.types, c.formats) == (types, formats))
        self.selected = next(same, None)

    def get_valid_tactics(self) -> list[int]:
        """The tactics from `autotune` for the selected combination."""
        return [] if self.selected is None else list(self.selected.tactics)

    def set_tactic(self, tactic: int) -> None:
        """Select the tactic of the following calls."""
        self.tactic = tactic

    def _first_arguments(self, attributes: Sequence[str]) -> dict[str, object]:
        """The first arguments of a function, by name: inputs, then these attributes."""
        arguments: dict[str, object] = dict(zip(self.definition.signature.inputs, self.inputs, strict=True))
        return arguments | {name: self.values[name] for name in attributes}

    def _call(self, function: Function, arguments: Mapping[str, object]) -> object:
        """The result of a user's function; PluginError AR824 for an exception."""
        plugin_id = self.definition.plugin_id
        result: object = call_function(plugin_id, place(function), lambda: function(**arguments))
        return result

    def _wrong(self, function: Function, got: str, wanted: str) -> PluginError:
        text = f"{got} from {place(function)}"
        return PluginError("AR822", self.definition.plugin_id, text, wanted, f"correct {place(function)}")


class Quick(Described, IPluginV3QuickRuntime):
    """A plug-in that `impl` computes."""

    def __init__(self, definition: Definition, values: Mapping[str, object]) -> None:
        Described.__init__(self, definition, values)
        IPluginV3QuickRuntime.__init__(self)
        self.known: object = None
        self.descs: tuple[Descs, Descs] = ([], [])
        self.arguments: dict[str, object] = {}

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        """The attributes among the parameters of `impl`."""
        names = self.definition.impl_attributes
        return PluginFieldCollection([to_field(name, self.values[name]) for name in names])

    def enqueue(
        self,
        input_desc: list[PluginTensorDesc],
        output_desc: list[PluginTensorDesc],
        inputs: list[int],
        outputs: list[int],
        in_strides: list[list[int]],
        out_strides: list[list[int]],
        stream: int,
    ) -> None:
        """Call `impl`."""
        descs = input_desc, output_desc
        if self.known != (inputs, outputs, stream, self.tactic) or self.descs != descs:
            self.arguments = self._arguments(descs, inputs, outputs, stream)
            self.known, self.descs = (inputs, outputs, stream, self.tactic), descs
        assert self.definition.impl is not None, "_arguments raises without it"
        self._call(self.definition.impl, self.arguments)

    def _arguments(
        self, descs: tuple[Descs, Descs], inputs: list[int], outputs: list[int], stream: int
    ) -> dict[str, object]:
        """The arguments of `impl`, by name. They stay the same while addresses and shapes do."""
        d = self.definition
        if d.impl is None:
            do = f"write @impl({d.plugin_id!r})"
            raise PluginError("AR822", d.plugin_id, "no impl function", "an impl function", do)
        results = [tensor(y, at, stream) for y, at in zip(descs[1], outputs, strict=True)]
        arguments: dict[str, object] = {}
        for name, x, at in zip(d.signature.inputs, descs[0], inputs, strict=True):
            twin = results[outputs.index(at)] if at in outputs else None
            arguments[name] = source = tensor(x, at, stream, read_only=twin is None)
            if twin is not None:
                share(source, twin)
        arguments |= {name: self.values[name] for name in d.impl_attributes}
        arguments |= {"outputs": tuple(results), "stream": stream}
        return arguments | {"tactic": self.tactic} if d.takes_tactic else arguments
