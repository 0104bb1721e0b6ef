"""The thread pool as LLVM IR: parallel regions without OpenMP, without a compiled extension, without libc.

Workers are threads that call worker() once and stay in it. A caller offers a region by publishing its job and
a number of seats; workers take seats. The chunks are cut into one part per thread; each thread claims those
of its own part, so that it meets the same memory in every region, then those that others have left.
The caller closes the seats and waits only for those who sat down, so that a worker the operating system has
suspended delays nobody. A caller that finds the pool busy runs its region alone instead of waiting.

`state` is one 64-bit word, so that taking a seat is one compare-and-swap that fails if anything changed:

    bits 63..32 generation, the futex word | bits 31..16 seats left | bits 15..0 workers at work

A worker that finds itself on the caller's processor moves to another one: woken together, two threads may
land on one processor and take turns there, while another one is idle. So that it finds out at once, a caller
that is done before somebody has woken up gives way; else milliseconds pass.

A job is rewritten only when nobody is at work and no seat is left, so that a seat is for one job only.
Idle workers spin for `SPIN_TICKS`, then sleep. Sleepers announce themselves before the kernel compares the
generation, callers publish before they look for sleepers (both sequentially consistent): no wake-up is lost.
Why each word of the pool's memory is read and written in the order that it is stands beside it in
`plan/pool.py`; the frame that a job works on is ordered as the job is.
Regions do not nest. The order of chunks is free: kernels must not depend on it.
"""

from __future__ import annotations

from typing import Final

from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.processors import Processor
from anyrt.backends.cpu.system import control, threads
from anyrt.codegen.llvm import compile_text
from anyrt.plan import abi
from anyrt.plan.pool import PART_WORDS, PoolWord
from anyrt.plan.program import Compiled, Program

_TEXT: Final = """
declare i64 @llvm.umin.i64(i64, i64)
{control}{threads}
; Claims chunks, first those of the thread's own part, then what others have left, or until somebody cancels.
define internal void @work(ptr %pool, i64 %thread) {{
enter:
  %fn.at = getelementptr i64, ptr %pool, i64 {FUNCTION}
  %fn = load atomic ptr, ptr %fn.at monotonic, align 8
  %args.at = getelementptr i64, ptr %pool, i64 {ARGS}
  %args = load atomic ptr, ptr %args.at monotonic, align 8
  %items.at = getelementptr i64, ptr %pool, i64 {ITEMS}
  %items = load atomic i64, ptr %items.at monotonic, align 8
  %grain.at = getelementptr i64, ptr %pool, i64 {GRAIN}
  %grain = load atomic i64, ptr %grain.at monotonic, align 8
  %chunks.at = getelementptr i64, ptr %pool, i64 {CHUNKS}
  %chunks = load atomic i64, ptr %chunks.at monotonic, align 8
  %parts.at = getelementptr i64, ptr %pool, i64 {PARTS}
  %parts = load atomic i64, ptr %parts.at monotonic, align 8
  %scratch = call ptr @scratch(ptr %args, i64 %thread)
  %first = urem i64 %thread, %parts
  br label %visit
visit:
  %visited = phi i64 [0, %enter], [%visited1, %next]
  %part = phi i64 [%first, %enter], [%part1, %next]
  %following = add i64 %part, 1
  %low.of = mul i64 %part, %chunks
  %low = udiv i64 %low.of, %parts
  %high.of = mul i64 %following, %chunks
  %high = udiv i64 %high.of, %parts
  %size = sub i64 %high, %low
  %line = mul i64 %part, {part_words}
  %word = add i64 %line, {NEXT}
  %next.at = getelementptr i64, ptr %pool, i64 %word
  br label %claim
claim:
  %seen = load atomic i64, ptr %next.at monotonic, align 8
  %some = icmp ult i64 %seen, %size
  br i1 %some, label %take, label %next
take:
  %index = atomicrmw add ptr %next.at, i64 1 monotonic
  %mine = icmp ult i64 %index, %size
  br i1 %mine, label %check, label %next
check:
  %stop = call i1 @cancelled(ptr %args)
  br i1 %stop, label %leave, label %chunk
chunk:
  %number = add i64 %low, %index
  %begin = mul i64 %number, %grain
  %after = add i64 %begin, %grain
  %end = call i64 @llvm.umin.i64(i64 %after, i64 %items)
  call void %fn(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  br label %claim
next:
  %visited1 = add i64 %visited, 1
  %wraps = icmp eq i64 %following, %parts
  %part1 = select i1 %wraps, i64 0, i64 %following
  %all = icmp eq i64 %visited1, %parts
  br i1 %all, label %leave, label %visit
leave:
  ret void
}}

define internal ptr @scratch(ptr %args, i64 %thread) alwaysinline {{
  %base.at = getelementptr i64, ptr %args, i64 {scratch}
  %base = load ptr, ptr %base.at
  %stride.at = getelementptr i64, ptr %args, i64 {stride}
  %stride = load i64, ptr %stride.at
  %offset = mul i64 %thread, %stride
  %mine = getelementptr i8, ptr %base, i64 %offset
  ret ptr %mine
}}

define internal i1 @cancelled(ptr %args) alwaysinline {{
enter:
  %flag.at = getelementptr i64, ptr %args, i64 {cancel}
  %flag = load ptr, ptr %flag.at
  %none = icmp eq ptr %flag, null
  br i1 %none, label %no, label %ask
ask:
  %value = load atomic i64, ptr %flag monotonic, align 8
  %set = icmp ne i64 %value, 0
  ret i1 %set
no:
  ret i1 false
}}

; The same chunks in order, by the caller alone.
define internal void @serial(ptr %fn, ptr %args, i64 %items, i64 %grain) {{
enter:
  %scratch = call ptr @scratch(ptr %args, i64 0)
  br label %chunk
chunk:
  %begin = phi i64 [0, %enter], [%end, %next]
  %stop = call i1 @cancelled(ptr %args)
  br i1 %stop, label %leave, label %next
next:
  %after = add i64 %begin, %grain
  %end = call i64 @llvm.umin.i64(i64 %after, i64 %items)
  call void %fn(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  %more = icmp ult i64 %end, %items
  br i1 %more, label %chunk, label %leave
leave:
  ret void
}}

define void @parallel(ptr %pool, ptr %fn, ptr %args, i64 %items, i64 %wanted) {{
enter:
  %some = icmp sgt i64 %items, 0
  br i1 %some, label %split, label %leave
split:
  %sane = icmp sgt i64 %wanted, 0
  %grain = select i1 %sane, i64 %wanted, i64 1
  %up = add i64 %items, %grain
  %up1 = sub i64 %up, 1
  %chunks = udiv i64 %up1, %grain
  %others = sub i64 %chunks, 1
  %workers.at = getelementptr i64, ptr %pool, i64 {WORKERS}
  %workers = load atomic i64, ptr %workers.at monotonic, align 8
  %seats = call i64 @llvm.umin.i64(i64 %others, i64 %workers)
  %alone = icmp eq i64 %seats, 0
  br i1 %alone, label %serial, label %lock
lock:
  %lock.at = getelementptr i64, ptr %pool, i64 {LOCK}
  %pair = cmpxchg ptr %lock.at, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %publish, label %serial
serial:
  call void @serial(ptr %fn, ptr %args, i64 %items, i64 %grain)
  ret void
publish:
  %fn.at = getelementptr i64, ptr %pool, i64 {FUNCTION}
  store atomic ptr %fn, ptr %fn.at monotonic, align 8
  %args.at = getelementptr i64, ptr %pool, i64 {ARGS}
  store atomic ptr %args, ptr %args.at monotonic, align 8
  %items.at = getelementptr i64, ptr %pool, i64 {ITEMS}
  store atomic i64 %items, ptr %items.at monotonic, align 8
  %grain.at = getelementptr i64, ptr %pool, i64 {GRAIN}
  store atomic i64 %grain, ptr %grain.at monotonic, align 8
  %caller = call i64 @here()
  %caller.at = getelementptr i64, ptr %pool, i64 {CALLER}
  store atomic i64 %caller, ptr %caller.at monotonic, align 8
  %chunks.at = getelementptr i64, ptr %pool, i64 {CHUNKS}
  store atomic i64 %chunks, ptr %chunks.at monotonic, align 8
  %parts = add i64 %seats, 1
  %parts.at = getelementptr i64, ptr %pool, i64 {PARTS}
  store atomic i64 %parts, ptr %parts.at monotonic, align 8
  br label %reset
reset:
  %part = phi i64 [0, %publish], [%part1, %reset]
  %line = mul i64 %part, {part_words}
  %word = add i64 %line, {NEXT}
  %next.at = getelementptr i64, ptr %pool, i64 %word
  store atomic i64 0, ptr %next.at monotonic, align 8
  %part1 = add i64 %part, 1
  %more = icmp ult i64 %part1, %parts
  br i1 %more, label %reset, label %offer
offer:
  %state.at = getelementptr i64, ptr %pool, i64 {STATE}
  %old = load atomic i64, ptr %state.at monotonic, align 8
  %gen = lshr i64 %old, 32
  %gen1 = add i64 %gen, 1
  %high = shl i64 %gen1, 32
  %middle = shl i64 %seats, 16
  %open = or i64 %high, %middle
  %unused = atomicrmw xchg ptr %state.at, i64 %open seq_cst
  %sleepers.at = getelementptr i64, ptr %pool, i64 {SLEEPERS}
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %awake = icmp eq i64 %sleepers, 0
  br i1 %awake, label %join, label %rouse
rouse:
  %sleeping.at = getelementptr i32, ptr %pool, i64 {gen32}
  call void @wake(ptr %sleeping.at, i64 %seats)
  br label %join
join:
  call void @work(ptr %pool, i64 0)
  %closed = atomicrmw and ptr %state.at, i64 -4294901761 acq_rel
  %left = and i64 %closed, 4294901760
  %empty = icmp ne i64 %left, 0
  %asleep = load atomic i64, ptr %sleepers.at monotonic, align 8
  %late = icmp ne i64 %asleep, 0
  %missed = and i1 %empty, %late
  br i1 %missed, label %let, label %wait
let:
  call void @yield()
  br label %wait
wait:
  %spins = phi i64 [0, %join], [0, %let], [%spins1, %pause]
  %now = load atomic i64, ptr %state.at acquire, align 8
  %busy = and i64 %now, 65535
  %done = icmp eq i64 %busy, 0
  br i1 %done, label %unlock, label %again
again:
  %spins1 = add i64 %spins, 1
  %long = icmp ugt i64 %spins1, {yield_after}
  br i1 %long, label %give, label %pause
give:
  call void @yield()
  br label %pause
pause:
  call void @pause()
  br label %wait
unlock:
  store atomic i64 0, ptr %lock.at release, align 8
  ret void
leave:
  ret void
}}

; Moves this thread to another processor, and lets it run on every one again; negative where there is none.
; It is done here since a thread that waits for the interpreter is woken up where its caller runs.
define internal i64 @move(i64 %cpu) noinline {{
enter:
  %mask = alloca [128 x i64], align 8
  %bytes = call i64 @allowed(ptr %mask)
  %fails = icmp slt i64 %bytes, 0
  br i1 %fails, label %leave, label %others
others:
  %number = lshr i64 %cpu, 6
  %place = and i64 %cpu, 63
  %bit = shl i64 1, %place
  %keep = xor i64 %bit, -1
  %at = getelementptr i64, ptr %mask, i64 %number
  %every = load i64, ptr %at
  %rest = and i64 %every, %keep
  store i64 %rest, ptr %at
  %moved = call i64 @allow(ptr %mask, i64 %bytes)
  %alone = icmp slt i64 %moved, 0
  br i1 %alone, label %leave, label %again
again:
  store i64 %every, ptr %at
  %back = call i64 @allow(ptr %mask, i64 %bytes)
  br label %leave
leave:
  %answer = phi i64 [%bytes, %enter], [%moved, %others], [0, %again]
  ret i64 %answer
}}

; Returns 0 when the pool is stopped, 1 when idle on machines where a worker cannot sleep here.
define i32 @worker(ptr %pool, i64 %thread) {{
enter:
  ; What it asks of the processor a thread has from the one that started it.
  call void @ask_usual()
  %state.at = getelementptr i64, ptr %pool, i64 {STATE}
  %word = getelementptr i32, ptr %pool, i64 {gen32}
  %stop.at = getelementptr i64, ptr %pool, i64 {STOP}
  %ticks.at = getelementptr i64, ptr %pool, i64 {SPIN_TICKS}
  %sleepers.at = getelementptr i64, ptr %pool, i64 {SLEEPERS}
  %ticks = load atomic i64, ptr %ticks.at monotonic, align 8
  br label %fresh
fresh:
  %seen0 = phi i64 [-1, %enter], [%seen, %awake], [%g, %worked], [%g, %full]
  %start = call i64 @clock(i64 0)
  br label %look
look:
  %seen = phi i64 [%seen0, %fresh], [%seen, %spin], [%seen, %seat]
  %before = phi i64 [%start, %fresh], [%now, %spin], [%before, %seat]
  %state = load atomic i64, ptr %state.at acquire, align 8
  %g = lshr i64 %state, 32
  %same = icmp eq i64 %g, %seen
  br i1 %same, label %spin, label %news
news:
  %stop = load atomic i64, ptr %stop.at acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %leave, label %where
where:
  %caller.at = getelementptr i64, ptr %pool, i64 {CALLER}
  %caller = load atomic i64, ptr %caller.at monotonic, align 8
  %mine.now = call i64 @here()
  %together = icmp eq i64 %caller, %mine.now
  %apart.at = getelementptr i64, ptr %pool, i64 {APART}
  %apart = load atomic i64, ptr %apart.at monotonic, align 8
  %wanted = icmp ne i64 %apart, 0
  %moves = and i1 %together, %wanted
  br i1 %moves, label %move, label %offer
move:
  %aside = call i64 @move(i64 %caller)
  %stays = icmp slt i64 %aside, 0
  br i1 %stays, label %forget, label %offer
forget:
  store atomic i64 0, ptr %apart.at monotonic, align 8
  br label %offer
offer:
  %seats = and i64 %state, 4294901760
  %none = icmp eq i64 %seats, 0
  br i1 %none, label %full, label %seat
full:
  br label %fresh
seat:
  %taken = add i64 %state, -65535
  %pair = cmpxchg ptr %state.at, i64 %state, i64 %taken acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %worked, label %look
worked:
  call void @work(ptr %pool, i64 %thread)
  %unused = atomicrmw sub ptr %state.at, i64 1 release
  br label %fresh
spin:
  call void @pause()
  %now = call i64 @clock(i64 %before)
  %idle.for = sub i64 %now, %start
  %tired = icmp ugt i64 %idle.for, %ticks
  br i1 %tired, label %sleep, label %look
sleep:
  %u1 = atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  %slept = call i1 @sleep(ptr %word, i64 %seen)
  br i1 %slept, label %awake, label %idle
awake:
  %u2 = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  br label %fresh
idle:
  %u3 = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  ret i32 1
leave:
  ret i32 0
}}

define void @stop(ptr %pool) {{
  %stop.at = getelementptr i64, ptr %pool, i64 {STOP}
  store atomic i64 1, ptr %stop.at seq_cst, align 8
  %state.at = getelementptr i64, ptr %pool, i64 {STATE}
  %u = atomicrmw add ptr %state.at, i64 4294967296 seq_cst
  %sleeping.at = getelementptr i32, ptr %pool, i64 {gen32}
  call void @wake(ptr %sleeping.at, i64 2147483647)
  ret void
}}
"""


def pool_text(target: Processor) -> str:
    """The pool's module for `target`."""
    words = {word.name: int(word) for word in PoolWord}
    return _TEXT.format(
        **words,
        part_words=PART_WORDS,
        gen32=2 * PoolWord.STATE + 1,  # the upper half of a little-endian word
        scratch=abi.SCRATCH,
        stride=abi.SCRATCH_STRIDE,
        cancel=abi.CANCEL,
        yield_after=2000,
        control=control(target),
        threads=threads(target),
    )


def compile_pool(target: Processor) -> Compiled:
    """The pool as an image with the entries parallel, worker and stop."""
    image, offsets = flatten(compile_text(pool_text(target), target))
    return Compiled(Program((), 0, 0, 0, 0, (), tuple(sorted(offsets.items()))), image)
