"""LLVM functions of whole words, addresses and conditions, built in Python: what is no kernel is written so.

Operators write instructions where the function has got to. Blocks are `with` statements:

>>> def total(f, at, count):
...     sum = f.variable(0)
...     with f.each(0, count) as k:
...         sum.value = sum.value + at.word(k)
...     f.give(sum.value)
>>> text = function("define i64 @total", "ptr at, i64 count", total)
>>> text.splitlines()[0], text.count("br label")
('define i64 @total(ptr %at, i64 %count) {', 3)

Variables lie on the stack, of which LLVM makes registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

Operand: TypeAlias = "Value | int | None"  # None is no address


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What an instruction has made: a number, an address or a condition, as LLVM's `kind` says."""

    body: Body
    kind: str
    text: str

    def do(self, instruction: str, other: Operand) -> Value:
        """An instruction on two of this kind."""
        return self.body.put(self.kind, f"{instruction} {self.kind} {self.text}, {_text(other)}")

    def is_(self, comparison: str, other: Operand) -> Value:
        """A condition: `comparison` is one of icmp's, of a float one of fcmp's."""
        how = "fcmp" if self.kind == "float" else "icmp"
        return self.body.put("i1", f"{how} {comparison} {self.kind} {self.text}, {_text(other)}")

    def to(self, conversion: str, kind: str) -> Value:
        """As another kind."""
        return self.body.put(kind, f"{conversion} {self.kind} {self.text} to {kind}")

    def pick(self, yes: Value, no: Operand) -> Value:
        """One of two, as this condition says."""
        return self.body.put(
            yes.kind, f"select i1 {self.text}, {yes.kind} {yes.text}, {yes.kind} {_text(no)}"
        )

    def at(self, place: Operand, step: str = "i64", name: str = "v") -> Value:
        """The address so many steps behind this one."""
        return self.body.put("ptr", f"getelementptr {step}, ptr {self.text}, i64 {_text(place)}", name)

    def load(self, kind: str = "i64", name: str = "v", align: int = 0) -> Value:
        """What lies at this address; `align`: at a multiple of so many bytes, 0 for what is usual."""
        return self.body.put(kind, f"load {kind}, ptr {self.text}{_aligned(align)}", name)

    def store(self, value: Operand, align: int = 0) -> None:
        """Put a value at this address."""
        self.body.write(f"store {_typed(value)}, ptr {self.text}{_aligned(align)}")

    def word(self, place: Operand, kind: str = "i64") -> Value:
        """What lies so many words behind this address."""
        return self.at(place).load(kind)

    def __add__(self, other: Operand) -> Value:
        return self.do("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self.do("sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self.do("mul", other)

    def __and__(self, other: Operand) -> Value:
        return self.do("and", other)


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """A word that several threads use: each access is atomic, and says what it orders."""

    place: Value

    def load(self, order: str, kind: str = "i64") -> Value:
        """What it is."""
        text = f"load atomic {kind}, ptr {self.place.text} {order}, align 8"
        return self.place.body.put(kind, text)

    def store(self, value: Operand, order: str) -> None:
        """Make it a value."""
        self.place.body.write(f"store atomic {_typed(value)}, ptr {self.place.text} {order}, align 8")

    def change(self, how: str, by: Operand, order: str) -> Value:
        """What it was, before `how` of atomicrmw changed it."""
        return self.place.body.put("i64", f"atomicrmw {how} ptr {self.place.text}, {_typed(by)} {order}")

    def swap(self, old: Operand, new: Operand, order: str) -> Value:
        """Make it `new` where it is `old`; whether it was. Where not, nothing is ordered."""
        text = f"cmpxchg ptr {self.place.text}, {_typed(old)}, {_typed(new)} {order} monotonic"
        pair = self.place.body.put("{ i64, i1 }", text)
        return self.place.body.put("i1", f"extractvalue {pair.kind} {pair.text}, 1")


@dataclass(slots=True, eq=False)
class Variable:
    """A value that changes."""

    place: Value
    kind: str

    @property
    def value(self) -> Value:
        """What it is now."""
        return self.place.load(self.kind)

    @value.setter
    def value(self, value: Operand) -> None:
        self.place.body.write(f"store {self.kind} {_text(value)}, ptr {self.place.text}")


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A loop that is being written."""

    body: Body
    head: str
    behind: str

    def next(self) -> None:
        """Take the next turn."""
        self.body.end(f"br label %{self.head}")

    def leave(self) -> None:
        """Take no turn more."""
        self.body.end(f"br label %{self.behind}")


@dataclass(slots=True, eq=False)
class Body:
    """A function while it is written."""

    first: list[str] = field(default_factory=list)  # room for variables
    lines: list[str] = field(default_factory=list)
    names: int = 0
    is_open: bool = True  # whether the block that is written has no end yet

    def name(self, stem: str) -> str:
        """One that is not taken."""
        self.names += 1
        return f"{stem}{self.names}"

    def write(self, text: str) -> None:
        """An instruction that makes nothing."""
        assert self.is_open, f"nothing gets here: {text}"
        self.lines.append(f"  {text}")

    def put(self, kind: str, text: str, stem: str = "v") -> Value:
        """What an instruction makes."""
        value = Value(self, kind, f"%{self.name(stem)}")
        self.write(f"{value.text} = {text}")
        return value

    def number(self, value: int) -> Value:
        """A constant."""
        return Value(self, "i64", str(value))

    def variable(self, begin: Operand) -> Variable:
        """One that has this value now."""
        kind = begin.kind if isinstance(begin, Value) else _typed(begin).split(" ", 1)[0]
        place = Value(self, "ptr", f"%{self.name('v')}")
        self.first.append(f"  {place.text} = alloca {kind}")
        new = Variable(place, kind)
        new.value = begin
        return new

    def room(self, kind: str, count: Operand) -> Value:
        """The address of room on the stack for so many of a kind, from here on."""
        return self.put("ptr", f"alloca {kind}, i64 {_text(count)}, align 8")

    def call(self, kind: str, function: str, *arguments: Operand) -> Value:
        """What a function gives: `function` is `@name`, or where an address leads."""
        return self.put(kind, f"call {kind} {function}({', '.join(map(_typed, arguments))})")

    def run(self, function: str, *arguments: Operand) -> None:
        """Call a function that gives nothing."""
        self.write(f"call void {function}({', '.join(map(_typed, arguments))})")

    def end(self, text: str) -> None:
        """The end of a block, unless it has one."""
        if self.is_open:
            self.write(text)
        self.is_open = False

    def begin(self, label: str) -> None:
        """A block begins, in which what comes before ends."""
        self.end(f"br label %{label}")
        self.lines.append(f"{label}:")
        self.is_open = True

    def give(self, value: Value | int | None = None, kind: str = "i32") -> None:
        """Return, nothing or a value; numbers are of this kind."""
        self.end("ret void" if value is None else f"ret {_typed(value, kind)}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """A block that is left out where the condition does not hold."""
        then, behind = self.name("then"), self.name("behind")
        self.end(f"br i1 {condition.text}, label %{then}, label %{behind}")
        self.begin(then)
        yield
        self.begin(behind)

    @contextmanager
    def loop(self) -> Iterator[Loop]:
        """Turns until one leaves."""
        loop = Loop(self, self.name("turn"), self.name("behind"))
        self.begin(loop.head)
        yield loop
        loop.next()
        self.begin(loop.behind)

    @contextmanager
    def each(self, begin: Operand, end: Operand, step: int = 1) -> Iterator[Value]:
        """A turn for each number from `begin` on that is below `end`."""
        at = self.variable(begin)
        with self.loop() as loop:
            now = at.value
            with self.when(now.is_("sge", end)):
                loop.leave()
            yield now
            at.value = now + step

    def switch(self, value: Value, cases: Mapping[int, Callable[[], object]]) -> None:
        """What is written for a number, where the value is that one."""
        labels, behind = {n: self.name("case") for n in cases}, self.name("behind")
        listed = " ".join(f"i64 {n}, label %{label}" for n, label in labels.items())
        self.end(f"switch i64 {value.text}, label %{behind} [ {listed} ]")
        for n, write in cases.items():
            self.begin(labels[n])
            write()
            self.end(f"br label %{behind}")
        self.begin(behind)


def function(head: str, parameters: str, write: Callable[..., object], attributes: str = "") -> str:
    """A function's text: `write` is given its body and its parameters, each a kind and a name."""
    body, pairs = Body(), [p.split() for p in parameters.split(", ") if p]
    write(body, *(Value(body, kind, f"%{name}") for kind, name in pairs))
    body.end("unreachable")
    listed = ", ".join(f"{kind} %{name}" for kind, name in pairs)
    return "\n".join([f"{head}({listed}) {attributes}".rstrip() + " {", *body.first, *body.lines, "}\n"])


def internal(*functions: tuple[str, str, Callable[..., object]]) -> str:
    """Functions that are a part of those which call them: result and name, parameters, what writes it."""
    texts = (
        function(f"define internal {head}", given, write, "alwaysinline") for head, given, write in functions
    )
    return "".join(texts)


def _aligned(align: int) -> str:
    return f", align {align}" if align else ""


def _text(value: Operand) -> str:
    if isinstance(value, Value):
        return value.text
    return "null" if value is None else str(value if isinstance(value, bool) else int(value)).lower()


def _typed(value: Operand, kind: str = "i64") -> str:
    match value:
        case Value():
            kind = value.kind
        case bool():
            kind = "i1"
        case None:
            kind = "ptr"
    return f"{kind} {_text(value)}"
