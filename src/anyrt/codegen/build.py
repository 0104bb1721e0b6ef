"""LLVM functions on whole words, addresses and conditions, built in Python, for code that is not a kernel.

Operators append instructions to the function. Blocks are `with` statements:

>>> def total(f, at, count):
...     sum = f.variable(0)
...     with f.each(0, count) as k:
...         sum.value = sum.value + at.word(k)
...     f.give(sum.value)
>>> text = function("define i64 @total", "ptr at, i64 count", total)
>>> text.splitlines()[0], text.count("br label")
('define i64 @total(ptr %at, i64 %count) {', 3)

Variables are on the stack; LLVM promotes them to registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

Operand: TypeAlias = "Value | int | None"  # None is the null address


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """The result of an instruction: a number, an address or a condition, as LLVM's `kind` says."""

    body: Body
    kind: str
    text: str

    def do(self, instruction: str, other: Operand) -> Value:
        """The result of a binary instruction on two values of this kind."""
        return self.body.put(self.kind, f"{instruction} {self.kind} {self.text}, {_text(other)}")

    def is_(self, comparison: str, other: Operand) -> Value:
        """A condition: `comparison` is a predicate of icmp, or of fcmp for floats."""
        how = "fcmp" if self.kind == "float" else "icmp"
        return self.body.put("i1", f"{how} {comparison} {self.kind} {self.text}, {_text(other)}")

    def to(self, conversion: str, kind: str) -> Value:
        """The value converted to another kind."""
        return self.body.put(kind, f"{conversion} {self.kind} {self.text} to {kind}")

    def pick(self, yes: Value, no: Operand) -> Value:
        """`yes` if this condition holds, else `no`."""
        return self.body.put(
            yes.kind, f"select i1 {self.text}, {yes.kind} {yes.text}, {yes.kind} {_text(no)}"
        )

    def at(self, place: Operand, step: str = "i64", name: str = "v") -> Value:
        """The address `place` elements of type `step` after this one."""
        return self.body.put("ptr", f"getelementptr {step}, ptr {self.text}, i64 {_text(place)}", name)

    def load(self, kind: str = "i64", name: str = "v", align: int = 0) -> Value:
        """The value at this address; `align`: a multiple of so many bytes, 0 for the natural alignment."""
        return self.body.put(kind, f"load {kind}, ptr {self.text}{_aligned(align)}", name)

    def store(self, value: Operand, align: int = 0) -> None:
        """Store a value at this address."""
        self.body.write(f"store {_typed(value)}, ptr {self.text}{_aligned(align)}")

    def word(self, place: Operand, kind: str = "i64") -> Value:
        """The word `place` words after this address."""
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
    """A word that several threads use: each access is atomic and has a memory order."""

    place: Value

    def load(self, order: str, kind: str = "i64") -> Value:
        """The current value."""
        text = f"load atomic {kind}, ptr {self.place.text} {order}, align 8"
        return self.place.body.put(kind, text)

    def store(self, value: Operand, order: str) -> None:
        """Store a value."""
        self.place.body.write(f"store atomic {_typed(value)}, ptr {self.place.text} {order}, align 8")

    def change(self, how: str, by: Operand, order: str) -> Value:
        """The previous value; atomicrmw applies the operation `how`."""
        return self.place.body.put("i64", f"atomicrmw {how} ptr {self.place.text}, {_typed(by)} {order}")

    def swap(self, old: Operand, new: Operand, order: str) -> Value:
        """Store `new` if the value is `old`; returns whether it was. Otherwise the access has no order."""
        text = f"cmpxchg ptr {self.place.text}, {_typed(old)}, {_typed(new)} {order} monotonic"
        pair = self.place.body.put("{ i64, i1 }", text)
        return self.place.body.put("i1", f"extractvalue {pair.kind} {pair.text}, 1")


@dataclass(slots=True, eq=False)
class Variable:
    """A variable on the stack."""

    place: Value
    kind: str

    @property
    def value(self) -> Value:
        """The current value."""
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
        """Branch to the next iteration."""
        self.body.end(f"br label %{self.head}")

    def leave(self) -> None:
        """Branch behind the loop."""
        self.body.end(f"br label %{self.behind}")


@dataclass(slots=True, eq=False)
class Body:
    """The body of a function that is being written."""

    first: list[str] = field(default_factory=list)  # allocations of variables
    lines: list[str] = field(default_factory=list)
    names: int = 0
    is_open: bool = True  # whether the current block has no terminator yet

    def name(self, stem: str) -> str:
        """A name that is not used yet."""
        self.names += 1
        return f"{stem}{self.names}"

    def write(self, text: str) -> None:
        """Append an instruction without a result."""
        assert self.is_open, f"nothing gets here: {text}"
        self.lines.append(f"  {text}")

    def put(self, kind: str, text: str, stem: str = "v") -> Value:
        """Append an instruction; returns its result."""
        value = Value(self, kind, f"%{self.name(stem)}")
        self.write(f"{value.text} = {text}")
        return value

    def number(self, value: int) -> Value:
        """A constant."""
        return Value(self, "i64", str(value))

    def variable(self, begin: Operand) -> Variable:
        """A new variable with this initial value."""
        kind = begin.kind if isinstance(begin, Value) else _typed(begin).split(" ", 1)[0]
        place = Value(self, "ptr", f"%{self.name('v')}")
        self.first.append(f"  {place.text} = alloca {kind}")
        new = Variable(place, kind)
        new.value = begin
        return new

    def room(self, kind: str, count: Operand) -> Value:
        """The address of stack memory for `count` values of a kind, which is valid until the function
        returns."""
        return self.put("ptr", f"alloca {kind}, i64 {_text(count)}, align 8")

    def call(self, kind: str, function: str, *arguments: Operand) -> Value:
        """The result of a call; `function` is `@name` or an address."""
        return self.put(kind, f"call {kind} {function}({', '.join(map(_typed, arguments))})")

    def run(self, function: str, *arguments: Operand) -> None:
        """Call a function without a result."""
        self.write(f"call void {function}({', '.join(map(_typed, arguments))})")

    def end(self, text: str) -> None:
        """Append the terminator of the current block, unless it has one."""
        if self.is_open:
            self.write(text)
        self.is_open = False

    def begin(self, label: str) -> None:
        """Begin a block; the current one continues in it."""
        self.end(f"br label %{label}")
        self.lines.append(f"{label}:")
        self.is_open = True

    def give(self, value: Value | int | None = None, kind: str = "i32") -> None:
        """Return nothing or a value; numbers are of this kind."""
        self.end("ret void" if value is None else f"ret {_typed(value, kind)}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """A block that is executed if the condition holds."""
        then, behind = self.name("then"), self.name("behind")
        self.end(f"br i1 {condition.text}, label %{then}, label %{behind}")
        self.begin(then)
        yield
        self.begin(behind)

    @contextmanager
    def loop(self) -> Iterator[Loop]:
        """A loop that repeats until its body leaves it."""
        loop = Loop(self, self.name("turn"), self.name("behind"))
        self.begin(loop.head)
        yield loop
        loop.next()
        self.begin(loop.behind)

    @contextmanager
    def each(self, begin: Operand, end: Operand, step: int = 1) -> Iterator[Value]:
        """A loop over the numbers from `begin` up to, but excluding, `end`."""
        at = self.variable(begin)
        with self.loop() as loop:
            now = at.value
            with self.when(now.is_("sge", end)):
                loop.leave()
            yield now
            at.value = now + step

    def switch(self, value: Value, cases: Mapping[int, Callable[[], object]]) -> None:
        """Execute the code of the case whose number equals the value; nothing if there is none."""
        labels, behind = {n: self.name("case") for n in cases}, self.name("behind")
        listed = " ".join(f"i64 {n}, label %{label}" for n, label in labels.items())
        self.end(f"switch i64 {value.text}, label %{behind} [ {listed} ]")
        for n, write in cases.items():
            self.begin(labels[n])
            write()
            self.end(f"br label %{behind}")
        self.begin(behind)


def function(head: str, parameters: str, write: Callable[..., object], attributes: str = "") -> str:
    """The text of a function: `write` receives its body and its parameters, each with a kind and a name."""
    body, pairs = Body(), [p.split() for p in parameters.split(", ") if p]
    write(body, *(Value(body, kind, f"%{name}") for kind, name in pairs))
    body.end("unreachable")
    listed = ", ".join(f"{kind} %{name}" for kind, name in pairs)
    return "\n".join([f"{head}({listed}) {attributes}".rstrip() + " {", *body.first, *body.lines, "}\n"])


def internal(*functions: tuple[str, str, Callable[..., object]]) -> str:
    """Inlined functions: for each its result and name, its parameters, and the function that writes it."""
    texts = (
        function(f"define internal {head}", parameters, write, "alwaysinline")
        for head, parameters, write in functions
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
