"""The thread pool as LLVM IR: parallel regions without OpenMP, without a compiled extension, without libc.

Workers are threads that call worker() once and stay in it. A caller offers a region by publishing its job and
a number of seats; workers take seats. The chunks are divided into one part per thread; each thread claims
those of its own part, so that it accesses the same memory in every region, then those that others have left.
The caller closes the seats and waits only for workers that took one, so a worker that the operating system
has suspended delays nobody. A caller that finds the pool busy runs its region alone instead of waiting.

`state` is one 64-bit word, so that taking a seat is one compare-and-swap that fails if anything changed:

    bits 63..32 generation, the futex word | bits 31..16 seats left | bits 15..0 workers at work

A worker on the caller's processor moves to another one: two threads that wake up together may be placed on
one processor and alternate there, while another one is idle. A caller that finishes before any worker has
woken up yields, so that the worker notices at once; otherwise milliseconds pass.

A job is rewritten only when nobody is at work and no seat is left, so that a seat is for one job only. Idle
workers spin for `SPIN_TICKS`, then sleep. Sleepers announce themselves before the kernel compares the
generation, callers publish before they look for sleepers (both sequentially consistent): no wake-up is lost.
`plan/pool.py` justifies the memory order of each word of the pool; the frame of a job is ordered like the
job. Regions do not nest. The order of chunks is free: kernels must not depend on it.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.processors import Processor
from anyrt.backends.cpu.system import control, threads
from anyrt.codegen.build import Body, Loop, Shared, Value, function
from anyrt.codegen.llvm import compile_text
from anyrt.plan import abi
from anyrt.plan.pool import PART_WORDS, PoolWord
from anyrt.plan.program import Compiled, Program

_SEATS: Final = 0xFFFF_0000  # bits of the state
_BUSY: Final = 0xFFFF
_SEAT: Final = 1 << 16
_GENERATION: Final = 32  # its first bit
_YIELD_AFTER: Final = 2000  # looks
_MASK: Final = 128  # words: one bit for each processor (linux.py)


def _shared(pool: Value, word: PoolWord, more: Value | int = 0) -> Shared:
    """The address of a word of the pool, or of a part."""
    at = more + int(word) if isinstance(more, Value) else int(word) + more
    return Shared(pool.at(at, name=f"{word.name.lower()}.at"))


def _sleeping(pool: Value) -> Value:
    """The futex word: the upper half of a little-endian word."""
    return pool.at(2 * PoolWord.STATE + 1, "i32")


def _below(a: Value, b: Value) -> Value:
    return a.body.call("i64", "@llvm.umin.i64", a, b)


def _scratch(args: Value, thread: Value) -> Value:
    return args.word(abi.SCRATCH, "ptr").at(thread * args.word(abi.SCRATCH_STRIDE), "i8")


def _cancelled(f: Body, args: Value) -> None:
    """Whether cancellation is requested."""
    flag = args.word(abi.CANCEL, "ptr")
    with f.when(flag.is_("eq", None)):
        f.give(False)
    f.give(Shared(flag).load("monotonic").is_("ne", 0))


def _work(f: Body, pool: Value, thread: Value) -> None:
    """Claims chunks, first those of the thread's own part, then those that others have left, until
    cancelled."""
    fn = _shared(pool, PoolWord.FUNCTION).load("monotonic", "ptr")
    args = _shared(pool, PoolWord.ARGS).load("monotonic", "ptr")
    words = (PoolWord.ITEMS, PoolWord.GRAIN, PoolWord.CHUNKS, PoolWord.PARTS)
    items, grain, chunks, parts = (_shared(pool, word).load("monotonic") for word in words)
    scratch, turn = _scratch(args, thread), f.variable(thread.do("urem", parts))
    with f.each(0, parts):
        part = turn.value
        following = part + 1
        low = (part * chunks).do("udiv", parts)
        size = (following * chunks).do("udiv", parts) - low
        claimed = _shared(pool, PoolWord.NEXT, part * PART_WORDS)
        with f.loop() as claims:
            with f.when(claimed.load("monotonic").is_("uge", size)):
                claims.leave()
            index = claimed.change("add", 1, "monotonic")
            with f.when(index.is_("uge", size)):
                claims.leave()
            with f.when(f.call("i1", "@cancelled", args)):
                f.give()
            begin = (low + index) * grain
            f.run(fn.text, args, begin, _below(begin + grain, items), scratch)
        turn.value = following.is_("eq", parts).pick(f.number(0), following)
    f.give()


def _serial(f: Body, fn: Value, args: Value, items: Value, grain: Value) -> None:
    """The same chunks in order, by the caller alone."""
    scratch, at = _scratch(args, f.number(0)), f.variable(0)
    with f.loop() as loop:
        with f.when(f.call("i1", "@cancelled", args)):
            loop.leave()
        begin = at.value
        end = _below(begin + grain, items)
        f.run(fn.text, args, begin, end, scratch)
        at.value = end
        with f.when(end.is_("uge", items)):
            loop.leave()
    f.give()


def _parallel(f: Body, pool: Value, fn: Value, args: Value, items: Value, requested: Value) -> None:
    with f.when(items.is_("sle", 0)):
        f.give()
    grain = requested.is_("sgt", 0).pick(requested, 1)
    chunks = (items + grain - 1).do("udiv", grain)
    seats = _below(chunks - 1, _shared(pool, PoolWord.WORKERS).load("monotonic"))
    lock, mine = _shared(pool, PoolWord.LOCK), f.variable(False)
    with f.when(seats.is_("ne", 0)):
        mine.value = lock.swap(0, 1, "acquire")
    with f.when(mine.value.is_("eq", False)):
        f.run("@serial", fn, args, items, grain)
        f.give()
    parts = seats + 1
    job = {PoolWord.FUNCTION: fn, PoolWord.ARGS: args, PoolWord.ITEMS: items, PoolWord.GRAIN: grain}
    job |= {PoolWord.CALLER: f.call("i64", "@here"), PoolWord.CHUNKS: chunks, PoolWord.PARTS: parts}
    for word, value in job.items():
        _shared(pool, word).store(value, "monotonic")
    with f.each(0, parts) as part:
        _shared(pool, PoolWord.NEXT, part * PART_WORDS).store(0, "monotonic")
    _offer(f, pool, seats)
    f.run("@work", pool, 0)
    _leave(f, pool)
    lock.store(0, "release")
    f.give()


def _offer(f: Body, pool: Value, seats: Value) -> None:
    """Opens seats of the next generation."""
    state = _shared(pool, PoolWord.STATE)
    generation = state.load("monotonic").do("lshr", _GENERATION) + 1
    opened = generation.do("shl", _GENERATION).do("or", seats * _SEAT)
    state.change("xchg", opened, "seq_cst")
    with f.when(_shared(pool, PoolWord.SLEEPERS).load("seq_cst").is_("ne", 0)):
        f.run("@wake", _sleeping(pool), seats)


def _leave(f: Body, pool: Value) -> None:
    """Closes the seats, and waits for the workers that took one."""
    state = _shared(pool, PoolWord.STATE)
    left = state.change("and", ~_SEATS, "acq_rel") & _SEATS
    asleep = _shared(pool, PoolWord.SLEEPERS).load("monotonic")
    with f.when(left.is_("ne", 0) & asleep.is_("ne", 0)):
        f.run("@yield")
    spins = f.variable(0)
    with f.loop() as loop:
        with f.when((state.load("acquire") & _BUSY).is_("eq", 0)):
            loop.leave()
        spins.value = spins.value + 1
        with f.when(spins.value.is_("ugt", _YIELD_AFTER)):
            f.run("@yield")
        f.run("@pause")


def _move(f: Body, cpu: Value) -> None:
    """Moves this thread to another processor, and then allows all processors again; negative if there is
    none. It is done here since a thread that waits for the interpreter is woken up on its caller's
    processor."""
    mask = f.room("i64", _MASK)
    nbytes = f.call("i64", "@allowed", mask)
    with f.when(nbytes.is_("slt", 0)):
        f.give(nbytes)
    at = mask.at(cpu.do("lshr", 6))
    every, keep = at.load(), f.number(1).do("shl", cpu & 63).do("xor", -1)
    at.store(every & keep)
    moved = f.call("i64", "@allow", mask, nbytes)
    with f.when(moved.is_("slt", 0)):
        f.give(moved)
    at.store(every)
    f.call("i64", "@allow", mask, nbytes)
    f.give(0, "i64")


def _move_away(f: Body, pool: Value) -> None:
    """Moves this thread away from the caller's processor, if threads can be moved."""
    movable = _shared(pool, PoolWord.MOVABLE)
    caller = _shared(pool, PoolWord.CALLER).load("monotonic")
    together, may = caller.is_("eq", f.call("i64", "@here")), movable.load("monotonic").is_("ne", 0)
    with f.when(together & may), f.when(f.call("i64", "@move", caller).is_("slt", 0)):
        movable.store(0, "monotonic")


def _worker(f: Body, pool: Value, thread: Value) -> None:
    """Returns 0 when the pool is stopped, 1 when idle if a worker cannot sleep in native code."""
    f.run("@ask_usual")  # a thread inherits the floating-point mode of the one that started it
    state = _shared(pool, PoolWord.STATE)
    ticks = _shared(pool, PoolWord.SPIN_TICKS).load("monotonic")
    seen, start, before = f.variable(-1), f.variable(0), f.variable(0)
    fresh = f.variable(True)
    with f.loop() as look:
        with f.when(fresh.value):
            start.value = before.value = f.call("i64", "@clock", 0)
            fresh.value = False
        now = state.load("acquire")
        generation = now.do("lshr", _GENERATION)
        with f.when(generation.is_("ne", seen.value)):
            with f.when(_shared(pool, PoolWord.STOP).load("acquire").is_("ne", 0)):
                f.give(0)
            _move_away(f, pool)
            with f.when((now & _SEATS).is_("ne", 0)):
                _sit(f, pool, thread, now, look)
            seen.value, fresh.value = generation, True
            look.next()
        f.run("@pause")
        before.value = f.call("i64", "@clock", before.value)
        with f.when((before.value - start.value).is_("ugt", ticks)):
            _sleep(f, pool, seen.value)
            fresh.value = True
    f.give(0)


def _sit(f: Body, pool: Value, thread: Value, now: Value, look: Loop) -> None:
    """Takes a seat and works, or retries if the state has changed."""
    state = _shared(pool, PoolWord.STATE)
    with f.when(state.swap(now, now - (_SEAT - 1), "acq_rel").is_("eq", False)):
        look.next()
    f.run("@work", pool, thread)
    state.change("sub", 1, "release")


def _sleep(f: Body, pool: Value, seen: Value) -> None:
    """Waits until the generation changes; returns 1 if it cannot."""
    sleepers = _shared(pool, PoolWord.SLEEPERS)
    sleepers.change("add", 1, "seq_cst")
    slept = f.call("i1", "@sleep", _sleeping(pool), seen)
    sleepers.change("sub", 1, "seq_cst")
    with f.when(slept.is_("eq", False)):
        f.give(1)


def _stop(f: Body, pool: Value) -> None:
    _shared(pool, PoolWord.STOP).store(1, "seq_cst")
    _shared(pool, PoolWord.STATE).change("add", 1 << _GENERATION, "seq_cst")
    f.run("@wake", _sleeping(pool), (1 << 31) - 1)
    f.give()


# Result and name, parameters, attributes; the function that writes it.
_FUNCTIONS: Final = (
    ("internal i1 @cancelled", "ptr args", "alwaysinline", _cancelled),
    ("internal void @work", "ptr pool, i64 thread", "", _work),
    ("internal void @serial", "ptr fn, ptr args, i64 items, i64 grain", "", _serial),
    ("void @parallel", "ptr pool, ptr fn, ptr args, i64 items, i64 wanted", "", _parallel),
    ("internal i64 @move", "i64 cpu", "noinline", _move),
    ("i32 @worker", "ptr pool, i64 thread", "", _worker),
    ("void @stop", "ptr pool", "", _stop),
)


def pool_text(target: Processor) -> str:
    """The pool's module for `target`."""
    functions = [
        function(f"define {head}", parameters, write, how) for head, parameters, how, write in _FUNCTIONS
    ]
    return "\n".join(["declare i64 @llvm.umin.i64(i64, i64)", control(target), threads(target), *functions])


@cache
def compile_pool(target: Processor) -> Compiled:
    """The pool as an image with the entries parallel, worker and stop."""
    image, offsets = flatten(compile_text(pool_text(target), target))
    return Compiled(Program((), 0, 0, 0, 0, (), tuple(sorted(offsets.items()))), image)
