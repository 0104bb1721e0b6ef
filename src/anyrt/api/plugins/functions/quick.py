"""The plug-in that the functions of a definition make, and the creator that makes it.

Its functions are called where TensorRT calls a plug-in: `register` for types and sizes, `autotune` for types,
formats and tactics, `impl` to compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyrt.api.plugins.asking import asked
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IExprBuilder
from anyrt.api.plugins.field import PluginFieldCollection
from anyrt.api.plugins.functions.attributes import to_field
from anyrt.api.plugins.functions.combination import AutoTuneCombination, Combination, combinations
from anyrt.api.plugins.functions.desc import SizeTensorDesc, TensorDesc, frozen, numbered, told
from anyrt.api.plugins.functions.lists import ShapeExprs
from anyrt.api.plugins.functions.signature import Function, Signature, place
from anyrt.api.plugins.functions.sizes import ShapeExpr, size_in
from anyrt.api.plugins.functions.tensor import share, tensor
from anyrt.api.plugins.v3 import (
    IPluginV3,
    IPluginV3QuickBuild,
    IPluginV3QuickCore,
    IPluginV3QuickRuntime,
)
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.enums_more import PluginCapabilityType
from anyrt.core.errors import PluginError

Descs = list[PluginTensorDesc]


@dataclass(slots=True)
class Definition:
    """The functions of a plug-in, as far as a program has written them; with the attributes each takes."""

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
    """A plug-in as `register` and `autotune` describe it, whatever computes it."""

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
        self.taken: list[Combination] = []
        self.chosen: Combination | None = None
        self.tactic = 0

    def get_capability_interface(self, type: PluginCapabilityType) -> object:
        """Itself."""
        return self

    def clone(self) -> IPluginV3:
        """Another one with the same functions and attributes."""
        made = type(self)(self.definition, self.values)
        made.__dict__.update(self.__dict__)
        return made

    def get_num_outputs(self) -> int:
        """As `register`'s annotation says."""
        return self.definition.signature.outputs

    def get_output_data_types(self, input_types: list[DataType], ranks: list[int]) -> list[DataType]:
        """As `register` says, for sizes that nothing is known of."""
        self.types = list(input_types)
        sizes = [ShapeExprs(rank, _is_dummy=True) for rank in ranks]
        self.inputs, self.outputs = self._described(sizes)
        return [y.dtype for y in self.outputs]

    def get_output_shapes(
        self,
        inputs: list[DimsExprs],
        shape_inputs: list[DimsExprs],
        expr_builder: IExprBuilder,
        ranks: list[int],
    ) -> list[DimsExprs]:
        """As `register` says."""
        sizes = [ShapeExprs.from_tuple(ShapeExpr(d) for d in dims) for dims in inputs]
        self.inputs, self.outputs = self._described(sizes)
        found = ([size_in(size, expr_builder) for size in y.shape_expr.sizes()] for y in self.outputs)
        return [DimsExprs(sizes) for sizes in found]

    def _described(
        self, sizes: Sequence[ShapeExprs]
    ) -> tuple[tuple[TensorDesc, ...], tuple[TensorDesc, ...]]:
        """Inputs of these sizes, and the outputs that `register` makes of them."""
        inputs = tuple(frozen(TensorDesc(s, t)) for s, t in zip(sizes, self.types, strict=True))
        function, names = self.definition.register, self.definition.signature.inputs
        given = dict(zip(names, inputs, strict=True)) | self.values
        answer = self._call(function, given)
        outputs = answer if isinstance(answer, tuple | list) else (answer,)
        wanted = self.definition.signature.outputs
        if len(outputs) != wanted:
            raise self._wrong(function, f"{len(outputs)} outputs", f"{wanted}, as its annotation says")
        for k, y in enumerate(outputs):
            self._judge(function, k, y, inputs)
        return inputs, tuple(outputs)

    def _judge(self, function: Function, k: int, y: object, inputs: tuple[TensorDesc, ...]) -> None:
        """Refuse an output that says too little."""
        if not isinstance(y, TensorDesc):
            raise self._wrong(function, f"{type(y).__name__} as output {k}", "a TensorDesc")
        if not isinstance(y.dtype, DataType) or not y.has_shape_expr:
            raise self._wrong(
                function, f"output {k} without a {'size' if y.dtype else 'type'}", "sizes and a type"
            )
        if y.get_aliased() is not None and not any(y.get_aliased() is x for x in inputs):
            raise self._wrong(function, f"output {k} in the memory of no input", "x.aliased() of an input x")
        if isinstance(y, SizeTensorDesc):
            numbered(y, k)

    def get_aliased_input(self, output_index: int) -> int:
        """The input of which `register` said `aliased()`; −1 for none."""
        source = self.outputs[output_index].get_aliased()
        return next((k for k, x in enumerate(self.inputs) if x is source), -1)

    def get_supported_format_combinations(
        self, in_out: list[DynamicPluginTensorDesc], num_inputs: int
    ) -> list[PluginTensorDesc]:
        """What `autotune` says, one combination after the other; without it, the types that the network has,
        row-major."""
        self.taken = self._taken(in_out, num_inputs)
        made = []
        for c in self.taken:
            for dtype, format in zip(c.types, c.formats, strict=True):
                desc = PluginTensorDesc()
                desc.type, desc.format = dtype, format
                made.append(desc)
        return made

    def _taken(self, in_out: list[DynamicPluginTensorDesc], inputs: int) -> list[Combination]:
        own = Combination(
            (*self.types, *(y.dtype for y in self.outputs)), (TensorFormat.LINEAR,) * len(in_out)
        )
        function = self.definition.autotune
        if function is None:
            return [own]
        for known, desc in zip(in_out, (*self.inputs, *self.outputs), strict=True):
            told(desc, known)
        given = self._given(self.definition.autotune_attributes)
        answer = self._call(function, {**given, "outputs": self.outputs})
        rows = [answer] if isinstance(answer, AutoTuneCombination) else answer
        if not isinstance(rows, list | tuple) or not all(isinstance(x, AutoTuneCombination) for x in rows):
            raise self._wrong(function, type(answer).__name__, "a list of AutoTuneCombination")
        where = f"{self.definition.plugin_id}: {place(function)}"
        found: dict[tuple[object, object], Combination] = {}
        for c in (c for row in rows for c in combinations(row, len(in_out), where)):
            before = found.get((c.types, c.formats), c)
            tactics = tuple(dict.fromkeys((*before.tactics, *c.tactics)))
            found[c.types, c.formats] = Combination(c.types, c.formats, tactics)
        return list(found.values()) or [own]

    def configure_plugin(
        self, inp: list[DynamicPluginTensorDesc], out: list[DynamicPluginTensorDesc]
    ) -> None:
        """Note the combination that was chosen."""
        types, formats = (tuple(getattr(x.desc, what) for x in (*inp, *out)) for what in ("type", "format"))
        for known, desc in zip((*inp, *out), (*self.inputs, *self.outputs), strict=True):
            told(desc, known)
        same = (c for c in self.taken if (c.types, c.formats) == (types, formats))
        self.chosen = next(same, None)

    def get_valid_tactics(self) -> list[int]:
        """Those that `autotune` said of this combination."""
        return [] if self.chosen is None else list(self.chosen.tactics)

    def set_tactic(self, tactic: int) -> None:
        """Compute in this way from now on."""
        self.tactic = tactic

    def _given(self, attributes: Sequence[str]) -> dict[str, object]:
        """The arguments that a function gets first, by name."""
        given: dict[str, object] = dict(zip(self.definition.signature.inputs, self.inputs, strict=True))
        return given | {name: self.values[name] for name in attributes}

    def _call(self, function: Function, given: Mapping[str, object]) -> object:
        """The result of a user's function; PluginError AR824 for an exception."""
        answer: object = asked(self.definition.plugin_id, place(function), lambda: function(**given))
        return answer

    def _wrong(self, function: Function, got: str, wanted: str) -> PluginError:
        text = f"{got} from {place(function)}"
        return PluginError("AR822", self.definition.plugin_id, text, wanted, f"correct {place(function)}")


class Quick(Described, IPluginV3QuickRuntime):
    """A plug-in that `impl` computes."""

    def __init__(self, definition: Definition, values: Mapping[str, object]) -> None:
        Described.__init__(self, definition, values)
        IPluginV3QuickRuntime.__init__(self)
        self.known: object = None
        self.told: tuple[Descs, Descs] = ([], [])
        self.given: dict[str, object] = {}

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        """The attributes that `impl` takes."""
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
        told = input_desc, output_desc
        if self.known != (inputs, outputs, stream, self.tactic) or self.told != told:
            self.given = self._arguments(told, inputs, outputs, stream)
            self.known, self.told = (inputs, outputs, stream, self.tactic), told
        assert self.definition.impl is not None, "_arguments asks for it"
        self._call(self.definition.impl, self.given)

    def _arguments(
        self, told: tuple[Descs, Descs], inputs: list[int], outputs: list[int], stream: int
    ) -> dict[str, object]:
        """What `impl` is given, by name; the same in every run as long as memory and sizes are."""
        d = self.definition
        if d.impl is None:
            do = f"write @impl({d.plugin_id!r})"
            raise PluginError("AR822", d.plugin_id, "no impl function", "an impl function", do)
        made = [tensor(y, at, stream) for y, at in zip(told[1], outputs, strict=True)]
        given: dict[str, object] = {}
        for name, x, at in zip(d.signature.inputs, told[0], inputs, strict=True):
            twin = made[outputs.index(at)] if at in outputs else None
            given[name] = source = tensor(x, at, stream, read_only=twin is None)
            if twin is not None:
                share(source, twin)
        given |= {name: self.values[name] for name in d.impl_attributes}
        given |= {"outputs": tuple(made), "stream": stream}
        return given | {"tactic": self.tactic} if d.takes_tactic else given
