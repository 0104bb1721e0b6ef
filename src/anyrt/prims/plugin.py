"""`Plugin`: user code, called with the addresses of operands and results.

>>> data = PluginData(np.zeros(0, np.uint8), DataType.UINT8)
>>> Plugin("pad", "Pad", "1", "", data, (Type((2,), DataType.HALF),)).infer(())
(half[2],)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim, product
from anyrt.core.dtype import cast
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import DTypeError, NotSupportedError, ShapeError
from anyrt.core.formats import in_memory
from anyrt.ir.compute import Compute, External
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.ir.reference import widen
from anyrt.prims.const import Blob


@dataclass(frozen=True, slots=True, eq=False)
class PluginData(Blob):
    """The serialized plug-in, and the plug-in itself for the interpreter: a function of the primitive and
    operands that returns results; None for a plug-in that was read from a plan."""

    call: Callable[[Plugin, tuple[Array, ...]], tuple[Array, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand or result of a plug-in, in memory of a format; `scale`: of int8 codes."""

    type: Type
    format: TensorFormat = TensorFormat.LINEAR
    scale: float = 0.0


@dataclass(frozen=True, slots=True)
class Plugin(Prim):
    """The results of a plug-in of this `layer`, of types `outs`, of which the last is its workspace if
    `workspace` is more than 0. `name`, `version`, `space`: the key of its creator. `made`: the serialized
    plug-in. `sees`: operands, then results, as passed to it. `over`: for each result the operand whose memory
    it overwrites, or −1. `tactic`: the selected implementation."""

    layer: str
    name: str
    version: str
    space: str
    made: Blob  # plans contain the names of these fields
    outs: tuple[Type, ...]
    sees: tuple[Tensor, ...] = ()
    workspace: int = 0
    tactic: int = 0
    over: tuple[int, ...] = ()

    def compute(self) -> Compute:
        """The results of the plug-in in memory."""
        sizes = tuple(d for tensor in self.sees for d in tensor.type.shape)
        return External(name=self.layer, over=self.over, sizes=sizes)

    @property
    def narrows(self) -> bool:
        """User code computes them."""
        return True

    def infer(self, args: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types that the plug-in reported."""
        if self.sees:
            self._check((*args, *self.outs), len(args))
        room = (Type((self.workspace,), DataType.UINT8),) if self.workspace else ()
        return (*self.outs, *room)

    def _check(self, memory: tuple[Type, ...], operands: int) -> None:
        """A plug-in accesses only declared memory; this is checked for a plan of unknown origin, too."""
        declared = [Type(in_memory(x.format, x.type.dtype, x.type.shape), x.type.dtype) for x in self.sees]
        if [t.dtype for t in declared] != [t.dtype for t in memory]:
            got = ", ".join(map(repr, memory))
            raise DTypeError("AR202", self.layer, got, ", ".join(t.dtype.name for t in declared))
        if any(product(t.shape) != product(of.shape) for t, of in zip(declared, memory, strict=True)):
            got, wanted = (", ".join(map(repr, x)) for x in (memory, declared))
            raise ShapeError(
                "AR123", self.layer, f"memory of {got}", f"memory of the plug-in's tensors: {wanted}"
            )
        results = self.sees[operands:]
        for result, k in zip(results, self.over or [-1] * len(results), strict=True):
            twin = self.sees[k] if 0 <= k < operands else result
            if k >= operands or (twin.type, twin.format) != (result.type, result.format):
                raise ShapeError(
                    "AR123", self.layer, f"{result.type} in the memory of operand {k}", "its own"
                )

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> tuple[Array, ...]:
        """The results of the plug-in for stored operands."""
        if not isinstance(self.made, PluginData) or self.made.call is None:
            got, do = "a plug-in in a plan", "interpret the network itself"
            raise NotSupportedError("AR901", self.layer, got, "a plug-in of this process", do)
        tensors = zip(args, self.sees, strict=False)
        results = self.made.call(self, tuple(cast(x, tensor.type.dtype) for x, tensor in tensors))
        room = (np.zeros(self.workspace, np.uint8),) if self.workspace else ()
        types = (*self.outs, *(Type((x.size,), DataType.UINT8) for x in room))
        return tuple(widen(x, t.dtype) for x, t in zip((*results, *room), types, strict=True))

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: a step of the host program's own calls the plug-in."""
        raise AssertionError("the result of a plug-in is not one expression")
