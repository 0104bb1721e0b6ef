"""Plug-ins of shared objects: objects of version 3 that call the functions of a table.

for creator in creators(address_of_a_table, "libmine.so"):
    trt.get_plugin_registry().register_creator(creator, creator.plugin_namespace)
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from types import new_class
from typing import Final

import numpy as np

from anyrt.api.edge.interfaces import tried
from anyrt.api.plugins.creators import IPluginCreatorV3One
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IDimensionExpr, IExprBuilder
from anyrt.api.plugins.field import PluginField, PluginFieldCollection, PluginFieldCollection_
from anyrt.api.plugins.serialization import deserialize, serialize
from anyrt.api.plugins.table import (
    CONSTANT,
    NEEDED,
    OPERATION,
    PAIRS,
    VERSION,
    Field,
    Plugin,
    Shape,
    Sizes,
    Table,
    Tensor,
)
from anyrt.api.plugins.v3 import (
    IPluginResourceContext,
    IPluginV3,
    IPluginV3OneBuildV2,
    IPluginV3OneCore,
    IPluginV3OneRuntime,
)
from anyrt.core.enums import (
    DataType,
    DimensionOperation,
    PluginCapabilityType,
    PluginFieldType,
    TensorFormat,
    TensorRTPhase,
)
from anyrt.core.errors import PluginError

MOST_KINDS: Final = 1 << 12  # in one library; a larger count is an error
MOST_BYTES: Final = 1 << 31  # that one plug-in writes into a plan
MOST_TACTICS: Final = 1 << 12  # of one plug-in; the builder measures each


def creators(address: int, path: str) -> list[NativeCreator]:
    """The creators of a table in memory; PluginError AR826 for an invalid table."""
    if not address:
        raise _rejected(path, "no table", "one from anyrt_plugin_table")
    table = Table.from_address(address)
    if table.version != VERSION:
        do = "compile it with the header of this version: anyrt_plugin.h beside anyrt.plugin"
        raise _rejected(path, f"a table of version {table.version}", f"version {VERSION}", do)
    if table.size != ctypes.sizeof(Plugin):
        got, wanted = (
            f"plug-ins of {table.size} bytes",
            f"{ctypes.sizeof(Plugin)}, which is sizeof(AnyrtPlugin)",
        )
        raise _rejected(path, got, wanted)
    if not 1 <= table.count <= MOST_KINDS or not table.plugins:
        raise _rejected(path, f"a table of {table.count} plug-ins", f"1 to {MOST_KINDS}")
    return [NativeCreator(table.plugins[k], path) for k in range(table.count)]


def _rejected(path: str, got: str, wanted: str, do: str = "correct the library's table") -> PluginError:
    return PluginError("AR826", path, got, wanted, do)


class NativeCreator(IPluginCreatorV3One):
    """The creator of one kind of plug-ins."""

    __slots__ = ()

    def __init__(self, kind: Plugin, path: str) -> None:
        IPluginCreatorV3One.__init__(self)
        self.kind, self.path = kind, path
        if not kind.name:
            raise _rejected(path, "a plug-in without a name", "a name for each")
        for name in NEEDED:
            if not getattr(kind, name):
                raise _rejected(
                    path, f"{_text(kind.name)} without {name}", "all functions that are not marked (or NULL)"
                )
        for a, b in PAIRS:
            if bool(getattr(kind, a)) != bool(getattr(kind, b)):
                raise _rejected(path, f"{_text(kind.name)} with one of {a} and {b}", "both, or none")
        self.name, self.plugin_version = _text(kind.name), _text(kind.version)
        self.plugin_namespace = _text(kind.space)
        # Messages name a plug-in by its class.
        self.plugin_class = new_class(self.name, (NativePlugin,), {}, lambda body: body.update(__slots__=()))
        fields = [kind.fields[k] for k in range(kind.field_count if kind.fields else 0)]
        self.field_names = PluginFieldCollection(
            [PluginField(_text(f.name), None, _field_type(f.type, path)) for f in fields]
        )

    def create_plugin(
        self, name: str, field_collection: PluginFieldCollection_, phase: TensorRTPhase
    ) -> NativePlugin:
        """A plug-in with these fields, or restored from its serialized form."""
        fields = [field_collection[k] for k in range(len(field_collection))]
        if phase is TensorRTPhase.RUNTIME and self.kind.restore:
            return self.restore(fields[0].data.tobytes() if fields else b"")
        return self.create(fields)

    def create(self, fields: Sequence[PluginField]) -> NativePlugin:
        """A plug-in with these fields."""
        copies = deserialize(serialize([*fields]), self.path)
        own = [copies[k] for k in range(len(copies))]
        data = [np.ascontiguousarray(f.data) for f in own]
        rows = (Field * len(own))(
            *(
                Field(f.name.encode(), x.ctypes.data, int(f.type), f.size)
                for f, x in zip(own, data, strict=True)
            )
        )
        address = self.kind.create(rows, len(own))
        if not address:
            raise self.failure("create", "no plug-in", None)
        return self._plugin(address, own)

    def restore(self, data: bytes) -> NativePlugin:
        """A plug-in, restored from its serialized form."""
        address = self.kind.restore(ctypes.c_char_p(data), len(data))
        if not address:
            raise self.failure("restore", "no plug-in", None)
        return self._plugin(address, [])

    def _plugin(self, address: int, fields: list[PluginField]) -> NativePlugin:
        plugin = self.plugin_class(self, address, fields)
        assert isinstance(plugin, NativePlugin), "plugin_class derives from it"
        return plugin

    def failure(self, function: str, got: str, plugin: int | None) -> PluginError:
        """The error for a failed call, with the library's own message."""
        message = self.kind.error(plugin) if self.kind.error else None
        text = f"{got}: {_text(message)}" if message else got
        do = (
            "see the message of the library"
            if message
            else "define an error function in the library that returns the reason"
        )
        where = f"{self.name}.{function} ({self.path})"
        return PluginError("AR824", where, text, "success", do)


class NativePlugin(IPluginV3, IPluginV3OneCore, IPluginV3OneBuildV2, IPluginV3OneRuntime):
    """A plug-in of a library."""

    __slots__ = ()

    def __init__(self, creator: NativeCreator, address: int, fields: list[PluginField]) -> None:
        for base in (IPluginV3, IPluginV3OneCore, IPluginV3OneBuildV2, IPluginV3OneRuntime):
            base.__init__(self)
        self.creator, self.kind, self.fields = creator, creator.kind, fields
        self.address = ctypes.c_void_p(address)
        self.known: tuple[object, object] = (None, None)
        self.tensors: tuple[object, int, object, int] = (None, 0, None, 0)
        if self.kind.destroy:
            weakref.finalize(self, self.kind.destroy, self.address)
        self.plugin_name, self.plugin_version = creator.name, creator.plugin_version
        self.plugin_namespace = creator.plugin_namespace
        self.num_outputs = self.kind.output_count(self.address)
        if self.kind.timing_id:
            self.timing_cache_id = _text(self.kind.timing_id(self.address))

    def get_capability_interface(self, type: PluginCapabilityType) -> NativePlugin:
        """The plug-in itself, which has all interfaces."""
        return self

    def clone(self) -> NativePlugin:
        """A copy, made like a plug-in of a plan."""
        if self.kind.restore:
            return self.creator.restore(self._written())
        return self.creator.create(self.fields)

    def attach_to_context(self, resource_context: IPluginResourceContext) -> NativePlugin:
        """A clone."""
        return self.clone()

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        """The result of `serialize`, or the fields that the plug-in was created with."""
        if not self.kind.serialize:
            return PluginFieldCollection(self.fields)
        return PluginFieldCollection([PluginField("data", self._written(), PluginFieldType.INT8)])

    def _written(self) -> bytes:
        room = self.kind.serialize(self.address, None, 0)
        if not 0 <= room <= MOST_BYTES:
            raise self._failure("serialize", f"{room} bytes")
        to = (ctypes.c_char * room)()
        count = self.kind.serialize(self.address, to, room)
        if count != room:
            raise self._failure("serialize", f"{count} bytes, after {room} before")
        return bytes(to.raw)

    def get_output_data_types(self, input_types: list[DataType]) -> list[DataType]:
        """From `output_types`."""
        count = self.num_outputs
        types = (ctypes.c_int32 * len(input_types))(*map(int, input_types))
        outputs = (ctypes.c_int32 * count)(*[-1] * count)
        self._call("output_types", types, len(input_types), outputs, count)
        for number in outputs:
            if number not in DataType._value2member_map_:
                raise self._failure("output_types", f"type {number}")
        return [DataType(number) for number in outputs]

    def get_output_shapes(
        self, inputs: list[DimsExprs], shape_inputs: list[DimsExprs], expr_builder: IExprBuilder
    ) -> list[DimsExprs]:
        """From `output_shapes`, with numbered expressions."""
        numbered = Numbered(expr_builder)
        shapes = (Shape * len(inputs))(*(numbered.shape(x) for x in inputs))
        values = [numbered.add(x) for row in shape_inputs for x in row]
        outputs = (Shape * self.num_outputs)()
        row = (ctypes.c_int32 * len(values))(*values)
        args = (ctypes.byref(numbered.table), shapes, len(inputs), row, len(values), outputs, len(outputs))
        status = self.kind.output_shapes(self.address, *args)
        if numbered.raised is not None:
            raise numbered.raised
        if status:
            raise self._failure("output_shapes", f"status {status}")
        return [self._exprs(x, numbered) for x in outputs]

    def _exprs(self, shape: Shape, numbered: Numbered) -> DimsExprs:
        if not 0 <= shape.rank <= len(shape.dims):
            raise self._failure("output_shapes", f"rank {shape.rank}")
        numbers = shape.dims[: shape.rank]
        for number in numbers:
            if not 0 <= number < len(numbered.sizes):
                raise self._failure("output_shapes", f"expression number {number}, which does not exist")
        return DimsExprs([numbered.sizes[k] for k in numbers])

    def supports_format_combination(
        self, pos: int, in_out: list[DynamicPluginTensorDesc], num_inputs: int
    ) -> bool:
        """From `supports`; without it, row-major float32 is supported."""
        mine = in_out[pos].desc
        if not self.kind.supports:
            return (mine.type, mine.format) == (DataType.FLOAT, TensorFormat.LINEAR)
        tensors = _tensors([x.desc for x in in_out])
        answer = self.kind.supports(self.address, pos, tensors, num_inputs, len(in_out) - num_inputs)
        if answer not in (0, 1):
            raise self._failure("supports", f"{answer}")
        return bool(answer)

    def get_aliased_input(self, output_index: int) -> int:
        """From `aliased`."""
        return self.kind.aliased(self.address, output_index) if self.kind.aliased else -1

    def get_workspace_size(
        self, inp: list[DynamicPluginTensorDesc], out: list[DynamicPluginTensorDesc]
    ) -> int:
        """From `workspace` for the maximum shapes."""
        if not self.kind.workspace:
            return 0
        most = ([_at_most(x) for x in side] for side in (inp, out))
        first, second = map(_tensors, most)
        nbytes: int = self.kind.workspace(self.address, first, len(inp), second, len(out))
        if nbytes < 0:
            raise self._failure("workspace", f"{nbytes} bytes")
        return nbytes

    def get_valid_tactics(self) -> list[int]:
        """From `tactics`."""
        count = self.kind.tactics(self.address, None, 0) if self.kind.tactics else 0
        if not 0 <= count <= MOST_TACTICS:
            raise self._failure("tactics", f"{count} tactics")
        tactics = (ctypes.c_int32 * count)()
        if count and (again := self.kind.tactics(self.address, tactics, count)) != count:
            raise self._failure("tactics", f"{again} tactics, after {count} before")
        return [*tactics]

    def set_tactic(self, tactic: int) -> None:
        """Call `choose`."""
        if self.kind.choose and tactic:
            self._call("choose", tactic)

    def on_shape_change(self, inp: list[PluginTensorDesc], out: list[PluginTensorDesc]) -> None:
        """Call `resize`."""
        tensors = _tensors(inp), len(inp), _tensors(out), len(out)
        self.known, self.tensors = (inp, out), tensors
        if self.kind.resize:
            self._call("resize", *tensors)

    def enqueue(
        self,
        input_desc: list[PluginTensorDesc],
        output_desc: list[PluginTensorDesc],
        inputs: list[int],
        outputs: list[int],
        workspace: int,
        stream: int,
    ) -> None:
        """Call `enqueue` of the library."""
        if self.known[0] is not input_desc or self.known[1] is not output_desc:
            self.known = input_desc, output_desc
            self.tensors = _tensors(input_desc), len(input_desc), _tensors(output_desc), len(output_desc)
        reads, writes = (ctypes.c_void_p * len(inputs))(*inputs), (ctypes.c_void_p * len(outputs))(*outputs)
        self._call("enqueue", *self.tensors, reads, writes, workspace, stream)

    def _call(self, function: str, *args: object) -> None:
        status = getattr(self.kind, function)(self.address, *args)
        if status:
            raise self._failure(function, f"status {status}")

    def _failure(self, function: str, got: str) -> PluginError:
        return self.creator.failure(function, got, self.address.value)


class Numbered:
    """Expressions by number, for C code. `raised`: the exception of one of its calls, which C cannot pass
    on."""

    def __init__(self, build: IExprBuilder) -> None:
        self.build = build
        self.sizes: list[IDimensionExpr] = []
        self.raised: Exception | None = None
        # Keeps the functions alive that native code calls.
        self._kept = CONSTANT(self._constant), OPERATION(self._operation), OPERATION(self._declare)
        self.table = Sizes(None, *self._kept)

    def add(self, size: IDimensionExpr) -> int:
        """Add an expression; returns its number."""
        self.sizes.append(size)
        return len(self.sizes) - 1

    def shape(self, dims: DimsExprs) -> Shape:
        """The numbers of the dimensions."""
        shape = Shape(len(dims))
        for k, size in enumerate(dims):
            shape.dims[k] = self.add(size)
        return shape

    def _constant(self, builder: int | None, value: int) -> int:
        return self.add(self.build.constant(value))

    def _operation(self, builder: int | None, operation: int, a: int, b: int) -> int:
        return self._number(
            lambda: self.build.operation(DimensionOperation(operation), self._size(a), self._size(b))
        )

    def _declare(self, builder: int | None, output: int, usual: int, most: int) -> int:
        return self._number(
            lambda: self.build.declare_size_tensor(output, self._size(usual), self._size(most))
        )

    def _number(self, call: Callable[[], IDimensionExpr]) -> int:
        """The number of the new expression; −1 after an exception."""
        expr, error = tried(call)
        if expr is None:
            self.raised = self.raised or error
            return -1
        return self.add(expr)

    def _size(self, number: int) -> IDimensionExpr:
        if not 0 <= number < len(self.sizes):
            got, wanted = f"expression number {number}", f"one of the {len(self.sizes)} expressions"
            raise PluginError("AR822", "AnyrtSizes", got, wanted, "use the results of constant and operation")
        return self.sizes[number]


def _tensors(descs: Sequence[PluginTensorDesc]) -> ctypes.Array[Tensor]:
    tensors = (Tensor.of([*x.dims], int(x.type), int(x.format), x.scale) for x in descs)
    return (Tensor * len(descs))(*tensors)


def _at_most(x: DynamicPluginTensorDesc) -> PluginTensorDesc:
    desc = PluginTensorDesc()
    desc.dims, desc.type, desc.format, desc.scale = x.max, x.desc.type, x.desc.format, x.desc.scale
    return desc


def _field_type(number: int, path: str) -> PluginFieldType:
    if number not in PluginFieldType._value2member_map_:
        raise _rejected(path, f"a field of type {number}", "a type of trt.PluginFieldType")
    return PluginFieldType(number)


def _text(text: bytes | None) -> str:
    return (text or b"").decode(errors="replace")
