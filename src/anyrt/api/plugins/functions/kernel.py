"""A plug-in that a kernel computes; `aot_impl` returns the text of the kernel.

A plan contains no code, so the process that loads one calls `aot_impl` again: it must have registered the
functions, as for a plug-in with `impl`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

import numpy as np

from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import LAUNCH
from anyrt.api.plugins.field import PluginField, PluginFieldCollection
from anyrt.api.plugins.functions.attributes import to_field
from anyrt.api.plugins.functions.desc import TensorDesc, frozen, set_properties
from anyrt.api.plugins.functions.launch import KernelLaunchParams
from anyrt.api.plugins.functions.lists import ShapeExprs, SymExprs
from anyrt.api.plugins.functions.quick import Definition, Described
from anyrt.api.plugins.functions.signature import Function, place
from anyrt.api.plugins.functions.sizes import SymIntExpr
from anyrt.api.plugins.functions.source import Launch, Text, source
from anyrt.api.plugins.v3 import IPluginV3QuickAOTBuild, IPluginV3QuickRuntime
from anyrt.core.enums import PluginFieldType

MARK = "anyrt.aot"  # the field that marks a plug-in with a kernel


class Kernel(Described, IPluginV3QuickAOTBuild, IPluginV3QuickRuntime):
    """A plug-in that a kernel computes."""

    def __init__(self, definition: Definition, values: Mapping[str, object]) -> None:
        Described.__init__(self, definition, values)
        IPluginV3QuickAOTBuild.__init__(self)
        IPluginV3QuickRuntime.__init__(self)
        self.known: object = None
        self.launch: Launch | None = None
        self.numbers: list[int] = []

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        """The attributes among the parameters of `aot_impl`. Compiles the kernel, to report errors now."""
        text, _ = self._kernel(self.inputs, self.outputs)
        _compiled(text)
        names = self.definition.aot_attributes
        mark = PluginField(MARK, np.ones(1, np.int8).data, PluginFieldType.INT8)
        return PluginFieldCollection([mark, *(to_field(name, self.values[name]) for name in names)])

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
        """Launch the kernel."""
        key = self.tactic, [(tuple(x.dims), x.type, x.format) for x in (*input_desc, *output_desc)]
        if key != self.known or self.launch is None:
            sides = ([_fixed(x) for x in side] for side in (input_desc, output_desc))
            text, sizes = self._kernel(*sides)
            self.launch, self.numbers = _compiled(text), [x.constant_value() for x in sizes]
            self.known = key
        if all(self.numbers[:6]):  # no blocks, no threads: nothing to do
            self.launch([*inputs, *outputs], self.numbers)

    def _kernel(
        self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]
    ) -> tuple[Text, list[SymIntExpr]]:
        """The kernel for these tensors, with the numbers of its launch, then its extra arguments."""
        d, function = self.definition, self.definition.aot_impl
        if function is None:
            raise self._wrong(d.register, "no aot_impl function", "one that returns the kernel")
        arguments: dict[str, object] = dict(zip(d.signature.inputs, inputs, strict=True))
        arguments |= {name: self.values[name] for name in d.aot_attributes}
        result = self._call(function, {**arguments, "outputs": tuple(outputs), "tactic": self.tactic})
        if not isinstance(result, tuple) or len(result) != 4:
            raise self._wrong(function, type(result).__name__, "a tuple of four")
        name, code, launch, exprs = result
        for x, kinds, wanted in (
            (name, (str, bytes), "a name, str or bytes"),
            (code, (str, bytes), "a text, str or bytes"),
            (launch, (KernelLaunchParams,), "KernelLaunchParams"),
            (exprs, (SymExprs,), "SymIntExprs"),
        ):
            if not isinstance(x, kinds):
                raise self._wrong(function, type(x).__name__, wanted)
        own = self._numbers(function, list(exprs))
        text = source(f"{d.plugin_id}: {place(function)}", code)
        kernel = name.decode() if isinstance(name, bytes) else name
        kernel_text = Text(d.plugin_id, kernel, text, len(inputs), len(own), len(outputs))
        return kernel_text, [*(getattr(launch, n) for n in LAUNCH[:6]), *own]

    def _numbers(self, function: Function, arguments: Sequence[object]) -> list[SymIntExpr]:
        """The extra arguments of the kernel; PluginError AR822 if one is not set."""
        numbers = [x for x in arguments if isinstance(x, SymIntExpr) and not x.is_fake]
        if len(numbers) != len(arguments):
            raise self._wrong(function, "an argument without a value", "a value for each argument")
        return numbers


def _compiled(text: Text) -> Launch:
    # Only on demand: programs without kernels should not load LLVM.
    launch: Launch = import_module("anyrt.api.plugins.functions.compiled").compiled(text)
    return launch


def _fixed(x: PluginTensorDesc) -> TensorDesc:
    """The description of a tensor of an inference for `aot_impl`: all dimensions are numbers."""
    known = DynamicPluginTensorDesc()
    known.desc = x
    desc = TensorDesc(ShapeExprs.from_tuple(tuple(x.dims)), x.type)
    set_properties(desc, known)
    return frozen(desc)
