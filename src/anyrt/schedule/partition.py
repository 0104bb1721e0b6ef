"""Selects by cost, before kernels exist, the values that get a buffer; all others are computed inside the
kernels that use them.

A value needs a buffer if it is an output, or if recomputing it at every reader costs more than storing and
loading it. Its cost depends on the stored values before it; the number of its readers depends on the stored
values behind it. So both are computed for a guess, which is refined until it is stable.

A reader is a loop: that of a kernel, of a fold inside a kernel, or of taps. A fold counts only if its operand
has been folded already: reading a row twice is cheap, but each norm after another norm would recompute that
one for each of its folds. A loop may read a value at several positions (positions.py), as a sum of shifted
copies does, and would compute it for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod

from anyrt.core.dims import always_le, mul, symbols
from anyrt.core.dtype import bits
from anyrt.core.machine import Machine
from anyrt.ir.compute import Concatenated, Contracted, Elements, Extern, Folded, Given, HostStep, Resampled
from anyrt.ir.graph import Graph, Value, users
from anyrt.loops.nest import FEW
from anyrt.loops.words import WORTH
from anyrt.prims.view import is_turned
from anyrt.schedule.coded import Coded
from anyrt.schedule.cost import Price, Prices, Sizes, heavy, weight
from anyrt.schedule.narrowest import narrowest
from anyrt.schedule.pieces import pieces
from anyrt.schedule.positions import Position, own, positions, read, times
from anyrt.schedule.turning import axis_of_terms, rows

CHAIN = 160  # instructions: longer chains are cut, so that kernels stay readable and compile fast
AS_A_COPY = 2  # instructions for an operand of a contraction that are worth a copy
DEPTH = 48  # values inlined into one another
ROUNDS = 6  # guesses: two or three are needed
MANY = 16  # more readers are not counted
REPEATED = 1 << 13  # elements that are slower to read across memory than an additional kernel

Loop = tuple[Value, Value]  # the root of a kernel or taps, and the fold inside it, or again the same


@dataclass(frozen=True, slots=True)
class Readers:
    """The loops that read a value, and the positions of their reads. Ordered, so that a limit always drops
    the same ones."""

    reads: Mapping[tuple[Loop, Position], None] = field(default_factory=dict)
    loops: Mapping[Loop, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored:
    """A value with a buffer, and why."""

    value: Value
    reason: str


def partition(graph: Graph, sizes: Sizes, alone: frozenset[Value], machine: Machine) -> tuple[Stored, ...]:
    """The values stored besides inputs, outputs and constants, producers first."""
    return tuple(
        Stored(v, reason) for v, reason in _Partition(graph, sizes, alone, machine).decided().items()
    )


@dataclass(slots=True)
class _Partition:
    graph: Graph
    sizes: Sizes
    alone: frozenset[Value]
    machine: Machine
    order: Sequence[Value] = ()
    place: Mapping[Value, int] = field(default_factory=dict)
    fixed: frozenset[Value] = frozenset()  # stored in every guess
    users: Mapping[Value, Sequence[Value]] = field(default_factory=dict)
    contracted: set[Value] = field(default_factory=set)  # operands of contractions, also through moves
    narrow: Mapping[Value, Value] = field(default_factory=dict)  # what to store of what is contracted
    # Values that select element by element between existing and new elements.
    updated: frozenset[Value] = frozenset()
    coded: Coded = field(init=False)
    prices: Prices = field(init=False)

    def decided(self) -> dict[Value, str]:
        """The stable guess, or one of several that alternate."""
        self.order = self.graph.values
        self.place = {v: k for k, v in enumerate(self.order)}
        leaves = (v for v in self.order if _is_stored(v))
        fed = (a for v in self.order if isinstance(v.compute, HostStep) for a in v.args)
        self.fixed = frozenset((*leaves, *fed, *(v for _, v in self.graph.outputs)))
        self.users = users(self.graph)
        self.narrow = {v: self._around(u) for v, u in narrowest(self.order, self.users).items()}
        self.narrow |= {u: u for u in self.narrow.values()}
        ends = dict(self.graph.outputs)
        self.updated = frozenset(
            v for n, _ in self.graph.updates if isinstance((v := ends[n]).compute, Elements)
        )
        self.coded = Coded(self.fixed, self.sizes)
        self.prices = Prices(self.fixed, self.machine)
        self.coded.find_rows(self.order)
        for value in reversed(self.order):
            through = any(u in self.contracted and _moves(u) for u in self.users[value])
            if through or any(self._repeats_operand(u, value) for u in self.users[value]):
                self.contracted.add(value)
        guess: dict[Value, str] = {}
        before: list[Mapping[Value, str]] = []
        while all(guess.keys() != g.keys() for g in before) and len(before) < ROUNDS:
            before.append(guess)
            guess = self._choose(self._readers(guess))
        return guess

    def _repeats_operand(self, user: Value, value: Value) -> bool:
        """True for a contraction that reads an element for several results, as all but matrix-vector products
        do. It decodes weights that are codes in words itself."""
        how = user.compute
        if not isinstance(how, Contracted) or self.coded.is_in_words(value) or value in self.coded.decoded:
            return False
        labels = [own for own, arg in zip((how.left, how.right), user.args, strict=True) if arg is value]
        others = [k for k, label in enumerate(how.out) if any(label not in own for own in labels)]
        return prod(self.sizes.of(user.shape[k]) for k in others) > 1 or self.coded.is_computed_from(value)

    def _readers(self, stored: Mapping[Value, str]) -> dict[Value, Readers]:
        """The loops that would compute each value if it were not stored but all of `stored` were."""
        readers: dict[Value, Readers] = {}
        for value in reversed(self.order):
            through = (self._through(value, user, stored, readers) for user in self.users[value])
            readers[value] = _first(chain.from_iterable(through), MANY + 1)
        return readers

    def _through(
        self, value: Value, user: Value, stored: Mapping[Value, str], readers: Mapping[Value, Readers]
    ) -> Iterator[tuple[Loop, Position]]:
        """The loops that read `value` to compute `user`."""
        match user.compute:
            case Concatenated() | HostStep():  # each part is written by its own loops
                yield (value, value), own(value.shape)
            case _ if user in stored or user in self.fixed:
                yield from (((user, user), at) for at in positions(value, user, own(user.shape)))
            case Resampled():
                yield (user, user), own(value.shape)
            case Folded() | Contracted():
                yield from (((kernel, user), own(value.shape)) for kernel, _ in readers[user].loops)
            case _:
                for loop, where in readers[user].reads:
                    yield from ((loop, at) for at in positions(value, user, where))

    def _choose(self, readers: Mapping[Value, Readers]) -> dict[Value, str]:
        """The values to store for these readers, producers first."""
        chosen: dict[Value, str] = {}
        chains = _Chains(self.fixed, chosen)
        for value in self.order:
            if isinstance(value.compute, Given):
                continue
            if value in self.alone:
                chosen.setdefault(value, "fusing is switched off for it")
            elif value not in self.fixed:
                chains.add(value)
                self._store_others(value, chains, chosen)
                reason = self._decided(value, readers, chains, chosen)
                if reason is not None:
                    chosen[value] = reason
        return {v: r for v, r in chosen.items() if v not in self.fixed}

    def _decided(
        self, value: Value, readers: Mapping[Value, Readers], chains: _Chains, chosen: dict[Value, str]
    ) -> str | None:
        """The reason to store a value, None if there is none; an operand shared by others is `chosen`."""
        if isinstance(value.compute, Folded | Contracted):
            return self._summed_again(value, readers, chains)
        price = self.prices.of(value, chosen, chains)
        shared = self._shared(value, price, chains)
        if shared is not None:
            chosen[shared] = "what leads to it is long, and would be computed by all that reads it"
            for v in self._readers_up_to(shared, value, chains):
                chains.add(v)
            price = self.prices.of(value, chosen, chains)
        return self._reason(value, price, readers, chains)

    def _store_others(self, value: Value, chains: _Chains, chosen: dict[Value, str]) -> None:
        """A kernel contracts once: of several contracted operands, only the last one is not stored."""
        able = sorted({a for a in value.args if chains.contracts(a)}, key=self.place.__getitem__)
        for other in able[:-1]:
            if chains.contracted[other] is not chains.contracted[able[-1]]:
                stored = self.narrow.get(other, other)
                chosen[stored] = "what reads it contracts something else"
                for v in self._readers_up_to(stored, other, chains):
                    chains.add(v)
            chains.add(value)

    def _shared(self, value: Value, price: Price, chains: _Chains) -> Value | None:
        """If too long a chain leads to a value: the last value in it that others read, too. Otherwise they
        would recompute all that leads to it."""
        if _too_long(price, chains.depth[value]) is None or len(set(self.users[value])) > 1:
            return None
        read = {v for there in times(value, chains, self.prices.reads).values() for v in there}
        inside = {v for v in read if v in chains.depth and v not in chains}
        for v in sorted(inside, key=self.place.__getitem__, reverse=True):
            shared = len(set(self.users[v])) > 1 and not isinstance(v.compute, Folded | Contracted)
            if shared and 2 * self.prices.of(v, chains.chosen, chains).size >= price.size:
                return v
        return None

    def _readers_up_to(self, value: Value, last: Value, chains: _Chains) -> list[Value]:
        """The readers of a value, up to the next stored one and `last`, producers first."""
        later, todo = set[Value](), [value]
        while todo:
            new = {u for u in self.users[todo.pop()] if self.place[u] <= self.place[last]} - later
            later |= new
            todo += [u for u in new if u not in chains]
        return sorted((v for v in later if v not in self.fixed), key=self.place.__getitem__)

    def _goes_on(self, value: Value, readers: Mapping[Value, Readers]) -> bool:
        """True if all readers of a value read one value computed from it that is no larger: if one of them is
        worth storing, it is that one."""
        return any(
            not isinstance(u.compute, Folded | Contracted | Resampled | Concatenated)
            and u not in self.fixed
            and readers[u].loops.keys() == readers[value].loops.keys()
            and len(readers[u].reads) == len(readers[value].reads)
            and self.sizes.volume(u) <= self.sizes.volume(value)
            for u in self.users[value]
        )

    def _leads_on(self, value: Value, readers: Mapping[Value, Readers]) -> bool:
        """True for a value computed element by element from contractions by several kernels, for one later
        value that is not larger or also depends on another tensor: it is stored."""
        loops = readers[value].loops
        once = len(readers[value].reads) == len(loops) and all(kernel == loop for kernel, loop in loops)
        if len(loops) < 2 or not once:
            return False
        at = value
        while len(set(self.users[at])) == 1 and self._goes_on(at, readers):
            at = self.users[at][0]
            joins = any(2 * self.sizes.volume(a) > self.sizes.volume(at) for a in at.args[1:])
            if joins or bits(at.dtype) <= bits(value.dtype):
                return True
        return False

    def _reason(
        self, value: Value, price: Price, readers: Mapping[Value, Readers], chains: _Chains
    ) -> str | None:
        """The reason to store a value, None if recomputing it is cheaper."""
        uses = self.users[value]
        if value in self.coded.rows:
            return "a sum of products reads codes, and their scales"
        if value in self.contracted and not self._is_copied(value):
            if price.weight > AS_A_COPY:
                return "a contraction reads each of its elements many times"
            if self._becomes_words(value):
                return f"a contraction sums words of it for {WORTH} rows or more"
        if (whole := _as_a_whole(value, uses) or self._contracted_before(value, readers, chains)) is not None:
            return whole
        if (other := _turned(value, uses) or _too_long(price, chains.depth[value])) is not None:
            return other
        mine = Readers() if self._goes_on(value, readers) else readers[value]
        if (often := self._read_again(value, price.weight, mine)) is not None:
            return often
        if (again := self._computed_again(value, mine, readers, chains)) is not None:
            return again
        if price.weight >= heavy(self.machine) and any(_repeats(value, u) for u in uses):
            return f"it is repeated, and costs {price.weight} instructions each time"
        return next((r for u in uses if (r := self._tapped_again(value, u, price.weight, chains))), None)

    def _computed_again(
        self, value: Value, mine: Readers, readers: Mapping[Value, Readers], chains: _Chains
    ) -> str | None:
        """The reason to store a value that several loops compute from folded rows."""
        loops, folds = len(mine.loops), chains.folded.get(value, 0)
        row = folds == 1 and self._is_row(mine)
        if loops <= 1 or not folds or self._spreads(value) or row:
            return None
        anew = weight(value, _More(chains, readers, loops), self.machine)
        if anew * (loops - 1) <= self._parting(mine, folds):
            return None
        return f"{loops} loops over folded rows would each spend {anew} instructions on it"

    def _is_copied(self, value: Value) -> bool:
        """True for values that kernels copy themselves: moves, elements selected for whole products, and the
        border around an input that is read in windows of one image (loops/window_tile.py)."""
        how = value.compute
        if isinstance(how, Elements) and how.positions and value.args[0] in self.fixed:
            return all(_chooses(value, u) for u in self.users[value])
        if not isinstance(how, Elements) or how.border is None or value.args[0] not in self.fixed:
            return _moves(value)
        return all(_slides(v) for v in self._contractions(value))

    def _becomes_words(self, value: Value) -> bool:
        """True for a conversion to the half type that dots sum, if the contraction has enough rows: computed
        where it is read, it would remain in a type that no dot sums."""
        halves = self.machine.halves
        if value.dtype not in halves or any(a.dtype in halves for a in value.args):
            return False
        return any(rows(v, value, self.sizes) >= WORTH for v in self._contractions(value))

    def _contractions(self, value: Value) -> Iterator[Value]:
        """The readers of a value, also through moves."""
        for user in self.users[value]:
            if _moves(user) and user not in self.fixed:
                yield from self._contractions(user)
            else:
                yield user

    def _parting(self, readers: Readers, folds: int) -> int:
        """Instructions per element that is stored for other loops: one more where it is stored, and twice at
        the readers if one kernel had computed these. A value that depends on several folds is stored sooner,
        or chains of them would be recomputed repeatedly."""
        moves = 4 if folds == 1 and len({kernel for kernel, _ in readers.loops}) == 1 else 1
        return moves * self.machine.costs.move + 2

    def _is_row(self, readers: Readers) -> bool:
        """True for a value that the loops of one kernel read, row by row: the first of them keeps the row for
        the others (loops/cache_read.py)."""
        most = pieces(self.machine).cached
        folds = [loop for _, loop in readers.loops if isinstance(loop.compute, Folded)]
        rows = (self.sizes.volume(f.args[0]) // max(1, self.sizes.volume(f)) for f in folds)
        along = all(f.args[0].shape[:-1] == f.shape[:-1] for f in folds)
        return len({kernel for kernel, _ in readers.loops}) == 1 and along and all(r <= most for r in rows)

    def _read_again(self, value: Value, cost: int, readers: Readers) -> str | None:
        """The reason to store a value that several kernels read, or one at several positions."""
        kernels = {kernel for kernel, _ in readers.loops}
        if cost * (len(kernels) - 1) > self._dear:
            return f"{len(kernels)} kernels would each spend {cost} instructions on it"
        how = value.compute
        # Moves are better read from their source.
        computes = isinstance(how, Elements) and how.same
        if computes and cost * self._again(value, readers) > self._dear:
            return f"{len(readers.reads)} positions would each take {cost} instructions"
        return None

    def _summed_again(self, value: Value, readers: Mapping[Value, Readers], chains: _Chains) -> str | None:
        """The reason to store a fold or a contraction."""
        # Its kernel would compute all elements, and skip none (loops/keep.py).
        if any(kernel in self.updated for kernel, _ in readers[value].loops):
            return "most of what reads it stays what it is"
        if value in self.contracted:
            return "a contraction reads each of its elements many times"
        if isinstance(value.compute, Contracted):
            return self._contracted_before(value, readers, chains)
        return self._folded_again(value, readers[value], chains)

    def _contracted_before(
        self, value: Value, readers: Mapping[Value, Readers], chains: _Chains
    ) -> str | None:
        """The reason to store a contraction, or a value computed from one."""
        least = self.narrow.get(value)
        follows = chains.contracts(value) or least is value
        later = self._leads_on(value, readers) or _is_bordered(least, value)
        again = _contracted_again(readers[value]) if follows and not later else None
        return again or self._contracted_first(value, chains)

    def _around(self, value: Value) -> Value:
        """The border around a value, if only the border reads the value and windows of one image read the
        border: it is stored, so that no window tests positions."""
        around = self.users[value][0] if len(set(self.users[value])) == 1 else value
        stays = around in self.fixed or not _is_bordered(around, value)
        return value if stays or not all(map(_slides, self._contractions(around))) else around

    def _folded_again(self, value: Value, readers: Readers, chains: _Chains) -> str | None:
        """The reason to store a value that one loop would fold at each of several positions."""
        (arg,), again = value.args, self._again(value, readers)
        length = self.sizes.volume(arg) // max(1, self.sizes.volume(value))
        if again * length * self.prices.of(arg, chains.chosen, chains).weight <= self._dear:
            return None
        return f"it would be folded for each of {len(readers.reads)} positions"

    @property
    def _dear(self) -> int:
        """Instructions per element that are worth a separate kernel."""
        return 4 * self.machine.costs.move + heavy(self.machine)

    def _again(self, value: Value, readers: Readers) -> float:
        """The number of additional times that loops would compute each element, since they read it at several
        positions."""
        if len(readers.reads) == len(readers.loops):
            return 0.0
        read = Counter(loop for loop, _ in readers.reads)
        most = self.sizes.volume(value)
        parts = (
            (n, self.sizes.volume(loop.args[0] if isinstance(loop.compute, Folded) else loop))
            for (_, loop), n in read.items()
        )
        return sum(max(0.0, n * min(1.0, volume / most) - 1) for n, volume in parts) if most else 0.0

    def _contracted_first(self, value: Value, chains: _Chains) -> str | None:
        """The reason to store a contraction that is repeated afterwards, such as gates of channels: a
        kernel that fused it would iterate over its readers in the contraction's loop order, possibly
        across memory."""
        if not chains.contracts(value) or not any(isinstance(u.compute, Elements) for u in self.users[value]):
            return None
        repeated = self._spreads(value) and self._most(value) >= REPEATED
        return "it is contracted, and repeated for many elements" if repeated else None

    def _spreads(self, value: Value) -> bool:
        """True for a value that is computed once for many elements of each reader, such as the mean of a
        row."""
        return self._most(value) > 4 * self.sizes.volume(value)

    def _most(self, value: Value) -> int:
        """Elements of its largest reader."""
        return max((self.sizes.volume(u) for u in self.users[value]), default=0)

    def _tapped_again(self, value: Value, user: Value, cost: int, chains: _Chains) -> str | None:
        """Taps of taps along the same axis: the inner ones would be repeated for each outer one."""
        taps = user.compute
        if not isinstance(taps, Resampled) or taps.axis not in chains.tapped[value]:
            return None
        count, reads = taps.rule.count, self.sizes.volume(user)
        once = self.sizes.volume(value) * (cost + self.machine.costs.move) + reads * count
        again = reads * count * cost
        if again <= once:
            return None
        return f"taps along axis {taps.axis} would compute it {count} times, which has such taps itself"


@dataclass(slots=True)
class _Chains:
    """The chain to each value from the last stored one: its depth, the axes along which it was tapped, and
    the number of consecutive folds. As a container: the stored values."""

    fixed: frozenset[Value]
    chosen: Mapping[Value, str]
    depth: dict[Value, int] = field(default_factory=dict)
    tapped: dict[Value, frozenset[int]] = field(default_factory=dict)
    folded: dict[Value, int] = field(default_factory=dict)
    contracted: dict[Value, Value] = field(default_factory=dict)

    def contracts(self, value: Value) -> bool:
        """True when a kernel that computes the value contracts."""
        return value in self.contracted and value not in self

    def __contains__(self, value: object) -> bool:
        return value in self.fixed or value in self.chosen

    def add(self, value: Value) -> None:
        """Record a value whose operands are known."""
        below = [a for a in value.args if a not in self and not isinstance(a.compute, Given)]
        self.depth[value] = 1 + max((self.depth[a] for a in below), default=0)
        axes = frozenset[int]().union(*(self.tapped[a] for a in below))
        how = value.compute
        if isinstance(how, Resampled):
            axes |= {how.axis}
        elif axes and not (isinstance(how, Elements) and how.same):
            axes = frozenset(range(value.type.rank))  # other positions, other axes
        self.tapped[value] = axes
        folds = max((self.folded.get(a, 0) for a in below), default=0)
        if folds or isinstance(how, Folded | Contracted):
            self.folded[value] = folds + isinstance(how, Folded | Contracted)
        self.contracted.pop(value, None)
        for one in (self.contracted[a] for a in below if a in self.contracted):
            self.contracted[value] = one
        if isinstance(how, Contracted):
            self.contracted[value] = value


@dataclass(frozen=True, slots=True)
class _More:
    """The stored values, and those with more readers than `count`: storing these would help more."""

    chains: _Chains
    readers: Mapping[Value, Readers]
    count: int

    def __contains__(self, value: object) -> bool:
        return value in self.chains or len(self.readers[value].loops) > self.count  # type: ignore[index]  # `object`, as containers ask


def _as_a_whole(value: Value, users: Sequence[Value]) -> str | None:
    """The reason why no other kernel computes an element of the value where it is read."""
    if isinstance(value.compute, Concatenated):
        return "its parts are written by loops of their own"
    if isinstance(value.compute, Extern):
        return "its own statements make the whole of it"
    if not _moves(value) and any(isinstance(u.compute, Extern) for u in users):
        return "what is written from it reads it several times"
    return None


def _moves(value: Value) -> bool:
    how = value.compute
    return isinstance(how, Elements) and how.moves


def _is_bordered(around: Value | None, value: Value) -> bool:
    """True for the border around a value."""
    how = None if around is None else around.compute
    return isinstance(how, Elements) and how.border is not None and around is not value


def _slides(value: Value) -> bool:
    """True for sums of products whose one factor is the same for all windows of an image, as in a depthwise
    convolution."""
    how = value.compute
    if not isinstance(how, Contracted):
        return False
    return not all(any(value.shape[k] != 1 for k in how.kept(*labels)) for labels in how.sides)


def _chooses(value: Value, user: Value) -> bool:
    """True if elements are selected for whole products, along axes that number these: positions are data, but
    within a product all elements are laid out as in their source."""
    how, mine = user.compute, value.compute
    if not isinstance(how, Contracted) or not isinstance(mine, Elements):
        return False
    sides = [pair for pair, arg in zip(how.sides, user.args, strict=True) if arg == value]
    if len(sides) != 1:
        return False
    own_labels, others = sides[0]
    axes = {f"i{k}" for k, label in enumerate(own_labels) if label in how.out and label in others}
    return all(_depends(value.args[k], own(value.shape)) <= axes for k in mine.positions)


def _depends(value: Value, at: Position) -> set[str]:
    """The axes along which an element at this position changes, as far as moves show."""
    while _moves(value):
        ((value, at, _),) = read(value, at)
    return {s.name for d in at for s in symbols(d)}


def _contracted_again(readers: Readers) -> str | None:
    """The reason to store a contraction: it belongs to one loop, which computes it where it is read."""
    if len(readers.loops) > 1:
        return f"{len(readers.loops)} loops would contract it"
    if len(readers.reads) > 1:
        return f"it would be contracted for each of {len(readers.reads)} positions"
    if any(kernel != loop for kernel, loop in readers.loops):
        return "it would be contracted inside another fold"
    return None


def _turned(value: Value, uses: Sequence[Value]) -> str | None:
    """The reason to store a transposed value."""
    if not is_turned(value):
        return None
    if all(_reads_rows_again(u) for u in uses):
        return "it is transposed, and what reads it reads rows of it several times"
    if any(_sums_rows(value, u) for u in uses):
        return "it is transposed, and a contraction sums each of its rows many times"
    return None


def _too_long(price: Price, depth: int) -> str | None:
    """The reason why no kernel contains the whole chain to a value."""
    if depth > 1 and price.size > CHAIN:
        return f"computing it takes more than {CHAIN} instructions an element"
    if depth > DEPTH:
        return f"{DEPTH} values are computed inside one another already"
    return "finding what it reads takes too many divisions" if price.is_far else None


def _first(readers: Iterable[tuple[Loop, Position]], count: int) -> Readers:
    distinct: dict[tuple[Loop, Position], None] = {}
    for reader in readers:
        distinct[reader] = None
        if len(distinct) >= count:
            break
    return Readers(distinct, dict.fromkeys(loop for loop, _ in distinct))


def _is_stored(value: Value) -> bool:
    how = value.compute
    return isinstance(how, Given) and how.literal is None


def _reads_rows_again(user: Value) -> bool:
    """Taps along an outer axis that produce at least half as many rows again as they read, and statements
    that read elements several times."""
    how = user.compute
    if isinstance(how, Extern):
        return how.again
    if not isinstance(how, Resampled) or how.axis == user.type.rank - 1:
        return False
    return always_le(mul(user.args[0].shape[how.axis], 3), mul(how.size, 2))


def _sums_rows(value: Value, user: Value) -> bool:
    """True for a contraction that needs the terms of its sums contiguous."""
    sides = (side for side, arg in enumerate(user.args) if arg == value)
    return any(axis_of_terms(user, side) == value.type.rank - 1 for side in sides)


def _repeats(value: Value, user: Value) -> bool:
    """True if a broadcasting reader reads the same elements again in an outer loop, of more iterations than
    become one body (loops/share.py)."""
    how = user.compute
    if not isinstance(how, Elements) or not how.same or len(user.shape) != len(value.shape):
        return False
    wide = [k for k, (a, b) in enumerate(zip(value.shape, user.shape, strict=True)) if a == 1 and b != 1]
    return any(any(d != 1 for d in value.shape[k + 1 :]) for k in wide if not always_le(user.shape[k], FEW))
