"""The host program as words for the executor (executor.py).

    header     the begin of each part, and the memory that a call needs (`Header`)
    prepare    SIZE instructions for the slots, CALLs that fill tables, RETURN
    run        for each version: UNLESS its guard holds go to the next one, if it has one; CALLs; RETURN
    steps      for each step of `run` its begin, its end and its version, for `step`
    guards     the guard of each version

An operand is two words: the index of a word of the argument array (−1: none), and a number to add. A frame
is the number of its words that are counted from a second word, the number of its words, each as such an index
and number, and then those counted from a second word: which one, and the index of the second word.

    RETURN status; one below 0 before the first step that needs data-dependent sizes without an upper bound
           (core/counts.py): −1 − that step's number
    UNLESS to, guard (operand): jump if that is 0
    SIZE   tokens, word to write, then pairs (Token, payload)
    SERIAL the kernel's place in bytes from the program's first word, its frame's place in words from the
           first frame, items, frame: a call so small that it runs in the calling thread
    CALL   the kernel's place, its frame's, items (operand), the work below which it runs in the calling
           thread, work in all, items a thread claims at once (operands), frame
    EXTERNAL  a number, its frame's place, frame: the function of that number in the table that the array's
           word EXTERNAL points to is called with the frame; if it does not return DONE, RAISED is returned
    JUDGE  status, address (two operands to be added): returns the status unless the number there is FINE
    TEST   to, address (two operands to be added): jump if the byte there is 0
    CHECK  status, place in words from the first frame: returns the status unless the word there, which a
           checked call may leave behind its frame, is 0, and makes it 0
    LOAD   word to write, address (two operands to be added), most (operand): the number there, a
           data-dependent size, limited to 0 … most; the SIZEs behind it follow, and frames are filled again
           from there on

Behind the slots, the argument array has a word that is 1 while the frames are valid, the bindings of these
frames, the frames, and the number of a JUDGE that was not FINE, or the words of a CHECK that were not 0.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from anyrt.codegen.emit import Frame
from anyrt.core.counts import counts, highest, is_open, named
from anyrt.core.dims import Dim, Fn, Sym, add, maximum, mul
from anyrt.core.errors import NotSupportedError
from anyrt.core.machine import Machine
from anyrt.ir.buffer import BITS, Buffer, Space
from anyrt.ir.kernel import Kernel
from anyrt.ir.program import Branch, Call, ExternalCall, Finding, Module, Step, While, every
from anyrt.ir.statements import decided, stores
from anyrt.plan import abi

ALWAYS: Final = (1 << 63) - 1  # the calling thread fills tables
NONE: Final = -1

Operand = tuple[int, int]
NEVER: Final[Operand] = (NONE, 0)  # a guard that does not hold


class Code(enum.IntEnum):
    """Instructions."""

    RETURN = 0
    CALL = 1
    UNLESS = 2
    SIZE = 3
    SERIAL = 4
    JUDGE = 5
    TEST = 6
    CHECK = 7
    LOAD = 8
    EXTERNAL = 9


class Token(enum.IntEnum):
    """Parts of a size."""

    CONST = 0
    WORD = 1
    SCALE = 2  # rounded down to a whole number after a product in float32, whose factor is the payload
    ADD = 3
    MUL = 4
    FLOORDIV = 5
    MOD = 6
    TDIV = 7
    MIN = 8
    MAX = 9
    EQ = 10


class Header(enum.IntEnum):
    """The program's first words."""

    PREPARE = 0
    RUN = 1
    STACK_WORDS = 2
    STEPS = 3
    STEP_TABLE = 4
    GUARD_TABLE = 5
    BINDINGS = 6
    RIGHT = 7
    FRAMES = 8
    FOUND = 9


# Words of the instructions with a fixed length.
LENGTHS: Final = {Code.RETURN: 2, Code.UNLESS: 4, Code.JUDGE: 6, Code.TEST: 6, Code.CHECK: 3, Code.LOAD: 8}
# The words of a CALL behind its code, the kernel's place and the frame's.
CALLED: Final = {"items": 3, "serial": 5, "work": 6, "chunk": 8, "words": 10}


@dataclass(frozen=True, slots=True)
class Encoded:
    """A program's words, with the slots behind the bindings that it uses, symbols first; `frames`: words
    behind the slots."""

    words: Sequence[int]
    slots: tuple[Dim, ...]
    frames: int

    @property
    def bytes(self) -> bytes:
        """As they lie in an image."""
        try:
            return struct.pack(f"<{len(self.words)}q", *self.words)
        except struct.error:  # dynamic shapes may have any factor
            most = max(map(abs, self.words)).bit_length()
            do = "multiply sizes by smaller numbers"
            raise NotSupportedError(
                "AR901", "sizes", f"a size with a number of {most} bits", "at most 63", do
            ) from None


def encode(
    module: Module, frames: Callable[[Kernel], Frame], entry: Callable[[Kernel], int], machine: Machine
) -> Encoded:
    """`module` as words; `entry` returns the byte offset of a kernel from the program's first word."""
    slots: dict[Dim, int] = {s.dim: n for n, s in enumerate((*module.symbols, *module.inner))}
    encoder = _Encoder(module, frames, entry, machine, slots)
    guards = encoder.runs()
    if any(c.tells for c in module.calls):  # again: now all sizes that depend on these are known
        encoder = _Encoder(module, frames, entry, machine, slots)
        guards = encoder.runs()
    return encoder.program(guards)


def serial_work(machine: Machine) -> int:
    """Work (elements, roughly) of a call, below which a second thread does not pay: the work that is done
    while it wakes up."""
    return machine.costs.wake


def claimed_work(machine: Machine) -> int:
    """Work that a thread claims at once: twice as much, so that claiming costs little."""
    return 2 * machine.costs.wake


@dataclass(slots=True)
class _Encoder:
    module: Module
    frames: Callable[[Kernel], Frame]
    entry: Callable[[Kernel], int]
    machine: Machine
    slots: dict[Dim, int]
    filled: int = 0
    judged: int = 0
    stack_words: int = 1
    called: int = 0
    sent: int = 0
    run: list[int] = field(default_factory=list)
    jumps: list[int] = field(default_factory=list)  # words of `run` that hold a jump target, relative to it
    places: list[tuple[int, int, int]] = field(default_factory=list)  # of steps: begin, end, version
    computed: set[Sym] = field(
        default_factory=set
    )  # unbounded sizes that calls have computed since the last pause
    tables: dict[Dim, frozenset[Sym]] = field(default_factory=dict)  # what those at an offset follow from

    def program(self, guards: Sequence[Operand]) -> Encoded:
        """Header and parts; sizes come first, but only the calls show which of them are needed."""
        tables = [w for n, c in enumerate(self.module.fills) for w in self._call(c, ALWAYS, n)]
        sizes = chain.from_iterable(self._size(dim, slot) for dim, slot in list(self.slots.items()))
        prepare = [*sizes, *tables, Code.RETURN, int(abi.Status.OK)]
        begin = len(Header) + len(prepare)
        for at in self.jumps:
            self.run[at] += begin
        steps, right = begin + len(self.run), abi.slot_word(self.module.bindings, len(self.slots))
        words = [
            len(Header),
            begin,
            self.stack_words,
            len(self.places),
            steps,
            steps + 3 * len(self.places),
            self.module.bindings,
            right,
            right + 1 + self.module.bindings,
            right + 1 + self.module.bindings + self.filled,
            *prepare,
            *self.run,
            *(w for first, last, version in self.places for w in (begin + first, begin + last, version)),
            *chain(*guards),
        ]
        return Encoded(words, tuple(self.slots), 1 + self.module.bindings + self.filled + abi.FOUND_WORDS)

    def runs(self) -> Sequence[Operand]:
        """Write the instructions, the place of each step with its version, and the versions' guards."""
        for fill in self.module.tables:
            self.tables |= {s.buffer.offset: decided(fill) for s in stores(fill.body)}
        guards = [self._operand(v.guard) for v in self.module.versions]
        for n, (version, guard) in enumerate(zip(self.module.versions, guards, strict=True)):
            onward = [] if version.guard == 1 else [self._jump(Code.UNLESS, *guard)]
            self._steps(version.steps, n)
            self.run += [Code.RETURN, int(abi.Status.OK)]
            self._land(onward)
        self.run += [Code.RETURN, int(abi.Status.FAILED)]
        return guards

    def _steps(self, steps: Iterable[Step], version: int) -> None:
        for step in steps:
            number = len(self.places)
            if self.computed and not self.computed.isdisjoint(self._needs(step)):
                self.run += [Code.RETURN, -1 - number]
                self.computed.clear()
            begin = len(self.run)
            self.places.append((begin, begin, version))
            match step:
                case Call():
                    called = len(self.module.fills) + self.called
                    self.called += 1
                    self.run += self._call(step, serial_work(self.machine), called)
                    self.run += [] if step.finds is None else self._judge(step.finds)
                    self.run += [
                        w for x, buffer in step.tells if not is_open(x) for w in self._load(x, buffer)
                    ]
                    self.computed |= {x for x, _ in step.tells if is_open(x)}
                case ExternalCall():
                    self.run += [Code.EXTERNAL, self.sent, self.filled, *self._external_words(step)]
                    self.sent += 1
                case While(flag=flag, body=body):
                    done = self._jump(Code.TEST, *self._address(flag))
                    self._steps(body, version)
                    self.run[self._jump(Code.UNLESS, *NEVER)] = begin
                    self._land([done])
                case Branch(flag=flag, then=then, otherwise=otherwise):
                    other = self._jump(Code.TEST, *self._address(flag))
                    self._steps(then, version)
                    done = self._jump(Code.UNLESS, *NEVER)
                    self._land([other])
                    self._steps(otherwise, version)
                    self._land([done])
            self.places[number] = (begin, len(self.run), version)

    def _needs(self, step: Step) -> frozenset[Sym]:
        """The data-dependent sizes in a step, in those inside it and in the places of their buffers, and
        those in their bounds."""
        symbols = set[Sym]()
        for out in (x for x in every([step]) if isinstance(x, ExternalCall)):
            places = (self.module.places.get(b, (0, 0))[1] for b in out.buffers)
            symbols.update(*map(named, (*out.sizes, *(b.entries for b in out.buffers), *places)))
        for call in (x for x in every([step]) if isinstance(x, Call)):
            kernel = call.kernel
            sizes = [kernel.work, *call.first.values()]
            sizes += [d for b in call.buffers for d in (b.entries, self.module.places.get(b, (0, 0))[1])]
            read = (self.tables[b.offset] for b in call.buffers if b.space is Space.TABLE)
            symbols.update(decided(kernel), *map(named, sizes), *read)
        return frozenset(symbols)

    def _jump(self, code: Code, *operands: int) -> int:
        """A jump; returns where to write its target."""
        at = len(self.run) + 1
        self.run += [code, 0, *operands]
        self.jumps.append(at)
        return at

    def _land(self, jumps: Iterable[int]) -> None:
        for at in jumps:
            self.run[at] = len(self.run)

    def _call(self, call: Call, serial: int, number: int) -> list[int]:
        kernel = call.kernel
        items, work = kernel.var.extent if kernel.var.extent is not None else 0, kernel.work
        entry, place, total = self.entry(kernel), self.filled, mul(items, work)
        frame = self._frame(call)
        then = self._check(number, place + abi.FIRST_BINDING + frame[1]) if self.module.checked else []
        if isinstance(items, int) and isinstance(total, int) and total < serial:
            return [Code.SERIAL, entry, place, items, *frame, *then]
        claimed = claimed_work(self.machine)
        chunk = max(1, claimed // work) if isinstance(work, int) else maximum(1, claimed // work)
        sizes = (*self._operand(total), *self._operand(chunk))
        return [Code.CALL, entry, place, *self._operand(items), serial, *sizes, *frame, *then]

    def _check(self, number: int, place: int) -> list[int]:
        return [Code.CHECK, abi.FIRST_FAULT + len(self.module.assertions) + number, place]

    def _judge(self, finding: Finding) -> list[int]:
        self.judged += 1
        return [Code.JUDGE, abi.FIRST_FAULT + self.judged - 1, *self._address(finding.buffer)]

    def _load(self, sym: Sym, buffer: Buffer) -> list[int]:
        """The size, and the slots of all that depend on it."""
        most = self._operand(highest(0 if sym.most is None else sym.most))
        follow = [(dim, slot) for dim, slot in self.slots.items() if sym in counts(dim) and dim != sym.dim]
        sizes = (w for dim, slot in follow for w in self._size(dim, slot))
        return [Code.LOAD, self._word(sym.dim), *self._address(buffer), *most, *sizes]

    def _address(self, buffer: Buffer) -> tuple[int, ...]:
        """Two operands whose sum is the address of a buffer."""
        word, offset = self.module.places[buffer]
        return (word, 0, *self._operand(offset))

    def _frame(self, call: Call) -> list[int]:
        """The frame's words: pointers, the number of elements at each if accesses are checked, and then
        sizes."""
        frame = self.frames(call.kernel)
        lie = [self._lies(call, b) for b in frame.buffers]
        words = [(word, offset if isinstance(offset, int) else 0) for word, offset in lie]
        words += [(self._word(self._extent(call, b)), 0) for b in frame.checked]
        words += [(self._word(d), 0) for d in frame.slots]
        return self._words(words, [at for _, at in lie], frame.own)

    def _external_words(self, out: ExternalCall) -> list[int]:
        """The frame's words of a call of foreign code: addresses of tensors, and then sizes."""
        lie = [self.module.places[b] for b in out.buffers]
        words = [(word, offset if isinstance(offset, int) else 0) for word, offset in lie]
        words += [(self._word(d), 0) for d in out.sizes]
        return self._words(words, [at for _, at in lie], 0)

    def _words(self, words: Sequence[Operand], lie: Sequence[Dim], own: int) -> list[int]:
        """A frame of such words, with `own` words behind them; `lie`: the offsets to add to the first."""
        first = abi.FIRST_BINDING
        self.filled += first + len(words) + own
        more = [(first + k, self._word(at)) for k, at in enumerate(lie) if not isinstance(at, int)]
        return [len(more), len(words), *chain(*words, *more)]

    def _lies(self, call: Call, buffer: Buffer) -> tuple[int, Dim]:
        """The word with the base of what a call gives the kernel for a buffer, and the bytes from there."""
        word, offset = self.module.places[call.binds.get(buffer, buffer)]
        return word, add(offset, mul(call.first.get(buffer, 0), BITS[buffer.stored] // 8))

    def _extent(self, call: Call, buffer: Buffer) -> Dim:
        """The number of elements of a call's buffer from the kernel's first element on."""
        return add(call.binds.get(buffer, buffer).entries, mul(-1, call.first.get(buffer, 0)))

    def _operand(self, x: Dim) -> Operand:
        return (NONE, x) if isinstance(x, int) else (self._word(x), 0)

    def _word(self, x: Dim) -> int:
        slot = self.slots.setdefault(x, len(self.slots))
        return abi.slot_word(self.module.bindings, slot)

    def _size(self, dim: Dim, slot: int) -> Iterable[int]:
        if slot < len(self.module.symbols):
            return ()  # the caller writes it
        inner = slot < len(self._symbols())
        tokens = list(_tokens(highest(dim) if inner else dim, self._symbols()))
        self.stack_words = max(self.stack_words, _depth(tokens))
        word = abi.slot_word(self.module.bindings, slot)
        return (Code.SIZE, len(tokens), word, *(w for token in tokens for w in token))

    def _symbols(self) -> Mapping[Sym, int]:
        first = abi.slot_word(self.module.bindings, 0)
        return {s: first + n for n, s in enumerate((*self.module.symbols, *self.module.inner))}


def _tokens(x: Dim, words: Mapping[Sym, int]) -> Iterable[tuple[int, int]]:
    """A size in postfix order."""
    if isinstance(x, int):
        yield Token.CONST, x
        return
    for n, (monomial, factor) in enumerate(x.terms):
        yield Token.CONST, factor
        for atom in monomial:
            yield from _atom(atom, words)
            yield Token.MUL, 0
        if n:
            yield Token.ADD, 0


def _atom(atom: Sym | Fn, words: Mapping[Sym, int]) -> Iterable[tuple[int, int]]:
    if isinstance(atom, Sym):
        yield Token.WORD, words[atom]
        return
    for argument in atom.args:
        yield from _tokens(argument, words)
    if atom.op == "scale":
        yield Token.SCALE, struct.unpack("<I", struct.pack("<f", atom.factor))[0]
    else:
        yield Token[atom.op.upper()], 0


def _depth(tokens: Sequence[tuple[int, int]]) -> int:
    """The maximum depth of the stack."""
    depth = most = 0
    for kind, _ in tokens:
        depth += 1 if kind in (Token.CONST, Token.WORD) else 0 if kind == Token.SCALE else -1
        most = max(most, depth)
    return most
