"""What the executor and the pool ask of a processor and of its operating system: functions in LLVM text.

How the calling thread computes (`control`), as one word that means something to the processor alone:

    i64 @asked()        what the thread asks of the processor now
    i1 @usual(i64)      whether that is to round to the nearest, keep subnormal numbers, and raise nothing
    void @ask(i64)      ask for what was asked before
    void @ask_usual()   ask for the usual

What threads do that wait for one another (`threads`):

    void @pause()               a moment for the processor's other thread
    i64 @clock(i64 before)      ticks of 0.2 to 0.5 ns, read after `before`
    i64 @here()                 the number of the processor that runs this
    i1 @sleep(ptr, i64 seen)    until somebody wakes the word, unless it is not `seen` any more; false at once
                                where threads cannot sleep in native code
    void @wake(ptr, i64 count)  so many who sleep at the word
    void @yield()               to other threads that want to run
    i64 @allowed(ptr mask)      write which processors the thread may run on; bytes of the mask, or negative
    i64 @allow(ptr mask, i64 bytes)  let it run on these only; negative where that cannot be
"""

from __future__ import annotations

from typing import Final

from anyrt.backends.cpu import aarch64, x86
from anyrt.backends.cpu.processors import Arch, Processor, host
from anyrt.codegen.build import Body, function

# How threads compute is not known there, and kept as it is.
_CONTROL: Final = """
define internal i64 @asked() alwaysinline {
  ret i64 0
}
define internal i1 @usual(i64 %asked) alwaysinline {
  ret i1 true
}
define internal void @ask(i64 %asked) alwaysinline {
  ret void
}
"""

_WAITING: Final = """
define internal void @pause() alwaysinline {
  fence seq_cst
  ret void
}
define internal i64 @clock(i64 %before) noinline {
  %now = add i64 %before, 64
  ret i64 %now
}
"""
# A worker goes back to its caller when idle, who sleeps and calls again; nobody needs waking.
_SYSTEM: Final = """
define internal i64 @here() noinline {
  ret i64 0
}
define internal i1 @sleep(ptr %word, i64 %seen) alwaysinline {
  ret i1 false
}
define internal void @wake(ptr %word, i64 %count) noinline {
  ret void
}
define internal void @yield() noinline {
  ret void
}
define internal i64 @allowed(ptr %mask) alwaysinline {
  ret i64 -1
}
define internal i64 @allow(ptr %mask, i64 %bytes) alwaysinline {
  ret i64 -1
}
"""


def control(target: Processor) -> str:
    """How a thread computes, on the processor that LLVM compiles for."""
    match target.family:
        case Arch.X86_64:
            text, usual = x86.CONTROL, x86.USUAL
        case Arch.AARCH64:
            text, usual = aarch64.CONTROL, aarch64.USUAL
        case Arch.OTHER:
            text, usual = _CONTROL, 0

    def ask_usual(f: Body) -> None:
        f.run("@ask", usual)
        f.give()

    return text + function("define internal void @ask_usual", "", ask_usual, "alwaysinline")


def threads(target: Processor) -> str:
    """How threads wait for one another."""
    linux = "linux" in target.triple
    # LLVM assembles inline code for the machine it runs on only.
    if target.arch is Arch.X86_64 and linux and host().family is Arch.X86_64:
        return x86.LINUX
    if target.arch is Arch.AARCH64:
        return aarch64.LINUX if linux else aarch64.WAITING + _SYSTEM
    return _WAITING + _SYSTEM
