"""Which values get a buffer, and which are computed inside the kernels that use them.

A value needs a buffer when it is an output, when computing it again for each of its users costs more than
storing it, or when a kernel refuses it. Everything else is inlined. The refusals are kept: they answer "why
was this not fused?".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count as counting

from anyrt.core.dims import Dim, add, product
from anyrt.ir.graph import Graph, Value, users, walk
from anyrt.ir.kernel import Buffer, Kernel, Space
from anyrt.prims.concat import Concat
from anyrt.prims.const import Const, Param
from anyrt.prims.map import Map
from anyrt.prims.reduce import Reduce
from anyrt.prims.taps import Taps, grows
from anyrt.prims.view import is_turned
from anyrt.schedule.choice import MODEL, Choice
from anyrt.schedule.cost import HEAVY, MOVE, Sizes, size, weight
from anyrt.schedule.elements import Refusal
from anyrt.schedule.group import Group, Part
from anyrt.schedule.kernels import Builder
from anyrt.schedule.places import with_places
from anyrt.schedule.storage import PACKED
from anyrt.schedule.stream import past_caches, with_buffers
from anyrt.schedule.tables import Tables

CHAIN = 160  # instructions: longer chains are cut, so that kernels stay readable and compile fast
DEPTH = 48  # values inlined into one another


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with the values it computes, for reports; `root`: what choices call it by."""

    kernel: Kernel
    root: Value
    makes: tuple[Value, ...]
    inlined: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a value got a buffer of its own."""

    value: Value
    reason: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """Kernels in order, the tables they need (shared with other versions), where values lie, and what was not
    fused."""

    launches: tuple[Launch, ...]
    tables: Tables
    buffers: Mapping[Value, Buffer]
    refused: tuple[Refused, ...]


@dataclass(slots=True)
class Fusion:
    """The decisions for one graph while they are made."""

    graph: Graph
    sizes: Sizes
    alone: frozenset[Value]
    label: Callable[[Value, int], str]
    choices: Mapping[Value, Choice] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    buffers: dict[Value, Buffer] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    unhosted: set[Value] = field(default_factory=set)
    ports: dict[str, str] = field(default_factory=dict)
    order: dict[Value, int] = field(default_factory=dict)

    def schedule(self) -> Schedule:
        """Decide, build, and decide again wherever a kernel refuses a value."""
        self.order = {v: k for k, v in enumerate(walk(v for _, v in self.graph.outputs))}
        self._leaves()
        self._outputs()
        self._choose()
        launches = self._launches()
        ends = (v for _, v in (*self.graph.inputs, *self.graph.outputs))
        past = past_caches([x.kernel for x in launches], ends)
        launches = [replace(x, kernel=with_buffers(x.kernel, past)) for x in launches]
        buffers = {v: past.get(b, b) for v, b in self.buffers.items()}
        return Schedule(tuple(launches), self.tables, buffers, tuple(self.refused))

    # ---- buffers ------------------------------------------------------------------------------

    def _leaves(self) -> None:
        names = port_names(self.graph)
        for (_, value), name in zip(self.graph.inputs, names, strict=False):
            self.buffers[value] = Buffer(name, value.dtype, Space.INPUT, product(value.shape))
        outputs = (n for n, _ in self.graph.outputs)
        self.ports.update(zip(outputs, names[len(self.graph.inputs) :], strict=True))
        for value in walk(v for _, v in self.graph.outputs):
            if isinstance(value.op, Const) and value.op.blob.size != 1:
                self.buffers[value] = Buffer(
                    f"const{len(self.buffers)}", value.dtype, Space.CONST, value.op.blob.size
                )

    def _outputs(self) -> None:
        """The first output of a value is its buffer; others, and inputs that are outputs, are copies (see
        `_copies`)."""
        for name, value in self.graph.outputs:
            if value not in self.buffers:
                self.buffers[value] = self._output(name, value)

    def _output(self, name: str, value: Value) -> Buffer:
        return Buffer(self.ports[name], value.dtype, Space.OUTPUT, product(value.shape))

    def _store(self, value: Value, reason: str) -> None:
        if value not in self.buffers:
            self.buffers[value] = Buffer(
                f"v{len(self.buffers)}", value.dtype, Space.ARENA, product(value.shape)
            )
            self.refused.append(Refused(value, reason))

    def _choose(self) -> None:
        """Store what is cheaper stored than computed again, producers first."""
        uses = users(self.graph)
        sinks = self._sinks(uses)
        depth: dict[Value, int] = {}
        for value in walk(v for _, v in self.graph.outputs):
            if value in self.alone and not isinstance(value.op, Param | Const):
                self._store(value, "fusing is switched off for it")
            depth[value] = 0
            if value in self.buffers or isinstance(value.op, Param | Const):
                continue
            depth[value] = 1 + max((depth[a] for a in value.args), default=0)
            if not isinstance(value.op, Reduce):
                self._judge(value, uses[value], len(sinks[value]), depth[value])
            if value in self.buffers:
                depth[value] = 0

    def _judge(self, value: Value, uses: Sequence[Value], count: int, depth: int) -> None:
        cost = weight(value, self.buffers)
        if isinstance(value.op, Concat):
            self._store(value, "its parts are written by loops of their own")
        elif is_turned(value) and all(_reads_rows_again(u) for u in uses):
            self._store(value, "it is transposed, and what reads it reads rows of it several times")
        elif depth > 1 and size(value, self.buffers) > CHAIN:
            self._store(value, f"computing it takes more than {CHAIN} instructions an element")
        elif depth > DEPTH:
            self._store(value, f"{DEPTH} values are computed inside one another already")
        elif count > 1 and cost * (count - 1) > 4 * MOVE + HEAVY:
            self._store(value, f"{count} kernels would each spend {cost} instructions on it")
        elif cost >= HEAVY and any(self._repeats(value, u) for u in uses):
            self._store(value, f"it is repeated, and costs {cost} instructions each time")

    def _sinks(self, uses: Mapping[Value, Sequence[Value]]) -> dict[Value, frozenset[Value]]:
        """Where a value's elements end up when all is inlined: values with a buffer, and taps, which read it
        at other indices. Users that end up in one place compute it once."""
        found: dict[Value, frozenset[Value]] = {}
        for value in reversed(list(walk(v for _, v in self.graph.outputs))):
            if value in self.buffers:
                found[value] = frozenset({value})
                continue
            parts = any(isinstance(u.op, Concat) for u in uses[value])  # each is written by its own loops
            ends = frozenset({value} if parts else ())
            below = (frozenset({u}) if isinstance(u.op, Taps) else found[u] for u in uses[value])
            found[value] = ends.union(
                *(b for b, u in zip(below, uses[value], strict=True) if not isinstance(u.op, Concat))
            )
        return found

    def _repeats(self, value: Value, user: Value) -> bool:
        """True when a broadcasting user reads the same elements again in an outer loop."""
        if not isinstance(user.op, Map) or len(user.shape) != len(value.shape):
            return False
        wide = [k for k, (a, b) in enumerate(zip(value.shape, user.shape, strict=True)) if a == 1 and b != 1]
        return any(any(d != 1 for d in value.shape[k + 1 :]) for k in wide)

    # ---- kernels ------------------------------------------------------------------------------

    def _launches(self) -> list[Launch]:
        while True:
            try:
                return [
                    self._build(group, number) for number, group in enumerate(self._groups(self._hosts()))
                ]
            except Refusal as refusal:
                self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        """First refused, a value gets a buffer; refused by the kernel that was to fold it besides, a
        kernel."""
        if refusal.value not in self.buffers:
            self._store(refusal.value, refusal.reason)
            return
        assert refusal.value not in self.unhosted, f"refused twice: {refusal}"
        self.unhosted.add(refusal.value)

    def _build(self, group: Group, number: int) -> Launch:
        own = {v for v, _ in group.also} | (
            {group.root} if group.part is None and not self._is_copy(group) else set()
        )
        inside = {v: b for v, b in self.buffers.items() if v not in own}
        name = self.label(group.root, number)
        choice = self.choices.get(group.root, MODEL)
        kernel = Builder(group, inside, self.tables, self.sizes, name, choice).build()
        kernel = replace(kernel, body=with_places(kernel.body, self.tables))
        inlined = tuple(v for v in self._inlined(group.root, inside) if v not in group.makes)
        return Launch(kernel, group.root, group.makes, inlined)

    def _is_copy(self, group: Group) -> bool:
        return self.buffers.get(group.root) != group.buffer

    def _inlined(self, root: Value, stored: Mapping[Value, Buffer]) -> list[Value]:
        """What a kernel for `root` computes itself, leaves left out."""
        seen: dict[Value, None] = {}
        todo = [root]
        while todo:
            v = todo.pop()
            if v not in seen and (v is root or v not in stored) and not isinstance(v.op, Param | Const):
                seen[v] = None
                todo += v.args
        return list(seen)

    def _hosts(self) -> dict[Value, Value]:
        """Reductions that several kernels read are folded by one of them that folds over the same loops and
        can come first."""
        roots = [v for v in self.order if v in self.buffers and not isinstance(v.op, Param | Const)]
        readers: dict[Value, list[Value]] = {}
        for root in roots:
            stop = {v: b for v, b in self.buffers.items() if v is not root}
            for v in self._reads(root, stop):
                if isinstance(v.op, Reduce):
                    readers.setdefault(v, []).append(root)
        hosted: dict[Value, Value] = {}
        for v, found in readers.items():
            if len(found) > 1 and v not in self.buffers:
                self._store(v, f"{len(found)} kernels read it")
            # Who is a host is not hosted: it needs a kernel of its own.
            if v in self.buffers and v not in (self.unhosted | self.alone).union(hosted.values()):
                same = (r for r in found if isinstance(r.op, Reduce) and v.shape == r.shape)
                able = (r for r in same if r is found[0] or self._needs_nothing_after(v, r))
                host = next((r for r in able if r not in hosted), None)
                if host is not None:
                    hosted[v] = host
        return hosted

    def _needs_nothing_after(self, value: Value, host: Value) -> bool:
        """True when all that `host` reads from memory is there before `value` is."""
        stored = {v: b for v, b in self.buffers.items() if v is not host}
        return all(self.order[v] <= self.order[value] for v in self._reads(host, stored) if v in stored)

    def _reads(self, root: Value, stored: Mapping[Value, Buffer]) -> Iterator[Value]:
        seen: set[Value] = set()
        todo = list(root.args)
        while todo:
            v = todo.pop()
            if v in seen:
                continue
            seen.add(v)
            yield v
            if v not in stored:
                todo += v.args

    def _groups(self, hosts: Mapping[Value, Value]) -> Iterator[Group]:
        done: set[Value] = set()
        for plain in self.order:
            value = plain
            if plain in hosts and self._needs_nothing_after(plain, hosts[plain]):
                value = hosts[plain]
            buffer = self.buffers.get(value)
            if (
                buffer is None
                or buffer.space in (Space.INPUT, Space.CONST)
                or value in hosts
                or value in done
            ):
                continue
            done.add(value)
            # Parts of 4-bit elements may share a byte, so that no kernel could write one alone.
            if isinstance(value.op, Concat) and value.dtype not in PACKED:
                yield from self._parts(value, value.op, buffer)
            else:
                also = tuple((v, self.buffers[v]) for v, host in hosts.items() if host == value)
                yield Group(value, buffer, also)
        yield from self._copies()

    def _parts(self, value: Value, op: Concat, buffer: Buffer) -> Iterator[Group]:
        start: Dim = 0
        for arg in value.args:
            yield Group(arg, buffer, part=Part(value.shape, op.axis, start), whole=value)
            start = add(start, arg.shape[op.axis])

    def _copies(self) -> Iterator[Group]:
        for name, value in self.graph.outputs:
            buffer = self._output(name, value)
            if self.buffers[value] != buffer:
                yield Group(value, buffer)


def _reads_rows_again(user: Value) -> bool:
    return isinstance(user.op, Taps) and user.op.axis != user.type.rank - 1 and grows(user)


def port_names(graph: Graph) -> list[str]:
    """For the memory of each input, then of each output, a name like no other's, though tensors are called
    "a b" and "a_b"."""
    names: dict[str, None] = {}
    for kind, ends in (("in", graph.inputs), ("out", graph.outputs)):
        for name, _ in ends:
            unique = plain = f"{kind}_{ident(name)}"
            more = counting(2)
            while unique in names:
                unique = f"{plain}_{next(more)}"
            names[unique] = None
    return list(names)


def ident(name: str) -> str:
    """A name made of letters, digits and underscores."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
