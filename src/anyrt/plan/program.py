"""The data that native code requires of its caller: sizes, entry offsets, names of kernels; and the code
itself.

>>> n = Sym("n", 1, 8)
>>> program = Program((n.dim * 4,), 0, 0, 0, 0, ("add",), (("run", 64),))
>>> Program.parse(program.as_json(), {"n": n}) == program
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from anyrt.core.codes import CODES
from anyrt.core.dimlimits import MAX_AXES
from anyrt.core.dims import Dim, Sym
from anyrt.core.dimtext import parse_dim, print_dim
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import AnyrtError, PlanError
from anyrt.core.requirement import Assertion, Fence
from anyrt.plan.exchange import ExchangeCall
from anyrt.plan.json import MAX_INT, Json, Reader
from anyrt.plan.plan import read_dtype

MAX_SLOTS: Final = 1 << 20
MAX_FRAMES: Final = 1 << 24  # words
MAX_KERNELS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class PluginTensor:
    """An operand or result of a plug-in, without its shape, which depends on the inference."""

    dtype: DataType
    rank: int
    format: TensorFormat
    scale: float


@dataclass(frozen=True, slots=True)
class PluginCall:
    """A call of a plug-in of the layer `where`. `name`, `version`, `space`: the key of its creator;
    `constant`: the name of the constant with the serialized plug-in; `tactic`: the selected implementation.
    `tensors`: the first `inputs` are operands, the others results. Its frame has the addresses of all
    tensors, then the address of the workspace if that has bytes, and the shape of each tensor in order.
    `over`: for each result the operand whose memory it overwrites, or −1."""

    where: str
    name: str
    version: str
    space: str
    constant: str
    tactic: int
    inputs: int
    tensors: tuple[PluginTensor, ...]
    workspace: int
    over: tuple[int, ...]

    def as_json(self) -> Json:
        """Plain values that `parse` reads."""
        tensors: list[Json] = [[short_name(t.dtype), t.rank, t.format.name, t.scale] for t in self.tensors]
        key: list[Json] = [self.where, self.name, self.version, self.space, self.constant]
        return [*key, self.tactic, self.inputs, tensors, self.workspace, list(self.over)]

    @staticmethod
    def parse(reader: Reader) -> PluginCall:
        """The call that `as_json` wrote."""
        *key, tactic, inputs, tensors, workspace, over = reader.exactly(10)
        where, name, version, space, constant = (x.text() for x in key)
        parsed = tuple(_tensor(x) for x in tensors.items(MAX_KERNELS))
        return PluginCall(
            where,
            name,
            version,
            space,
            constant,
            tactic.integer(-MAX_INT),
            inputs.integer(0, len(parsed)),
            parsed,
            workspace.integer(),
            tuple(x.integer(-1, len(parsed)) for x in over.items(MAX_KERNELS)),
        )


def _tensor(reader: Reader) -> PluginTensor:
    dtype, rank, format, scale = reader.exactly(4)
    if format.text() not in TensorFormat.__members__:
        raise format.error(repr(format.text()[:40]), "a tensor format")
    return PluginTensor(
        read_dtype(dtype), rank.integer(0, MAX_AXES), TensorFormat[format.text()], scale.number()
    )


OutsideCall: TypeAlias = PluginCall | ExchangeCall
KINDS: Final[dict[str, type[OutsideCall]]] = {"plug-in": PluginCall, "exchange": ExchangeCall}


def _outside(reader: Reader) -> OutsideCall:
    kind, call = reader.exactly(2)
    if kind.text() not in KINDS:
        raise kind.error(repr(kind.text()[:40]), " or ".join(KINDS))
    return KINDS[kind.text()].parse(call)


def _as_json(call: OutsideCall) -> Json:
    return [next(name for name, kind in KINDS.items() if isinstance(call, kind)), call.as_json()]


@dataclass(frozen=True, slots=True)
class Program:
    """The caller's side of a compiled engine.

    `slots`: values that run() reads behind the bindings, with `frames` words behind them. `arena_bytes`,
    `table_bytes`, `scratch_bytes` (per thread): memory for given sizes. `kernels`: names in the order of
    step(); `inside`: for some of them the number of following ones that are inside it; `loops`: those that
    repeat these. `entries`: (name, offset in the image). `about`: the records of the kernels (see
    plan/kernels.py). `assertions`: the conditions on data, in the order of their statuses; behind them comes
    a status for each of `fences`, the access checks of a kernel. `outside`: plug-ins and collective
    operations, by number. `guards`: for each version its guard, of which the first that is not 0 selects it,
    and its first step; `reads`: for each step the offsets of the constants that it reads, and at the end
    those that tables depend on.
    """

    slots: tuple[Dim, ...]
    frames: int
    arena_bytes: Dim
    table_bytes: Dim
    scratch_bytes: Dim
    kernels: tuple[str, ...]
    entries: tuple[tuple[str, int], ...]
    about: str = "[]"
    assertions: tuple[Assertion, ...] = ()
    inside: tuple[tuple[int, int], ...] = ()
    loops: tuple[int, ...] = ()
    fences: tuple[Fence, ...] = ()
    outside: tuple[OutsideCall, ...] = ()
    guards: tuple[tuple[Dim, int], ...] = ()
    reads: tuple[tuple[int, ...], ...] = ()

    def fault_error(self, fault: int, words: Sequence[int]) -> tuple[str, AnyrtError]:
        """The place where the inference ended with this status behind `FIRST_FAULT`, and the error for the
        numbers in the last words of its array."""
        if fault < len(self.assertions):
            assertion = self.assertions[fault]
            return assertion.where, assertion.broken(words[0])
        fence = self.fences[fault - len(self.assertions)]
        access, index, extent = words
        return fence.where, fence.broken(access, index, extent)

    def as_json(self) -> Json:
        """Plain values that `parse` reads."""
        return {
            "slots": [print_dim(d) for d in self.slots],
            "frames": self.frames,
            "arena": print_dim(self.arena_bytes),
            "tables": print_dim(self.table_bytes),
            "scratch": print_dim(self.scratch_bytes),
            "kernels": list(self.kernels),
            "entries": [[name, offset] for name, offset in self.entries],
            "about": self.about,
            "assertions": [[a.code, a.where, a.got, a.wanted, a.do] for a in self.assertions],
            "inside": [list(pair) for pair in self.inside],
            "loops": list(self.loops),
            "fences": [[f.where, *f.tensors] for f in self.fences],
            "outside": [_as_json(x) for x in self.outside],
            "guards": [[print_dim(guard), first] for guard, first in self.guards],
            "reads": [list(offsets) for offsets in self.reads],
        }

    @staticmethod
    def parse(value: Json, symbols: Mapping[str, Sym]) -> Program:
        """The program that `as_json` wrote; PlanError for anything else."""
        reader = Reader(value, "program")
        names = ("slots", "frames", "arena", "tables", "scratch", "kernels", "entries", "about", "assertions")
        *sizes, about, assertions, inside, loops, fences, outside, guards, reads = reader.fields(
            *names, "inside", "loops", "fences", "outside", "guards", "reads"
        )
        slots, frames, arena, tables, scratch, kernels, entries = sizes
        return Program(
            tuple(parse_dim(x.text(), symbols, x.where) for x in slots.items(MAX_SLOTS)),
            frames.integer(0, MAX_FRAMES),
            parse_dim(arena.text(), symbols, arena.where),
            parse_dim(tables.text(), symbols, tables.where),
            parse_dim(scratch.text(), symbols, scratch.where),
            tuple(x.text() for x in kernels.items(MAX_KERNELS)),
            tuple(_entry(x) for x in entries.items(MAX_KERNELS)),
            about.text(),
            tuple(_assertion(x) for x in assertions.items(MAX_KERNELS)),
            tuple(_pair(x) for x in inside.items(MAX_KERNELS)),
            tuple(x.integer(0, MAX_KERNELS) for x in loops.items(MAX_KERNELS)),
            tuple(_fence(x) for x in fences.items(MAX_KERNELS)),
            tuple(_outside(x) for x in outside.items(MAX_KERNELS)),
            tuple(_guard(x, symbols) for x in guards.items(MAX_KERNELS)),
            tuple(tuple(n.integer() for n in x.items(MAX_KERNELS)) for x in reads.items(MAX_KERNELS + 1)),
        )


def _pair(reader: Reader) -> tuple[int, int]:
    step, count = (x.integer(0, MAX_KERNELS) for x in reader.exactly(2))
    return step, count


def _guard(reader: Reader, symbols: Mapping[str, Sym]) -> tuple[Dim, int]:
    guard, first = reader.exactly(2)
    return parse_dim(guard.text(), symbols, guard.where), first.integer(0, MAX_KERNELS)


def _entry(reader: Reader) -> tuple[str, int]:
    name, offset = reader.exactly(2)
    return name.text(), offset.integer()


def _assertion(reader: Reader) -> Assertion:
    code, *rest = (x.text() for x in reader.exactly(5))
    if code not in CODES:
        raise PlanError("AR605", reader.where, got=f"code {code!r}", wanted="one that there is")
    where, got, wanted, do = rest
    return Assertion(code, where, got, wanted, do)


def _fence(reader: Reader) -> Fence:
    where, *tensors = (x.text() for x in reader.items(MAX_KERNELS))
    return Fence(where, tuple(tensors))


@dataclass(frozen=True, slots=True)
class Compiled:
    """Native code ready to be mapped: flat, without symbols and relocations; with the data that its caller
    needs."""

    program: Program
    image: bytes
