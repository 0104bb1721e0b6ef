"""Bit masks of flags: undefined bits are rejected, flags without an effect are reported once.

config.flags = 1 << 40      [AR304] IBuilderConfig.flags: got 1099511627776, where bit 40 has no meaning, …
config.set_flag(trt.BuilderFlag.REFIT)      BuilderFlag.REFIT has no effect
"""

from __future__ import annotations

from collections.abc import Iterable

from anyrt.api.edge.attribute import Attribute
from anyrt.api.edge.quiet import Channel, channel_of, integer, quiet, type_name
from anyrt.api.edge.setting import HasSettings, kept_in
from anyrt.core.enums import BuilderFlag, Severity
from anyrt.core.errors import ArgumentError
from anyrt.core.trt_enum import TrtEnum

# Flags without an effect whose message also names a replacement.
TYPES = "layers compute in the types of their tensors; cast the tensors, or create the network in this type"
NOTES: dict[TrtEnum, str] = {
    flag: f"{flag} has no effect on numbers: {TYPES}" for flag in (BuilderFlag.FP8, BuilderFlag.INT4)
}


def check_bits(where: str, bits: int, kind: type[TrtEnum]) -> None:
    """Raise ArgumentError if a mask has bits that are not members of `kind`."""
    known = sum({1 << int(flag) for flag in kind})
    if 0 <= bits == bits & known:
        return
    unknown = [f"bit {i}" for i in range(bits.bit_length()) if bits > 0 and bits & ~known & 1 << i]
    got = f"{bits}" + (f" (unknown bits: {', '.join(unknown)})" if unknown else "")
    wanted = f"bits 0 to {known.bit_length() - 1} of {kind.__name__}"
    raise ArgumentError("AR304", where, got, wanted, "write 1 << int(flag), and combine flags with |")


def tell_idle(channel: Channel, bits: int, kind: type[TrtEnum], effective: Iterable[TrtEnum]) -> None:
    """Warn of each flag in `bits` without an effect, once per builder or runtime with its objects."""
    idle = [flag for flag in kind if bits >> int(flag) & 1]
    for flag in sorted({*idle} - {*effective}, key=int):
        channel.once(Severity.WARNING, NOTES.get(flag, f"{flag} has no effect"))


class Flags(Attribute[HasSettings, int]):
    """A setting with flags of one kind as a bit mask; flags that are not in `effective` have no effect.

    `default`: the flags that are set initially. `implied`: the flags that a flag also sets, as in TensorRT
    8.6."""

    def __init__(
        self, kind: type[TrtEnum], default: Iterable[TrtEnum], effective: Iterable[TrtEnum], doc: str
    ) -> None:
        self.kind = kind
        self.default = (*default,)
        self.implied: dict[TrtEnum, TrtEnum] = {}
        self.effective = frozenset(effective)
        self.__doc__ = doc

    def _value(self, owner: HasSettings) -> int:
        kept = kept_in(owner).get(self.name)
        return sum(1 << flag for flag in self.default) if kept is None else int(kept)

    def __set__(self, owner: HasSettings, value: int) -> None:
        _set(owner, self, value)


@quiet(None)
def _set(owner: HasSettings, flags: Flags, value: int) -> None:
    where = f"{type_name(owner)}.{flags.name}"
    bits = integer(value, where)
    check_bits(where, bits, flags.kind)
    for flag, other in flags.implied.items():
        bits |= (bits >> flag & 1) << other
    tell_idle(channel_of(owner), bits & ~flags.__get__(owner, type(owner)), flags.kind, flags.effective)
    kept_in(owner)[flags.name] = bits
