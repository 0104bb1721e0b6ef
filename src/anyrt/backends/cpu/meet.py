"""Exchanges of small arrays between ranks as LLVM IR: `backends/meeting.py` describes frames and results.

A rank stores its piece and the digest of its operation before its counter (release), and reads those of
others after their counters (acquire). It looks at a counter a limited number of times, since Python checks
signals, time limits and ranks that have ended.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Final

from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.processors import Processor
from anyrt.backends.cpu.system import threads
from anyrt.backends.meeting import ADDED, MEET, PIECE_BYTES, SIGN_BYTES, FrameWord, Met
from anyrt.codegen.build import Body, Shared, Value, function
from anyrt.codegen.llvm import compile_text
from anyrt.plan.program import Compiled, Program

WORD: Final = 8
# For each type its name, its addition, and an integer with the bits of a number that is not finite.
_TYPES: Final = {
    "float32": ("float", "fadd", "i32", 0x7F800000),
    "float64": ("double", "fadd", "i64", 0x7FF << 52),
    "int32": ("i32", "add", "", 0),
    "int64": ("i64", "add", "", 0),
}


def _meet(f: Body, frame: Value, turn: Value) -> None:
    mine, sign = frame.word(FrameWord.MINE, "ptr"), frame.word(FrameWord.SIGN)
    _copy(f, frame.word(FrameWord.X, "ptr"), mine.at(PIECE_BYTES, "i8"), frame.word(FrameWord.NBYTES))
    mine.at(SIGN_BYTES, "i8").store(sign)
    Shared(mine).store(turn, "release")
    members, spins, same = frame.word(FrameWord.MEMBERS), frame.word(FrameWord.SPINS), f.variable(True)
    with f.each(0, members) as k:
        theirs = frame.word(k + FrameWord.HEADERS, "ptr")
        _await(f, theirs, turn, spins)
        with f.when(theirs.at(SIGN_BYTES, "i8").load().is_("ne", sign)):
            same.value = False
    with f.when(same.value.is_("eq", False)):
        f.give(Met.SHARED)
    cases = {k: partial(_add, f, frame, dtype.name) for k, dtype in enumerate(ADDED, 1)}
    f.switch(frame.word(FrameWord.ADDED), cases)
    f.give(Met.SHARED)


def _await(f: Body, theirs: Value, turn: Value, spins: Value) -> None:
    """Looks at a counter until it has arrived at the turn; returns WAITS after `spins` looks."""
    left = f.variable(spins)
    with f.loop() as loop:
        with f.when(Shared(theirs).load("acquire").is_("sge", turn)):
            loop.leave()
        with f.when(left.value.is_("eq", 0)):
            f.give(Met.WAITS)
        left.value = left.value - 1
        f.run("@pause")


def _copy(f: Body, source: Value, target: Value, nbytes: Value) -> None:
    words = nbytes.do("lshr", 3)
    with f.each(0, words) as k:
        target.at(k).store(source.at(k).load(align=1))
    with f.each(words * WORD, nbytes) as k:
        target.at(k, "i8").store(source.at(k, "i8").load("i8"))


def _add(f: Body, frame: Value, dtype: str) -> None:
    """Adds the pieces in the order of members, like NumPy; returns SHARED if a sum is not finite, of which
    NumPy warns."""
    kind, add, bits, not_finite = _TYPES[dtype]
    pieces, total = frame.at(FrameWord.HEADERS), frame.word(FrameWord.TOTAL, "ptr")
    is_finite = f.variable(True)
    with f.each(0, frame.word(FrameWord.ELEMENTS)) as k:
        sum = f.variable(pieces.word(0, "ptr").at(PIECE_BYTES, "i8").at(k, kind).load(kind))
        with f.each(1, frame.word(FrameWord.MEMBERS)) as m:
            sum.value = sum.value.do(add, pieces.word(m, "ptr").at(PIECE_BYTES, "i8").at(k, kind).load(kind))
        total.at(k, kind).store(sum.value)
        if bits:
            with f.when((sum.value.to("bitcast", bits) & not_finite).is_("eq", not_finite)):
                is_finite.value = False
    with f.when(is_finite.value):
        f.give(Met.ADDED)


def meet_text(target: Processor) -> str:
    """The module for `target`."""
    # LLVM would replace the copy by a call of libc.
    return threads(target) + function(f"define i32 @{MEET}", "ptr frame, i64 turn", _meet, '"no-builtins"')


@cache
def compile_meeting(target: Processor) -> Compiled:
    """An image with the entry `meet`."""
    image, offsets = flatten(compile_text(meet_text(target), target))
    return Compiled(Program((), 0, 0, 0, 0, (), tuple(sorted(offsets.items()))), image)
