"""The executor: native code that carries out a host program, the same for every engine.

A host program (ir/program.py) is data (bytecode.py), so that an engine whose kernels are known needs no
compiler. Its entries are those of plan/abi.py. Each call has a frame, as `Frame` of codegen/emit.py lays it
out: the fixed words of the argument array, which the pool reads too, then the pointers and sizes of the
kernel. Frames are filled again only when bindings or sizes have changed, so that threads share their lines.
A call with little work runs in the calling thread: waking another costs more.

What numbers come out must not depend on what the caller's thread asks of the processor (other libraries let
it round elsewhere, or take subnormal numbers for 0). Where that is not the usual, it is so for the call.
"""

from __future__ import annotations

from typing import Final

from anyrt.backends.cpu.bytecode import CALLED, Code, Header, Token
from anyrt.backends.cpu.processors import Processor
from anyrt.backends.cpu.system import control
from anyrt.core.requirement import FINE
from anyrt.plan import abi

_DIVISION: Final = """
{name}:
  %{name}.none = icmp eq i64 %b, 0
  %{name}.by = select i1 %{name}.none, i64 1, i64 %b
  %{name}.q = sdiv i64 %a, %{name}.by
  %{name}.r = srem i64 %a, %{name}.by
  %{name}.x = xor i64 %{name}.r, %{name}.by
  %{name}.below = icmp slt i64 %{name}.x, 0
  %{name}.some = icmp ne i64 %{name}.r, 0
  %{name}.fix = and i1 %{name}.below, %{name}.some
  {result}
  %{name}.v = select i1 %{name}.none, i64 0, i64 %{name}.w
  br label %binary
"""
_FLOORDIV: Final = (
    "%floordiv.one = zext i1 %floordiv.fix to i64\n  %floordiv.w = sub i64 %floordiv.q, %floordiv.one"
)
_MOD: Final = "%mod.up = select i1 %mod.fix, i64 %mod.by, i64 0\n  %mod.w = add i64 %mod.r, %mod.up"
_TDIV: Final = "%tdiv.w = add i64 %tdiv.q, 0"

_SIMPLE: Final = {
    Token.ADD: "add i64 %a, %b",
    Token.MUL: "mul i64 %a, %b",
    Token.MIN: "call i64 @llvm.smin.i64(i64 %a, i64 %b)",
    Token.MAX: "call i64 @llvm.smax.i64(i64 %a, i64 %b)",
}

_TEXT: Final = """
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
{control}
; args[code[at]] + code[at + 1], where a negative word stands for nothing
define internal i64 @operand(ptr %args, ptr %code, i64 %at) alwaysinline {{
  %p = getelementptr i64, ptr %code, i64 %at
  %first = load i64, ptr %p
  %p1 = getelementptr i64, ptr %p, i64 1
  %plain = load i64, ptr %p1
  %some = icmp sge i64 %first, 0
  %word = select i1 %some, i64 %first, i64 0
  %from = getelementptr i64, ptr %args, i64 %word
  %read = load i64, ptr %from
  %v = select i1 %some, i64 %read, i64 0
  %value = add i64 %v, %plain
  ret i64 %value
}}

; where the sum of two operands leads
define internal ptr @place(ptr %args, ptr %code, i64 %at) alwaysinline {{
  %base = call i64 @operand(ptr %args, ptr %code, i64 %at)
  %at2 = add i64 %at, 2
  %more = call i64 @operand(ptr %args, ptr %code, i64 %at2)
  %sum = add i64 %base, %more
  %p = inttoptr i64 %sum to ptr
  ret ptr %p
}}

define internal i64 @word(ptr %code, i64 %at) alwaysinline {{
  %p = getelementptr i64, ptr %code, i64 %at
  %v = load i64, ptr %p
  ret i64 %v
}}

; The value of a size: tokens in postfix order on a stack.
define internal i64 @size(ptr %args, ptr %code, i64 %at, i64 %count, ptr %stack) #0 {{
entry:
  %twice = mul i64 %count, 2
  %end = add i64 %at, %twice
  br label %next
next:
  %pc = phi i64 [%at, %entry], [%after, %pushed]
  %top = phi ptr [%stack, %entry], [%above, %pushed]
  %more = icmp slt i64 %pc, %end
  br i1 %more, label %token, label %done
done:
  %last = getelementptr i64, ptr %top, i64 -1
  %result = load i64, ptr %last
  ret i64 %result
token:
  %kind = call i64 @word(ptr %code, i64 %pc)
  %pc1 = add i64 %pc, 1
  %payload = call i64 @word(ptr %code, i64 %pc1)
  %after = add i64 %pc, 2
  switch i64 %kind, label %operation [ i64 {CONST}, label %literal
                                       i64 {WORD}, label %loaded
                                       i64 {SCALE}, label %scaled ]
literal:
  br label %leaf
loaded:
  %word.at = getelementptr i64, ptr %args, i64 %payload
  %word.v = load i64, ptr %word.at
  br label %leaf
leaf:
  %leaf.v = phi i64 [%payload, %literal], [%word.v, %loaded]
  %leaf.up = getelementptr i64, ptr %top, i64 1
  store i64 %leaf.v, ptr %top
  br label %pushed
scaled:
  %scale.at = getelementptr i64, ptr %top, i64 -1
  %scale.x = load i64, ptr %scale.at
  %scale.bits = trunc i64 %payload to i32
  %scale.by = bitcast i32 %scale.bits to float
  %scale.f = sitofp i64 %scale.x to float
  %scale.p = fmul float %scale.f, %scale.by
  %scale.t = fptosi float %scale.p to i64
  %scale.back = sitofp i64 %scale.t to float
  %scale.above = fcmp ogt float %scale.back, %scale.p
  %scale.one = zext i1 %scale.above to i64
  %scale.v = sub i64 %scale.t, %scale.one
  store i64 %scale.v, ptr %scale.at
  br label %pushed
operation:
  %b.at = getelementptr i64, ptr %top, i64 -1
  %a.at = getelementptr i64, ptr %top, i64 -2
  %b = load i64, ptr %b.at
  %a = load i64, ptr %a.at
  switch i64 %kind, label %eq [ {cases} ]
eq:
  %eq.f = icmp eq i64 %a, %b
  %eq.v = zext i1 %eq.f to i64
  br label %binary
{operations}
binary:
  %binary.v = phi i64 [%eq.v, %eq], {values}
  store i64 %binary.v, ptr %a.at
  br label %pushed
pushed:
  %above = phi ptr [%leaf.up, %leaf], [%top, %scaled], [%b.at, %binary]
  br label %next
}}

; Instructions from `start` on, computed as usual.
define internal i32 @execute(ptr %args, i64 %start, i64 %end, i1 %stale) #0 {{
  %theirs = call i64 @asked()
  %usual = call i1 @usual(i64 %theirs)
  br i1 %usual, label %plain, label %odd
plain:
  %status = call i32 @carry(ptr %args, i64 %start, i64 %end, i1 %stale, i1 false)
  ret i32 %status
odd:
  call void @ask_usual()
  %done = call i32 @carry(ptr %args, i64 %start, i64 %end, i1 %stale, i1 false)
  call void @ask(i64 %theirs)
  ret i32 %done
}}

; Instructions from `start` on until one returns, or the next is at `end`; frames are filled where `stale`.
; Where `only`, that is all that is done, of one instruction after the other, jumps and returns left out.
define internal i32 @carry(ptr %args, i64 %start, i64 %end, i1 %stale, i1 %only) noinline #0 {{
entry:
  %program.at = getelementptr i64, ptr %args, i64 {PROGRAM}
  %code = load ptr, ptr %program.at
  %frames.word = call i64 @word(ptr %code, i64 {FRAMES})
  %frames = getelementptr i64, ptr %args, i64 %frames.word
  %depth = call i64 @word(ptr %code, i64 {STACK_WORDS})
  %stack = alloca i64, i64 %depth, align 8
  %scratch.at = getelementptr i64, ptr %args, i64 {SCRATCH}
  %scratch = load ptr, ptr %scratch.at
  br label %next
next:
  %pc = phi i64 [%start, %entry], [%size.after, %size], [%unless.to, %unless], [%frame.after, %called],
                 [%judge.after, %judge], [%test.to, %test], [%check.after, %check], [%load.after, %load],
                 [%pass.after, %passed]
  ; Behind a LOAD, sizes may be others than the frames hold.
  %fills = phi i1 [%stale, %entry], [%fills, %size], [%fills, %unless], [%fills, %called],
                  [%fills, %judge], [%fills, %test], [%fills, %check], [true, %load], [%fills, %passed]
  %ended = icmp eq i64 %pc, %end
  br i1 %ended, label %stop, label %fetch
fetch:
  %kind = call i64 @word(ptr %code, i64 %pc)
  %pc1 = add i64 %pc, 1
  %argument = call i64 @word(ptr %code, i64 %pc1)
  br i1 %only, label %pass, label %act
pass:
  switch i64 %kind, label %passed [ i64 {SERIAL}, label %serial
                                    i64 {CALL}, label %call
                                    i64 {OUTWARD}, label %outward
                                    i64 {UNLESS}, label %four
                                    i64 {JUDGE}, label %six
                                    i64 {TEST}, label %six
                                    i64 {CHECK}, label %three
                                    i64 {LOAD}, label %eight
                                    i64 {SIZE}, label %sized ]
three:
  br label %passed
four:
  br label %passed
six:
  br label %passed
eight:
  br label %passed
sized:
  %pass.tokens = mul i64 %argument, 2
  %pass.words = add i64 %pass.tokens, 3
  br label %passed
passed:
  %pass.length = phi i64 [2, %pass], [3, %three], [4, %four], [6, %six], [8, %eight], [%pass.words, %sized]
  %pass.after = add i64 %pc, %pass.length
  br label %next
act:
  switch i64 %kind, label %return [ i64 {SERIAL}, label %serial
                                    i64 {CALL}, label %call
                                    i64 {OUTWARD}, label %outward
                                    i64 {UNLESS}, label %unless
                                    i64 {JUDGE}, label %judge
                                    i64 {TEST}, label %test
                                    i64 {CHECK}, label %check
                                    i64 {LOAD}, label %load
                                    i64 {SIZE}, label %size ]
return:
  %status = trunc i64 %argument to i32
  ret i32 %status
unless:
  %guard.at = add i64 %pc, 2
  %guard = call i64 @operand(ptr %args, ptr %code, i64 %guard.at)
  %holds = icmp ne i64 %guard, 0
  %unless.next = add i64 %pc, 4
  %unless.to = select i1 %holds, i64 %unless.next, i64 %argument
  br label %next
size:
  %slot.at = add i64 %pc, 2
  %slot = call i64 @word(ptr %code, i64 %slot.at)
  %tokens.at = add i64 %pc, 3
  %value = call i64 @size(ptr %args, ptr %code, i64 %tokens.at, i64 %argument, ptr %stack)
  %slot.p = getelementptr i64, ptr %args, i64 %slot
  store i64 %value, ptr %slot.p
  %size.words = mul i64 %argument, 2
  %size.after = add i64 %tokens.at, %size.words
  br label %next
serial:
  %serial.at = add i64 %pc, 3
  %serial.items = call i64 @word(ptr %code, i64 %serial.at)
  %serial.words = add i64 %pc, 4
  br label %listed
call:
  %items.at = add i64 %pc, {items}
  %call.items = call i64 @operand(ptr %args, ptr %code, i64 %items.at)
  %call.words = add i64 %pc, {words}
  br label %listed
outward:
  %outward.words = add i64 %pc, 3
  br label %listed
listed:
  %items = phi i64 [%serial.items, %serial], [%call.items, %call], [0, %outward]
  %words.at = phi i64 [%serial.words, %serial], [%call.words, %call], [%outward.words, %outward]
  %place.at = add i64 %pc, 2
  %place = call i64 @word(ptr %code, i64 %place.at)
  %frame = getelementptr i64, ptr %frames, i64 %place
  %kernel = getelementptr i8, ptr %code, i64 %argument
  %more = call i64 @word(ptr %code, i64 %words.at)
  %count.at = add i64 %words.at, 1
  %count = call i64 @word(ptr %code, i64 %count.at)
  %first = add i64 %words.at, 2
  %first.words = mul i64 %count, 2
  %second = add i64 %first, %first.words
  %second.words = mul i64 %more, 2
  %frame.after = add i64 %second, %second.words
  br i1 %fills, label %begin, label %launch
begin:
  %header = load <{FIRST_BINDING} x i64>, ptr %args, align 8
  store <{FIRST_BINDING} x i64> %header, ptr %frame, align 8
  %none = icmp eq i64 %count, 0
  br i1 %none, label %filled, label %fill
fill:
  %k = phi i64 [0, %begin], [%k1, %fill]
  %at = phi i64 [%first, %begin], [%at2, %fill]
  %word = call i64 @word(ptr %code, i64 %at)
  %plain.at = add i64 %at, 1
  %plain.v = call i64 @word(ptr %code, i64 %plain.at)
  %from = getelementptr i64, ptr %args, i64 %word
  %base = load i64, ptr %from
  %v = add i64 %base, %plain.v
  %entry.k = add i64 %k, {FIRST_BINDING}
  %entry.p = getelementptr i64, ptr %frame, i64 %entry.k
  store i64 %v, ptr %entry.p
  %k1 = add i64 %k, 1
  %at2 = add i64 %at, 2
  %again = icmp slt i64 %k1, %count
  br i1 %again, label %fill, label %filled
filled:
  %alone = icmp eq i64 %more, 0
  br i1 %alone, label %launch, label %add
add:
  %add.at = phi i64 [%second, %filled], [%add.at2, %add]
  %add.place = call i64 @word(ptr %code, i64 %add.at)
  %add.word.at = add i64 %add.at, 1
  %add.word = call i64 @word(ptr %code, i64 %add.word.at)
  %add.from = getelementptr i64, ptr %args, i64 %add.word
  %add.v = load i64, ptr %add.from
  %add.p = getelementptr i64, ptr %frame, i64 %add.place
  %add.base = load i64, ptr %add.p
  %add.sum = add i64 %add.base, %add.v
  store i64 %add.sum, ptr %add.p
  %add.at2 = add i64 %add.at, 2
  %add.again = icmp slt i64 %add.at2, %frame.after
  br i1 %add.again, label %add, label %launch
launch:
  br i1 %only, label %called, label %launch.now
launch.now:
  switch i64 %kind, label %weigh [ i64 {SERIAL}, label %here
                                   i64 {OUTWARD}, label %out ]
out:
  %out.at = getelementptr i64, ptr %args, i64 {OUTWARD_WORD}
  %out.table = load ptr, ptr %out.at
  %out.entry = getelementptr ptr, ptr %out.table, i64 %argument
  %out.call = load ptr, ptr %out.entry
  %out.answer = call i32 %out.call(ptr %frame)
  %out.fine = icmp eq i32 %out.answer, {DONE}
  br i1 %out.fine, label %called, label %out.wrong
out.wrong:
  ret i32 {RAISED}
weigh:
  %work.at = add i64 %pc, {work}
  %work = call i64 @operand(ptr %args, ptr %code, i64 %work.at)
  %most.at = add i64 %pc, {serial}
  %most = call i64 @word(ptr %code, i64 %most.at)
  %small = icmp slt i64 %work, %most
  br i1 %small, label %here, label %there
here:
  call void %kernel(ptr %frame, i64 0, i64 %items, ptr %scratch)
  br label %called
there:
  %chunk.at = add i64 %pc, {chunk}
  %chunk = call i64 @operand(ptr %args, ptr %code, i64 %chunk.at)
  %pool = load ptr, ptr %args
  %parallel = load atomic ptr, ptr %pool monotonic, align 8
  call void %parallel(ptr %pool, ptr %kernel, ptr %frame, i64 %items, i64 %chunk)
  br label %called
called:
  br label %next
test:
  %test.at = add i64 %pc, 2
  %test.p = call ptr @place(ptr %args, ptr %code, i64 %test.at)
  %flag = load i8, ptr %test.p
  %is.set = icmp ne i8 %flag, 0
  %test.next = add i64 %pc, 6
  %test.to = select i1 %is.set, i64 %test.next, i64 %argument
  br label %next
check:
  %check.at = add i64 %pc, 2
  %check.word = call i64 @word(ptr %code, i64 %check.at)
  %check.p = getelementptr i64, ptr %frames, i64 %check.word
  %check.access = load i64, ptr %check.p
  %check.after = add i64 %pc, 3
  %is.inside = icmp eq i64 %check.access, 0
  br i1 %is.inside, label %next, label %outside
outside:
  store i64 0, ptr %check.p
  %index.at = getelementptr i64, ptr %check.p, i64 1
  %index = load i64, ptr %index.at
  %extent.at = getelementptr i64, ptr %check.p, i64 2
  %extent = load i64, ptr %extent.at
  %outside.word = call i64 @word(ptr %code, i64 {FOUND})
  %outside.at = getelementptr i64, ptr %args, i64 %outside.word
  store i64 %check.access, ptr %outside.at
  %outside.second = getelementptr i64, ptr %outside.at, i64 1
  store i64 %index, ptr %outside.second
  %outside.third = getelementptr i64, ptr %outside.at, i64 2
  store i64 %extent, ptr %outside.third
  %outside.status = trunc i64 %argument to i32
  ret i32 %outside.status
load:
  %load.at = add i64 %pc, 2
  %load.p = call ptr @place(ptr %args, ptr %code, i64 %load.at)
  %load.v = load i64, ptr %load.p
  %load.most.at = add i64 %pc, 6
  %load.most = call i64 @operand(ptr %args, ptr %code, i64 %load.most.at)
  %load.some = call i64 @llvm.smax.i64(i64 %load.v, i64 0)
  %load.kept = call i64 @llvm.smin.i64(i64 %load.some, i64 %load.most)
  %load.word = getelementptr i64, ptr %args, i64 %argument
  store i64 %load.kept, ptr %load.word
  %load.after = add i64 %pc, 8
  br label %next
judge:
  %judge.at = add i64 %pc, 2
  %judge.p = call ptr @place(ptr %args, ptr %code, i64 %judge.at)
  %found = load i64, ptr %judge.p
  %judge.after = add i64 %pc, 6
  %is.fine = icmp eq i64 %found, {FINE}
  br i1 %is.fine, label %next, label %wrong
wrong:
  %found.word = call i64 @word(ptr %code, i64 {FOUND})
  %found.at = getelementptr i64, ptr %args, i64 %found.word
  store i64 %found, ptr %found.at
  %fault = trunc i64 %argument to i32
  ret i32 %fault
stop:
  ret i32 {OK}
}}

define i32 @{run}(ptr %args) #0 {{
entry:
  %program.at = getelementptr i64, ptr %args, i64 {PROGRAM}
  %code = load ptr, ptr %program.at
  %start = call i64 @word(ptr %code, i64 {RUN})
  %count = call i64 @word(ptr %code, i64 {BINDINGS})
  %right.word = call i64 @word(ptr %code, i64 {RIGHT})
  %right = getelementptr i64, ptr %args, i64 %right.word
  %flag = load i64, ptr %right
  %bound = getelementptr i64, ptr %args, i64 {FIRST_BINDING}
  %filled = icmp ne i64 %flag, 0
  br i1 %filled, label %compare, label %stale
compare:
  %k = phi i64 [0, %entry], [%k1, %one]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %fresh
one:
  %now.at = getelementptr i64, ptr %bound, i64 %k
  %now = load i64, ptr %now.at
  %k1 = add i64 %k, 1
  %then.at = getelementptr i64, ptr %right, i64 %k1
  %then = load i64, ptr %then.at
  %equal = icmp eq i64 %now, %then
  br i1 %equal, label %compare, label %stale
fresh:
  %fresh.status = call i32 @execute(ptr %args, i64 %start, i64 -1, i1 false)
  ret i32 %fresh.status
stale:
  store i64 0, ptr %right
  ; Those of branches that are not taken now, too: frames are right for all runs, or for none.
  %run.end = call i64 @word(ptr %code, i64 {STEP_TABLE})
  %all.filled = call i32 @carry(ptr %args, i64 %start, i64 %run.end, i1 true, i1 true)
  %status = call i32 @execute(ptr %args, i64 %start, i64 -1, i1 false)
  %done = icmp eq i32 %status, {OK}
  br i1 %done, label %keep, label %end
keep:
  %n = phi i64 [0, %stale], [%n1, %keep.one]
  %some = icmp slt i64 %n, %count
  br i1 %some, label %keep.one, label %kept
keep.one:
  %from.at = getelementptr i64, ptr %bound, i64 %n
  %from = load i64, ptr %from.at
  %n1 = add i64 %n, 1
  %to.at = getelementptr i64, ptr %right, i64 %n1
  store i64 %from, ptr %to.at
  br label %keep
kept:
  store i64 1, ptr %right
  br label %end
end:
  ret i32 %status
}}

; The frames that were right are not any more.
define internal i32 @anew(ptr %args, ptr %code, i64 %start, i64 %end) #0 {{
  %right.word = call i64 @word(ptr %code, i64 {RIGHT})
  %right = getelementptr i64, ptr %args, i64 %right.word
  store i64 0, ptr %right
  %status = call i32 @execute(ptr %args, i64 %start, i64 %end, i1 true)
  ret i32 %status
}}

define i32 @{prepare}(ptr %args) #0 {{
  %program.at = getelementptr i64, ptr %args, i64 {PROGRAM}
  %code = load ptr, ptr %program.at
  %start = call i64 @word(ptr %code, i64 {PREPARE})
  %status = call i32 @anew(ptr %args, ptr %code, i64 %start, i64 -1)
  ret i32 %status
}}

; Step number k alone; one of a version that these sizes do not choose does nothing.
define i32 @{step}(ptr %args, i64 %k) #0 {{
entry:
  %program.at = getelementptr i64, ptr %args, i64 {PROGRAM}
  %code = load ptr, ptr %program.at
  %count = call i64 @word(ptr %code, i64 {STEPS})
  %known = icmp ult i64 %k, %count
  br i1 %known, label %find, label %failed
failed:
  ret i32 {FAILED}
find:
  %table = call i64 @word(ptr %code, i64 {STEP_TABLE})
  %thrice = mul i64 %k, 3
  %row = add i64 %table, %thrice
  %at = call i64 @word(ptr %code, i64 %row)
  %row1 = add i64 %row, 1
  %end = call i64 @word(ptr %code, i64 %row1)
  %row2 = add i64 %row, 2
  %own = call i64 @word(ptr %code, i64 %row2)
  %guards = call i64 @word(ptr %code, i64 {GUARD_TABLE})
  br label %next
next:
  %n = phi i64 [0, %find], [%n1, %again]
  %before = icmp slt i64 %n, %own
  %offset = mul i64 %n, 2
  %guard.at = add i64 %guards, %offset
  %guard = call i64 @operand(ptr %args, ptr %code, i64 %guard.at)
  %holds = icmp ne i64 %guard, 0
  br i1 %before, label %earlier, label %mine
earlier:
  br i1 %holds, label %nothing, label %again
again:
  %n1 = add i64 %n, 1
  br label %next
mine:
  br i1 %holds, label %go, label %nothing
nothing:
  ret i32 {OK}
go:
  %status = call i32 @anew(ptr %args, ptr %code, i64 %at, i64 %end)
  ret i32 %status
}}

; From step number k on.
define i32 @{resume}(ptr %args, i64 %k) #0 {{
  %program.at = getelementptr i64, ptr %args, i64 {PROGRAM}
  %code = load ptr, ptr %program.at
  %table = call i64 @word(ptr %code, i64 {STEP_TABLE})
  %thrice = mul i64 %k, 3
  %row = add i64 %table, %thrice
  %at = call i64 @word(ptr %code, i64 %row)
  %status = call i32 @anew(ptr %args, ptr %code, i64 %at, i64 -1)
  ret i32 %status
}}

attributes #0 = {{ nounwind "no-builtins" "no-jump-tables"="true" }}
"""


def text(target: Processor) -> str:
    """The executor as LLVM text."""
    bodies = {"floordiv": _FLOORDIV, "mod": _MOD, "tdiv": _TDIV}
    divided = {Token[name.upper()]: _DIVISION.format(name=name, result=how) for name, how in bodies.items()}
    simple = {
        t: f"{t.name.lower()}:\n  %{t.name.lower()}.v = {how}\n  br label %binary\n"
        for t, how in _SIMPLE.items()
    }
    tokens = {**simple, **divided}
    return _TEXT.format(
        cases=" ".join(f"i64 {int(t)}, label %{t.name.lower()}" for t in tokens),
        operations="\n".join(tokens.values()),
        values=", ".join(f"[%{t.name.lower()}.v, %{t.name.lower()}]" for t in tokens),
        **{t.name: int(t) for t in (*Token, *Code, *Header)},
        **CALLED,
        PROGRAM=abi.PROGRAM,
        SCRATCH=abi.SCRATCH,
        OUTWARD_WORD=abi.OUTWARD,
        FIRST_BINDING=abi.FIRST_BINDING,
        OK=int(abi.Status.OK),
        FAILED=int(abi.Status.FAILED),
        RAISED=int(abi.Status.RAISED),
        DONE=abi.DONE,
        FINE=FINE,
        control=control(target),
        run=abi.RUN,
        prepare=abi.PREPARE,
        step=abi.STEP,
        resume=abi.RESUME,
    )
