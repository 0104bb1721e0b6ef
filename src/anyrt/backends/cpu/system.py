"""The functions that the executor and the pool require of a processor and its operating system, in LLVM text.

The floating-point mode of the calling thread (`control`), as one word in the processor's format:

    i64 @asked()        the current mode
    i1 @usual(i64)      whether a mode rounds to the nearest, keeps subnormal numbers, and traps nothing
    void @ask(i64)      set a mode that `asked` returned
    void @ask_usual()   set the default mode

The functions for threads that wait for one another (`threads`):

    void @pause()               a moment for the processor's other thread
    i64 @clock(i64 before)      ticks of 0.2 to 0.5 ns, read after `before`
    i64 @here()                 the number of the processor that runs this
    i1 @sleep(ptr, i64 seen)    until a thread wakes the word, unless its value is not `seen`; false at once
                                if threads cannot sleep in native code
    void @wake(ptr, i64 count)  so many threads that sleep at the word
    void @yield()               the processor to other threads
    i64 @allowed(ptr mask)      write the processors that the thread may use; bytes of the mask, or negative
    i64 @allow(ptr mask, i64 bytes)  allow these processors only; negative on failure
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
