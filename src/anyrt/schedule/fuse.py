"""A graph as kernels: one for each value with a buffer, with all that it needs inlined.

Which values have buffers is decided beforehand (partition.py). A kernel may still refuse a value while it is
made; then this value gets a buffer, too, and only the kernels that would have inlined it are made again. The
refusals are kept: they answer "why was this not fused?".

Groups that are alike, down to sizes, types and what is stored, get one kernel, which each calls with its own
buffers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from anyrt.core.dims import Dim, add, product
from anyrt.core.errors import CompileError
from anyrt.core.machine import Machine
from anyrt.core.requirement import FINE, Assertion
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.compute import Apart, Contracted, Elements, Folded, Given, Nested, Pieced, Written
from anyrt.ir.counted import in_turn, mentioned
from anyrt.ir.graph import Graph, Node, Shape, Type, Value, users, walk
from anyrt.ir.kernel import Kernel
from anyrt.ir.program import Call, Finding
from anyrt.ir.statements import buffers_in_order, with_buffers
from anyrt.schedule.cost import Sizes
from anyrt.schedule.elements import Refusal
from anyrt.schedule.group import Group, Inside, Part, Signature, signed
from anyrt.schedule.hidden import hides, is_searched, stored_apart
from anyrt.schedule.launch import Launch, Nest, Outside, Schedule, Step, marked
from anyrt.schedule.layout import Layout, keeps_order, row_major
from anyrt.schedule.layouts import layouts
from anyrt.schedule.made import Made, Refused, different
from anyrt.schedule.naive import Builder
from anyrt.schedule.nest import Around, Numbers, at_first, nest, outside
from anyrt.schedule.nontemporal import Past, past_caches
from anyrt.schedule.partition import Stored, partition
from anyrt.schedule.pieces import pieces
from anyrt.schedule.ports import port_names
from anyrt.schedule.storage import PACKED
from anyrt.schedule.strategies import STRATEGIES, Strategies
from anyrt.schedule.stripkernel import Piece, joined
from anyrt.schedule.strips import ANY, Cut, Strip, strips
from anyrt.schedule.tables import Tables
from anyrt.schedule.tuning import Tuning


@dataclass(slots=True)
class Fusion:
    """The decisions for one graph while they are made. `told` hears how many kernels there are of how
    many."""

    graph: Graph
    sizes: Sizes
    machine: Machine
    alone: frozenset[Value]
    tunings: Mapping[Value, Tuning] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    strategies: Strategies = STRATEGIES
    told: Callable[[int, int], None] = lambda made, of: None
    buffers: dict[Value, Buffer] = field(default_factory=dict)
    refused: list[Stored] = field(default_factory=list)
    unhosted: set[Value] = field(default_factory=set)
    reshaped: set[Value] = field(default_factory=set)  # outputs that others are, under their shape
    ports: dict[str, str] = field(default_factory=dict)
    order: dict[Value, int] = field(default_factory=dict)
    past: dict[Buffer, Past] = field(default_factory=dict)
    is_whole: bool = True  # else what an item of another graph's kernel holds
    made: dict[Hashable, Made | Refused] = field(default_factory=dict)
    layouts: Mapping[Value, Layout] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=Numbers)
    inside: dict[Graph, list[Fusion]] = field(default_factory=dict)  # of regions that hold no nest yet
    scheduled: Schedule | None = None
    nests: dict[Node, Nest | Outside] = field(default_factory=dict)
    assertions: dict[Value, Assertion] = field(default_factory=dict)
    strips: dict[Value, Strip] = field(default_factory=dict)
    parts: Mapping[Value, tuple[Part, Buffer]] = field(default_factory=dict)
    given: Mapping[Value, Layout] = field(default_factory=dict)  # how what is read lies in memory
    apart: Mapping[Dim, Dim] = field(default_factory=dict)  # how far rows of a length lie apart, if farther

    def schedule(self) -> Schedule:
        """The schedules of all regions, each after those inside it, as they are deeper than Python recurses,
        and that of the graph around them."""
        order = [self]
        for fusion in order:  # which grows
            order += fusion._regions()
        for fusion in reversed(order):
            fusion.scheduled = fusion._schedule()
        assert self.scheduled is not None, "it was made last"
        found = self.scheduled.settled({}) if self.inside else self.scheduled
        marks = marked(found.everywhere)
        return found.settled(marks) if marks else found

    def _regions(self) -> Iterator[Fusion]:
        """For each region of a node the decisions for it."""
        for node in dict.fromkeys(v.node for v in walk(v for _, v in self.graph.outputs)):
            for region in node.op.regions:
                self.inside.setdefault(region, []).append(self._inner(region))
                yield self.inside[region][-1]

    def _schedule(self) -> Schedule:
        """Decide, build, and decide again wherever a kernel refuses a value."""
        outputs = [v for _, v in self.graph.outputs]
        # Sizes that data decide are told, and conditions judged, before all else is written.
        judged = [v.args[-1] for v in walk(outputs) if v.op.asserts is not None]
        kept = self._kept()
        self.order = {v: k for k, v in enumerate(walk((*in_turn(self.graph, judged), *kept, *outputs)))}
        self.alone |= frozenset(kept)
        self._leaves()
        self._outputs()
        self._nested()
        for stored in partition(self.graph, self.sizes, self.alone, self.machine):
            self._store(stored)
        for stored in [*stored_apart(self.order, users(self.graph), self.buffers)]:
            self._store(stored)
        self._judged()
        if not self.parts:
            self._cut()
        steps = tuple(self._steps())
        refused, made = tuple(self.refused), len(self.made)
        return Schedule(
            self.graph, steps, self.tables, self.buffers, self.layouts, refused, made, self._again
        )

    def _kept(self) -> list[Value]:
        """Copies of inputs that are updated in place, which are made first (passes/copy_caches.py)."""
        inputs, readers = dict(self.graph.inputs), users(self.graph)
        found = (v for _, source in self.graph.updates for v in readers.get(inputs[source], ()))
        return [v for v in found if isinstance(v.compute, Elements) and v.compute.same and v.compute.moves]

    def _judged(self) -> None:
        """What conditions on data find is stored; a constant is judged here."""
        for value in self.order:
            assertion = value.op.asserts
            if assertion is None:
                continue
            match value.args[-1].compute:
                case Given(literal=bytes() as literal):
                    if (number := int.from_bytes(literal, "little", signed=True)) != FINE:
                        raise assertion.broken(number)
                case _:
                    self.assertions.setdefault(value.args[-1], assertion)
        for found in [v for v in self.assertions if v not in self.buffers]:
            self._store(Stored(found, "it is judged"))

    # ---- buffers ------------------------------------------------------------------------------

    def _leaves(self) -> None:
        names = port_names(self.graph)
        for (_, value), name in zip(self.graph.inputs, names, strict=False):
            self.buffers[value] = Buffer(name, value.dtype, Space.INPUT, product(value.shape))
        outputs = (n for n, _ in self.graph.outputs)
        self.ports.update(zip(outputs, names[len(self.graph.inputs) :], strict=True))
        self._updates()
        for value in self.order:
            match value.compute:
                case Given(constant=True, literal=None):
                    name, size = f"const{self._next()}", product(value.shape)
                    self.buffers[value] = Buffer(name, value.dtype, Space.CONST, size)

    def _updates(self) -> None:
        """An input in whose memory an output lies has that output's buffer: what stays as it is need not be
        stored then (loops/keep.py)."""
        inputs, outputs = dict(self.graph.inputs), dict(self.graph.outputs)
        first = {value: name for name, value in reversed(self.graph.outputs)}
        for output, source in self.graph.updates:
            if first[outputs[output]] == output:
                self.buffers[inputs[source]] = self._output(output, outputs[output])

    def _outputs(self) -> None:
        """The first output of a value is its buffer; others, and inputs that are outputs, are copies (see
        `_copies`)."""
        past = past_caches(self.graph, self.machine)
        updated = {name for name, _ in self.graph.updates}
        for name, value in self.graph.outputs:
            buffer = self._output(name, value)
            # The graph around a strip knows how large all of them are together.
            if self.is_whole and name not in updated and not is_searched(value):
                self.past[buffer] = past[value]
            self.buffers.setdefault(value, buffer)
        self._reshaped()

    def _reshaped(self) -> None:
        """What is made as a whole, and read by nothing but an output that has the same elements in the same
        order, under another shape, is written there; unless a run gives memory of sizes that it finds."""
        readers = users(self.graph)
        for value in dict.fromkeys(v for _, v in self.graph.outputs):
            if not self.is_whole or self.buffers[value].space is not Space.OUTPUT or not keeps_order(value):
                continue
            (made,) = value.args
            whole = isinstance(made.compute, Written | Apart) and not mentioned((made, value))
            if whole and readers[made] == [value]:
                self.buffers[made] = self.buffers[value]
                self.reshaped.add(value)

    def _nested(self) -> None:
        """What steps of their own read lies in memory, and so do their results. What a result is at first, as
        a state, is made in its place where nothing else reads it."""
        uses = Counter(a for node in dict.fromkeys(v.node for v in self.order) for a in node.args)
        for node in dict.fromkeys(v.node for v in self.order if isinstance(v.compute, Apart)):
            results = [Value(node, k) for k in range(len(node.types))]
            for result in results:
                self.buffers.setdefault(result, self._fresh(result.type))
            first = at_first(node)
            for k, arg in enumerate(node.args):
                if k in first and uses[arg] == 1 and not isinstance(arg.compute, Given):
                    self.buffers.setdefault(arg, self.buffers[first[k]])
                if not isinstance(arg.compute, Given):
                    self._store(Stored(arg, "a region or plug-in reads it"))

    def _output(self, name: str, value: Value) -> Buffer:
        if value in self.parts:
            return self.parts[value][1]
        return Buffer(self.ports[name], value.dtype, Space.OUTPUT, product(value.shape))

    def _store(self, stored: Stored) -> None:
        value = stored.value
        if value not in self.buffers:
            self.buffers[value] = self._fresh(replace(value.type, shape=self._roomy(value.shape)))
            self.refused.append(stored)

    def _fresh(self, of: Type) -> Buffer:
        return Buffer(f"v{self._next()}", of.dtype, Space.ARENA, product(of.shape))

    def _next(self) -> int:
        """A number that no other tensor of this graph, nor of one inside it, has."""
        number = max(self.numbers.next, len(self.buffers))
        self.numbers.next = number + 1
        return number

    def _roomy(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.apart.get(shape[-1], shape[-1])) if shape else shape

    def _apart_rows(self, stored: Iterable[Value]) -> dict[Value, Layout]:
        """The layouts of tensors whose rows lie apart; a part lies in a tensor of other kernels."""
        found = {v: row_major(self._roomy(v.shape)) for v in stored if v not in self.parts}
        return {v: layout for v, layout in found.items() if layout.shape != v.shape}

    def _cut(self) -> None:
        """What is made in strips has a buffer; what is in scratch then has none."""
        kept = {v for _, v in self.graph.outputs} | self.alone
        for strip in strips(self.graph, self.sizes, self.machine, kept):
            self.strips[strip.root] = strip
            for v in strip.inside - {strip.root}:
                self.buffers.pop(v, None)
            self._store(Stored(strip.root, "it is made in strips"))

    # ---- kernels ------------------------------------------------------------------------------

    def _steps(self) -> list[Step]:
        while True:
            nested = {x for v in self.order if isinstance(v.compute, Apart) for x in (v, *v.args)}
            stored = [v for v, b in self.buffers.items() if b.space is Space.ARENA and v not in nested]
            chosen = layouts(self.graph, stored, self.sizes)
            self.layouts = {**chosen, **self._apart_rows(stored), **self.given}
            steps: list[Step] = []
            refusals: dict[Value, tuple[Refusal, Group]] = {}
            groups = list(self._groups(self._hosts()))
            if not self.made:
                self.told(0, len(groups))
            for number, group in enumerate(groups):
                try:
                    steps.append(self._step(group, number))
                except Refusal as refusal:
                    assert isinstance(group, Group), "what has steps of its own inlines nothing"
                    refusals.setdefault(refusal.value, (refusal, group))
                self.told(number + 1, len(groups))
            if not refusals:
                return steps
            for refused in refusals.values():
                self._refuse(*refused)

    def _step(self, group: Group | Node, number: int) -> Step:
        if isinstance(group, Group):
            return self._build(group, number)
        if group not in self.nests:
            around = Around(self._region, self._copies_of, port_names, self._fresh, self.buffers)
            made = nest if isinstance(Value(group).compute, Nested) else outside
            self.nests[group] = made(group, around)
        return self.nests[group]

    def _region(self, graph: Graph) -> Schedule:
        found = self.inside[graph].pop().scheduled
        assert found is not None, "regions come before what is around them"
        return found

    def _copies_of(self, graph: Graph) -> Schedule:
        return self._inner(graph)._schedule()

    def _inner(self, graph: Graph) -> Fusion:
        """The decisions for a region, or for copies for one."""
        return Fusion(
            graph,
            self.sizes,
            self.machine,
            self.alone,
            tables=self.tables,
            strategies=self.strategies,
            is_whole=False,
            numbers=self.numbers,
        )

    def _refuse(self, refusal: Refusal, group: Group) -> None:
        """First refused, a value gets a buffer; refused by the kernel that was to fold it besides, a kernel.
        Where a kernel refuses its own root, what it folds besides gets kernels, and then all that it computes
        buffers: each time there is less to refuse."""
        value, reason = refusal.value, refusal.reason
        guests = {v for v, _ in group.also}
        inside = [v for v in self._reads(group.root) if v not in self.buffers and v.compute != Given()]
        if value not in self.buffers:
            self._store(Stored(value, reason))
        elif guests:
            self.unhosted |= {value} if value in guests else guests
        elif inside:
            for v in inside:
                self._store(Stored(v, f"the kernel of {self.graph.name(value)} refuses it: {reason}"))
        else:
            raise CompileError("AR807", self.graph.name(value), got=reason, do="report this as a bug")

    def _build(self, group: Group, number: int) -> Launch:
        signature, name = signed(group, self._inside(group), self.past, self.layouts), f"k{number}"
        key = (signature.key, self._tuning(group))
        if key not in self.made:
            self.made[key] = self._make(group, signature, name)
        found = self.made[key]
        if isinstance(found, Refused):
            raise Refusal(signature.values[found.number], found.reason)
        pairs = list(zip(found.buffers, signature.buffers, strict=True))
        first = {formal: at for formal, b in pairs if (at := signature.first(b)) != 0}
        judged = ((self.buffers[v], self.assertions[v]) for v in group.makes if v in self.assertions)
        finds = next((Finding(b, a) for b, a in judged), None)
        tells = tuple((v.op.tells, self.buffers[v]) for v in group.makes if v.op.tells is not None)
        call = Call(found.kernel, name, different(pairs), first, finds, tells)
        inlined = tuple(v for v in signature.inlined if v not in group.makes)
        return Launch(call, group, inlined, found.kind, self._tuning(group))

    def _tuning(self, group: Group) -> Tuning:
        return self.tunings.get(group.root, self.strategies.tuning)

    def _inside(self, group: Group) -> Mapping[Value, Buffer]:
        """What a kernel for the group finds in memory."""
        return Inside(self.buffers, self._own(group))

    def _own(self, group: Group) -> frozenset[Value]:
        """What a kernel makes although it has a buffer."""
        piece = group.part is not None and group.whole is not group.root
        root = () if piece or group.copy else (group.root,)
        return frozenset((*root, *(v for v, _ in group.also)))

    def _make(self, group: Group, signature: Signature, name: str) -> Made | Refused:
        try:
            if group.strip is not None:
                return self._in_strips(group, group.strip, signature, name)
            builder = self._sectioned(group, signature, name)
            kernel = builder.build()
        except Refusal as refusal:
            if refusal.value not in signature.values:  # below what this group computes
                raise
            return Refused(signature.values.index(refusal.value), refusal.reason)
        marked = {replace(b, nontemporal=0): b for b in buffers_in_order(kernel)}
        formal = (signature.formal(b) for b in signature.buffers)
        return Made(kernel, tuple(marked.get(b, b) for b in formal), builder.kind)

    def _in_strips(self, group: Group, strip: Strip, signature: Signature, name: str) -> Made:
        """The kernels of the graph of one strip, joined, and of another one with what rows are left."""
        known = isinstance(strip.root.shape[strip.row], int)
        both = (False, True) if known and not strip.is_even else (False,)
        found = [self._piece(group, Cut(strip, self.buffers, last)) for last in both]
        kernel = joined(name, found, group.buffer)
        return Made(kernel, tuple(map(signature.formal, signature.buffers)), "strips")

    def _piece(self, group: Group, cut: Cut) -> Piece:
        graph = cut.graph()
        ((_, made),) = graph.outputs
        part = (Part(cut.strip.root.shape, cut.start), group.buffer)
        copying = cut.copying()
        given = {} if copying is None else {copying[2]: copying[1]}
        if cut.strip.root in self.layouts:
            given[made] = self.layouts[cut.strip.root]
        inner = self._within(cut, graph, given, {made: part})
        calls = [x.call.bound for x in inner.schedule().everywhere]
        looking, leaves = self._looking(cut)
        swap = self._leaves_of(cut, inner) | leaves
        if copying is None:
            return Piece(cut, calls, swap, looking=looking)
        before, layout, panels = copying
        ((_, copied),) = before.outputs
        own = Buffer("strip.panels", copied.dtype, Space.SCRATCH, layout.entries)
        swap |= {inner.buffers[panels]: own}
        if cut.last:  # they are there
            return Piece(cut, calls, swap, looking=looking)
        filling = self._within(cut, before, {copied: layout}, {})
        copies = [x.call.bound for x in filling.schedule().everywhere]
        swap |= self._leaves_of(cut, filling) | {filling.buffers[copied]: own}
        return Piece(cut, calls, swap, copies, looking, own)

    def _looking(self, cut: Cut) -> tuple[list[Kernel], dict[Buffer, Buffer]]:
        """The kernels that look at a block of a strip's columns, and what lies where they read."""
        graph = cut.looking()
        if graph is None:
            return [], {}
        inner = self._within(cut, graph, {}, {})
        calls = [x.call.bound for x in inner.schedule().everywhere]
        ((_, seen),) = graph.outputs
        return [with_buffers(k, {inner.buffers[seen]: ANY}) for k in calls], self._leaves_of(cut, inner)

    def _within(
        self,
        cut: Cut,
        graph: Graph,
        given: Mapping[Value, Layout],
        parts: Mapping[Value, tuple[Part, Buffer]],
    ) -> Fusion:
        """The decisions for what an item holds."""
        found = {p: self.layouts[leaf] for leaf, p in cut.leaves.items() if leaf in self.layouts}
        return Fusion(
            graph,
            Sizes({**self.sizes.values, **cut.usual(self.sizes)}),
            replace(self.machine, cores=1),
            frozenset(),
            tables=self.tables,
            strategies=self.strategies,
            parts=parts,
            past={b: self.past[b] for _, b in parts.values() if b in self.past},
            is_whole=False,
            given={**found, **given},
            apart={cut.columns.range[1]: cut.strip.pitch},
        )

    def _leaves_of(self, cut: Cut, inner: Fusion) -> dict[Buffer, Buffer]:
        """What the kernels of an item read, and what lies there for the whole."""
        leaves = {p: leaf for leaf, p in cut.leaves.items() if p in inner.buffers}
        return {inner.buffers[p]: self.buffers[leaf] for p, leaf in leaves.items()}

    def _sectioned(self, group: Group, signature: Signature, name: str) -> Builder:
        """What makes the kernel for all groups of a signature: of a buffer it knows its section alone."""
        if not signature.sections:
            return self._builder(group, name)
        found = ((v, self.buffers.get(v)) for v in signature.values)
        leaves = {v: b for v, b in found if b is not None and b in signature.sections}
        instead = {v: signature.formal(b) for v, b in leaves.items()}
        first = {v: signature.first(b) for v, b in leaves.items()}
        past = {signature.formal(b): self.past[b] for b in signature.buffers if b in self.past}
        part = group.part
        if part is not None and group.layout is None:
            part = replace(part, start=(0,) * len(part.start))
        return replace(
            self._builder(replace(group, buffer=signature.formal(group.buffer), part=part), name),
            buffers=Inside(self.buffers, self._own(group), instead),
            first=first,
            past=past,
        )

    def _builder(self, group: Group, name: str) -> Builder:
        tuning = self._tuning(group)
        inside, sizes = self._inside(group), pieces(self.machine, tuning)
        strategies = self.strategies.without(*tuning.without)
        return Builder(
            group,
            inside,
            self.tables,
            self.sizes,
            self.machine,
            sizes,
            name,
            strategies,
            self.past,
            layouts=self.layouts,
        )

    def _again(self, launch: Launch) -> Builder:
        group = launch.group  # before it was found to write past the caches
        return self._builder(replace(group, buffer=replace(group.buffer, nontemporal=0)), launch.call.name)

    def _hosts(self) -> dict[Value, Value]:
        """Reductions that several kernels read are folded by one of them that folds over the same loops and
        can come first."""
        roots = [v for v in self.order if v in self.buffers and not isinstance(v.compute, Given)]
        readers: dict[Value, list[Value]] = {}
        for root in roots:
            for v in self._reads(root):
                if isinstance(v.compute, Folded):
                    readers.setdefault(v, []).append(root)
        hosted: dict[Value, Value] = {}
        taken = self.unhosted | self.alone  # who is a host is not hosted: it needs a kernel of its own
        for v, found in readers.items():
            if len(found) > 1 and v not in self.buffers:
                self._store(Stored(v, f"{len(found)} kernels read it"))
            if v in self.buffers and v not in taken:
                same = (r for r in found if isinstance(r.compute, Folded) and v.shape == r.shape)
                able = (r for r in same if r is found[0] or self._needs_nothing_after(v, r))
                host = next((r for r in able if r not in hosted), None)
                if host is not None:
                    hosted[v] = host
                    taken.add(host)
        return hosted

    def _needs_nothing_after(self, value: Value, host: Value) -> bool:
        """True when all that `host` reads from memory is there before `value` is."""
        read = tuple(self._reads(host))
        if mentioned(read) - mentioned(self._reads(value)):  # sizes that are known later
            return False
        stored = (v for v in read if v in self.buffers and v is not host)
        return all(self.order[v] <= self.order[value] for v in stored)

    def _reads(self, root: Value) -> Iterator[Value]:
        """What a kernel for `root` computes or loads."""
        seen: set[Value] = set()
        todo = list(root.args)
        while todo:
            v = todo.pop()
            if v in seen:
                continue
            seen.add(v)
            yield v
            if v not in self.buffers or v is root:
                todo += v.args

    def _groups(self, hosts: Mapping[Value, Value]) -> Iterator[Group | Node]:
        """What computes anything: where it is empty there is nothing to do."""
        nodes: set[Node] = set()
        for group in self._all_groups(hosts):
            if isinstance(group, Node) and group not in nodes:
                nodes.add(group)
                yield group
            elif isinstance(group, Group) and 0 not in group.root.shape:
                yield group

    def _all_groups(self, hosts: Mapping[Value, Value]) -> Iterator[Group | Node]:
        done: set[Value] = set()
        guests: dict[Value, list[Value]] = {}
        for guest, host in hosts.items():
            guests.setdefault(host, []).append(guest)
        for plain in self.order:
            value = plain
            if plain in hosts and self._needs_nothing_after(plain, hosts[plain]):
                value = hosts[plain]
            buffer = self.buffers.get(value)
            if (
                buffer is None
                or buffer.space is Space.CONST
                or value.compute == Given()  # an input
                or value in hosts
                or value in done
                or value in self.reshaped
            ):
                continue
            done.add(value)
            if isinstance(value.compute, Apart):
                yield value.node
                continue
            # Parts of 4-bit elements may share a byte, so that no kernel could write one alone.
            how = value.compute
            if isinstance(how, Pieced) and value.dtype not in PACKED:
                yield from self._parts(value, how, buffer)
            elif isinstance(how, Elements) and how.border is not None and self._apart(value, buffer):
                layout, part = self.layouts.get(value), Part(value.shape, how.border.lo)
                yield Group(value, buffer, border=how.border, layout=layout)
                yield Group(value.args[0], buffer, part=part, whole=value, layout=layout)
            else:
                also = tuple((v, self.buffers[v]) for v in guests.get(value, ()))
                layout, strip = self.layouts.get(value), self.strips.get(value)
                of = self.parts[value][0] if value in self.parts else None
                whole = None if of is None else value
                yield Group(value, buffer, also, of, whole, layout=layout, strip=strip)
                if strip is None and self._hides(value):
                    yield Group(value, buffer, (), of, whole, layout=layout, mends=True)
        yield from self._copies()

    def _hides(self, root: Value) -> bool:
        """True where a kernel for the root sums products that hide something."""
        return any(hides(v) for v in (root, *self._reads(root)) if v is root or v not in self.buffers)

    def _parts(self, value: Value, how: Pieced, buffer: Buffer) -> Iterator[Group]:
        at: Dim = 0
        for arg in value.args:
            start = (*(0,) * how.axis, at, *(0,) * (len(value.shape) - how.axis - 1))
            part = Part(value.shape, start)
            yield Group(arg, buffer, part=part, whole=value, layout=self.layouts.get(value))
            at = add(at, arg.shape[how.axis])

    def _apart(self, value: Value, buffer: Buffer) -> bool:
        """True where a border is better written by loops of its own: around what is summed, and where sums
        of products read it."""
        inside = {v for v in self._reads(value) if v not in self.buffers or v is value}
        sums = any(isinstance(v.compute, Contracted) for v in inside)
        return value.dtype not in PACKED and (sums or buffer.space is Space.ARENA)

    def _copies(self) -> Iterator[Group]:
        for name, value in self.graph.outputs:
            buffer = self._output(name, value)
            if self.buffers[value] != buffer:
                yield Group(value, buffer, copy=True)
