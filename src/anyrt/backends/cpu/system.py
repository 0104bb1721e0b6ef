"""The functions that the executor and the pool require of a processor and its operating system, in LLVM text.

The floating-point mode of the calling thread (`control`), as one word in the processor's format:

    i64 @asked()        what the thread asks of the processor now
    i1 @usual(i64)      whether that is to round to the nearest, keep subnormal numbers, and raise nothing
    void @ask(i64)      ask for what was asked before
    void @ask_usual()   ask for the usual

The functions for threads that wait for one another (`threads`):

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
from anyrt.codegen.build import internal

# The floating-point mode is unknown there, and stays as it is.
_CONTROL: Final = internal(
    ("i64 @asked", "", lambda f: f.give(0, "i64")),
    ("i1 @usual", "i64 asked", lambda f, asked: f.give(True)),
    ("void @ask", "i64 asked", lambda f, asked: f.give()),
)
_WAITING: Final = internal(
    ("void @pause", "", lambda f: (f.write("fence seq_cst"), f.give())),
    ("i64 @clock", "i64 before", lambda f, before: f.give(before + 64)),
)
# An idle worker returns to its caller, which sleeps and calls again; nobody needs waking.
_SYSTEM: Final = internal(
    ("i64 @here", "", lambda f: f.give(0, "i64")),
    ("i1 @sleep", "ptr word, i64 seen", lambda f, word, seen: f.give(False)),
    ("void @wake", "ptr word, i64 count", lambda f, word, count: f.give()),
    ("void @yield", "", lambda f: f.give()),
    ("i64 @allowed", "ptr mask", lambda f, mask: f.give(-1, "i64")),
    ("i64 @allow", "ptr mask, i64 bytes", lambda f, mask, nbytes: f.give(-1, "i64")),
)


def control(target: Processor) -> str:
    """The floating-point mode, on the processor that LLVM compiles for."""
    match target.family:
        case Arch.X86_64:
            text, usual = x86.CONTROL, x86.USUAL
        case Arch.AARCH64:
            text, usual = aarch64.CONTROL, aarch64.USUAL
        case Arch.OTHER:
            text, usual = _CONTROL, 0
    return text + internal(("void @ask_usual", "", lambda f: (f.run("@ask", usual), f.give())))


def threads(target: Processor) -> str:
    """How threads wait for one another."""
    linux = "linux" in target.triple
    # LLVM assembles inline code only for the machine that it runs on.
    if target.arch is Arch.X86_64 and linux and host().family is Arch.X86_64:
        return x86.LINUX
    if target.arch is Arch.AARCH64:
        return aarch64.LINUX if linux else aarch64.WAITING + _SYSTEM
    return _WAITING + _SYSTEM
