"""The executor: native code that interprets a host program, the same for every engine.

A host program (ir/program.py) is data (bytecode.py), so an engine whose kernels are cached needs no compiler.
Its entries are those of plan/abi.py. Each call has a frame, as `Frame` of codegen/emit.py defines it: the
fixed words of the argument array, which the pool reads too, then the pointers and sizes of the kernel. Frames
are filled again only if bindings or sizes have changed, so that threads share their lines. A call with little
work runs in the calling thread: waking another one costs more.

The results must not depend on the floating-point mode of the caller's thread (other libraries change its
rounding, or flush subnormal numbers to 0). If the mode is not the default, it is set for the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from anyrt.backends.cpu.bytecode import CALLED, LENGTHS, Code, Header, Token
from anyrt.backends.cpu.processors import Processor
from anyrt.backends.cpu.system import control
from anyrt.codegen.build import Body, Loop, Shared, Value, Variable, function
from anyrt.core.requirement import FINE
from anyrt.plan import abi

_ATTRIBUTES: Final = 'nounwind "no-builtins" "no-jump-tables"="true"'

_DECLARED: Final = """
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""


def _least(a: Value, b: Value) -> Value:
    return a.body.call("i64", "@llvm.smin.i64", a, b)


def _most(a: Value, b: Value) -> Value:
    return a.body.call("i64", "@llvm.smax.i64", a, b)


def _divided(result: Callable[[Value, Value, Value, Value], Value], a: Value, b: Value) -> Value:
    """`result` of a quotient, a remainder, the divisor, and whether the quotient was rounded up; 0 if the
    divisor is 0."""
    none = b.is_("eq", 0)
    by = none.pick(a.body.number(1), b)
    q, r = a.do("sdiv", by), a.do("srem", by)
    up = r.do("xor", by).is_("slt", 0) & r.is_("ne", 0)
    return none.pick(a.body.number(0), result(q, r, by, up))


_OPERATIONS: Final[Mapping[Token, Callable[[Value, Value], Value]]] = {
    Token.ADD: lambda a, b: a + b,
    Token.MUL: lambda a, b: a * b,
    Token.MIN: _least,
    Token.MAX: _most,
    Token.FLOORDIV: partial(_divided, lambda q, r, by, up: q - up.to("zext", "i64")),
    Token.MOD: partial(_divided, lambda q, r, by, up: r + up.pick(by, 0)),
    Token.TDIV: partial(_divided, lambda q, r, by, up: q),
    Token.EQ: lambda a, b: a.is_("eq", b).to("zext", "i64"),
}


def _scaled(x: Value, payload: Value) -> Value:
    by = payload.to("trunc", "i32").to("bitcast", "float")
    product = x.to("sitofp", "float").do("fmul", by)
    whole = product.to("fptosi", "i64")
    above = whole.to("sitofp", "float").is_("ogt", product)
    return whole - above.to("zext", "i64")


def _size(f: Body, args: Value, code: Value, at: Value, count: Value, stack: Value) -> None:
    """The value of a size: tokens in postfix order on a stack."""
    top = f.variable(stack)
    with f.each(at, at + count * 2, 2) as pc:
        kind, payload, above = code.word(pc), code.word(pc + 1), top.value

        def push(value: Value) -> None:
            above.store(value)
            top.value = above.at(1)

        def scale() -> None:
            above.at(-1).store(_scaled(above.word(-1), payload))

        def reduce(write: Callable[[Value, Value], Value]) -> None:
            above.at(-2).store(write(above.word(-2), above.word(-1)))
            top.value = above.at(-1)

        leaves: dict[int, Callable[[], object]] = {
            Token.CONST: lambda: push(payload),
            Token.WORD: lambda: push(args.word(payload)),
            Token.SCALE: scale,
        }
        f.switch(kind, {**leaves, **{token: partial(reduce, write) for token, write in _OPERATIONS.items()}})
    f.give(top.value.word(-1))


def _execute(f: Body, args: Value, start: Value, end: Value, stale: Value) -> None:
    """Instructions from `start` on, in the default floating-point mode."""
    theirs = f.call("i64", "@asked")
    with f.when(f.call("i1", "@usual", theirs)):
        f.give(f.call("i32", "@carry", args, start, end, stale, False))
    f.run("@ask_usual")
    done = f.call("i32", "@carry", args, start, end, stale, False)
    f.run("@ask", theirs)
    f.give(done)


@dataclass(frozen=True, slots=True)
class _Program:
    """A host program in the argument array of a call."""

    f: Body
    args: Value
    code: Value

    @classmethod
    def of(cls, f: Body, args: Value) -> _Program:
        """That of an array."""
        return cls(f, args, args.word(abi.PROGRAM, "ptr"))

    def part(self, header: Header) -> Value:
        """The address of the part of the array that the header names."""
        return self.args.at(self.code.word(header))

    def operand(self, at: Value) -> Value:
        """args[code[at]] + code[at + 1]; a negative word means 0."""
        first, plain = self.code.word(at), self.code.word(at + 1)
        some = first.is_("sge", 0)
        return some.pick(self.args.word(some.pick(first, 0)), 0) + plain

    def place(self, at: Value) -> Value:
        """The address that is the sum of two operands."""
        return (self.operand(at) + self.operand(at + 2)).to("inttoptr", "ptr")

    def anew(self, start: Value, end: Value | int) -> None:
        """Return the status of instructions; frames that were valid become invalid."""
        self.part(Header.RIGHT).store(0)
        self.f.give(self.f.call("i32", "@execute", self.args, start, end, True))


@dataclass(frozen=True, slots=True)
class _Instruction:
    """The instruction at `at`, which an iteration of `loop` executes; the next one is at `pc`."""

    program: _Program
    frames: Value
    stack: Value
    at: Value
    argument: Value
    pc: Variable
    loop: Loop

    def go(self, to: Value) -> None:
        """Continue at the next instruction."""
        self.pc.value = to
        self.loop.next()

    def behind(self, code: Code) -> Value:
        """The place of the next instruction."""
        return self.at + (self.argument * 2 + 3 if code is Code.SIZE else LENGTHS[code])

    def give(self) -> None:
        """RETURN."""
        self.program.f.give(self.argument.to("trunc", "i32"))

    def fault(self, *values: Value) -> None:
        """Store the values, and return."""
        for k, value in enumerate(values):
            self.program.part(Header.FOUND).at(k).store(value)
        self.give()

    def jump(self, code: Code, value: Value) -> None:
        """UNLESS or TEST: jump if this is 0."""
        self.go(value.is_("ne", 0).pick(self.behind(code), self.argument))

    def size(self) -> None:
        """SIZE."""
        p = self.program
        value = p.f.call("i64", "@size", p.args, p.code, self.at + 3, self.argument, self.stack)
        p.args.at(p.code.word(self.at + 2)).store(value)
        self.go(self.behind(Code.SIZE))

    def judge(self) -> None:
        """JUDGE."""
        number = self.program.place(self.at + 2).load()
        with self.program.f.when(number.is_("ne", FINE)):
            self.fault(number)
        self.go(self.behind(Code.JUDGE))

    def check(self) -> None:
        """CHECK."""
        at = self.frames.at(self.program.code.word(self.at + 2))
        access = at.load()
        with self.program.f.when(access.is_("ne", 0)):
            at.store(0)
            self.fault(access, at.word(1), at.word(2))
        self.go(self.behind(Code.CHECK))

    def load(self, fills: Variable) -> None:
        """LOAD: after it, sizes may differ from those in the frames."""
        p = self.program
        value, most = p.place(self.at + 2).load(), p.operand(self.at + 6)
        p.args.at(self.argument).store(_least(_most(value, p.f.number(0)), most))
        fills.value = True
        self.go(self.behind(Code.LOAD))

    def skip(self, code: Code) -> None:
        """Do nothing."""
        self.go(self.behind(code))

    def fill(self, frame: Value, first: Value, second: Value, end: Value) -> None:
        """A frame's words."""
        args, code, fixed = self.program.args, self.program.code, f"<{abi.FIRST_BINDING} x i64>"
        frame.store(args.load(fixed, align=8), align=8)
        to = args.body.variable(frame.at(abi.FIRST_BINDING))
        with args.body.each(first, second, 2) as at:
            to.value.store(args.word(code.word(at)) + code.word(at + 1))
            to.value = to.value.at(1)
        with args.body.each(second, end, 2) as at:
            place = frame.at(code.word(at))
            place.store(place.load() + args.word(code.word(at + 1)))

    def launch(self, kind: Value, frame: Value, items: Value, scratch: Value) -> None:
        """SERIAL, CALL or EXTERNAL, with its frame."""
        p, kernel = self.program, self.program.code.at(self.argument, "i8")
        with p.f.when(kind.is_("eq", Code.EXTERNAL)):
            entry = p.args.word(abi.EXTERNAL, "ptr").at(self.argument).load("ptr")
            answer = p.f.call("i32", entry.text, frame)
            with p.f.when(answer.is_("ne", abi.DONE)):
                p.f.give(abi.Status.RAISED)
            self.loop.next()
        with p.f.when(kind.is_("eq", Code.CALL)):
            work, most = p.operand(self.at + CALLED["work"]), p.code.word(self.at + CALLED["serial"])
            with p.f.when(work.is_("sge", most)):
                chunk = p.operand(self.at + CALLED["chunk"])
                pool = p.args.at(abi.POOL).load("ptr", "pool")
                # The pool's first word, which never changes (plan/pool.py).
                parallel = Shared(pool).load("monotonic", "ptr")
                p.f.run(parallel.text, pool, kernel, frame, items, chunk)
                self.loop.next()
        p.f.run(kernel.text, frame, 0, items, scratch)


def _carry(f: Body, args: Value, start: Value, end: Value, stale: Value, only: Value) -> None:
    """Instructions from `start` on until one returns, or the next is at `end`; frames are filled if `stale`.
    With `only`, nothing else is done, for one instruction after the other, without jumps and returns."""
    p = _Program.of(f, args)
    frames, scratch = p.part(Header.FRAMES), args.word(abi.SCRATCH, "ptr")
    stack = f.room("i64", p.code.word(Header.STACK_WORDS))
    pc, fills = f.variable(start), f.variable(stale)
    with f.loop() as loop:
        at = pc.value
        with f.when(at.is_("eq", end)):
            f.give(abi.Status.OK)
        kind = p.code.word(at)
        i = _Instruction(p, frames, stack, at, p.code.word(at + 1), pc, loop)
        with f.when(only):
            f.switch(kind, {code: partial(i.skip, code) for code in (*LENGTHS, Code.SIZE)})
        items, words = f.variable(0), f.variable(at + 3)

        def called(count: Value, behind: int) -> None:
            items.value = count
            words.value = at + behind

        f.switch(
            kind,
            {
                Code.RETURN: i.give,
                Code.UNLESS: lambda: i.jump(Code.UNLESS, p.operand(at + 2)),
                Code.TEST: lambda: i.jump(Code.TEST, p.place(at + 2).load("i8")),
                Code.SIZE: i.size,
                Code.JUDGE: i.judge,
                Code.CHECK: i.check,
                Code.LOAD: lambda: i.load(fills),
                Code.SERIAL: lambda: called(p.code.word(at + 3), 4),
                Code.CALL: lambda: called(p.operand(at + CALLED["items"]), CALLED["words"]),
            },
        )
        first, frame = words.value + 2, frames.at(p.code.word(at + 2))
        second = first + p.code.word(first - 1) * 2
        pc.value = second + p.code.word(first - 2) * 2
        with f.when(fills.value):
            i.fill(frame, first, second, pc.value)
        with f.when(only):
            loop.next()
        i.launch(kind, frame, items.value, scratch)


def _run(f: Body, args: Value) -> None:
    p = _Program.of(f, args)
    start, count, right = p.code.word(Header.RUN), p.code.word(Header.BINDINGS), p.part(Header.RIGHT)
    bound, fresh = args.at(abi.FIRST_BINDING), f.variable(right.load().is_("ne", 0))
    with f.each(0, count) as k:
        fresh.value = fresh.value & bound.word(k).is_("eq", right.word(k + 1))
    with f.when(fresh.value):
        f.give(f.call("i32", "@execute", args, start, -1, False))
    right.store(0)
    # Those of branches that are not taken now, too: all frames are valid, or none.
    f.call("i32", "@carry", args, start, p.code.word(Header.STEP_TABLE), True, True)
    status = f.call("i32", "@execute", args, start, -1, False)
    with f.when(status.is_("eq", abi.Status.OK)):
        with f.each(0, count) as k:
            right.at(k + 1).store(bound.word(k))
        right.store(1)
    f.give(status)


def _prepare(f: Body, args: Value) -> None:
    p = _Program.of(f, args)
    p.anew(p.code.word(Header.PREPARE), -1)


def _row(p: _Program, k: Value, strange: int) -> Value:
    """The place of step number k in the table. Returns `strange` if there is none, and 0 for one of a version
    that these sizes do not select."""
    with p.f.when(k.is_("uge", p.code.word(Header.STEPS))):
        p.f.give(strange)
    row, guards = p.code.word(Header.STEP_TABLE) + k * 3, p.code.word(Header.GUARD_TABLE)
    own = p.code.word(row + 2)
    with p.f.each(0, own) as n, p.f.when(p.operand(guards + n * 2).is_("ne", 0)):
        p.f.give(0)
    with p.f.when(p.operand(guards + own * 2).is_("eq", 0)):
        p.f.give(0)
    return row


def _step(f: Body, args: Value, k: Value) -> None:
    """Step number k alone; one of a version that these sizes do not select does nothing."""
    p = _Program.of(f, args)
    row = _row(p, k, abi.Status.FAILED)
    p.anew(p.code.word(row), p.code.word(row + 1))


def _again(f: Body, args: Value, k: Value) -> None:
    """1 if step number k, a loop, executes another iteration now, else 0."""
    p = _Program.of(f, args)
    begin = p.code.word(_row(p, k, 0))
    with f.when(p.code.word(begin).is_("ne", Code.TEST)):
        f.give(0)
    f.give(p.place(begin + 2).load("i8").is_("ne", 0).to("zext", "i32"))


def _resume(f: Body, args: Value, k: Value) -> None:
    """From step number k on."""
    p = _Program.of(f, args)
    p.anew(p.code.word(p.code.word(Header.STEP_TABLE) + k * 3), -1)


# Result, name, attributes; parameters; the function that writes it.
_FUNCTIONS: Final = (
    ("internal i64 @size", "ptr args, ptr code, i64 at, i64 count, ptr stack", "", _size),
    ("internal i32 @carry", "ptr args, i64 start, i64 end, i1 stale, i1 only", "noinline ", _carry),
    ("internal i32 @execute", "ptr args, i64 start, i64 end, i1 stale", "", _execute),
    (f"i32 @{abi.RUN}", "ptr args", "", _run),
    (f"i32 @{abi.PREPARE}", "ptr args", "", _prepare),
    (f"i32 @{abi.STEP}", "ptr args, i64 k", "", _step),
    (f"i32 @{abi.RESUME}", "ptr args, i64 k", "", _resume),
    (f"i32 @{abi.AGAIN}", "ptr args, i64 k", "", _again),
)


def text(target: Processor) -> str:
    """The executor as LLVM text."""
    functions = [
        function(f"define {head}", parameters, write, how + _ATTRIBUTES)
        for head, parameters, how, write in _FUNCTIONS
    ]
    return "\n".join([_DECLARED, control(target), *functions])
