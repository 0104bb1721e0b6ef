"""The mixing function of checksums as LLVM IR: defined in `plan/checksum.py`, near the speed of memory.

Eight vectors of eight lanes hide the 15 cycles of a product of 64-bit words. The next rows are prefetched
early, since the hardware prefetcher stops at the end of a page.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.processors import Processor
from anyrt.codegen.build import Body, Value, function
from anyrt.codegen.llvm import compile_text
from anyrt.plan.checksum import FACTOR, LANES, MIX, ROTATED, ROW_BYTES, SCALE
from anyrt.plan.program import Compiled, Program

WIDTH: Final = 8  # lanes of a vector
LINE: Final = 64
AHEAD: Final = 2048  # bytes
_TYPE: Final = f"<{WIDTH} x i64>"
_DECLARED: Final = f"""
declare {_TYPE} @llvm.fshl.v{WIDTH}i64({_TYPE}, {_TYPE}, {_TYPE})
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
"""


def _mix(f: Body, rows: Value, count: Value, lanes: Value) -> None:
    """Mixes `count` rows, at any address, into 64 lanes."""
    factor, scale, turn = (Value(f, _TYPE, _every(number)) for number in (FACTOR, SCALE, ROTATED))
    places = [lanes.at(LINE * k, "i8") for k in range(LANES // WIDTH)]
    held = [f.variable(place.load(_TYPE, align=8)) for place in places]
    with f.each(0, count) as i:
        row = rows.at(i * ROW_BYTES, "i8")
        for k, lane in enumerate(held):
            f.write(
                f"call void @llvm.prefetch.p0(ptr {row.at(AHEAD + LINE * k, 'i8').text}, i32 0, i32 3, i32 1)"
            )
            word = row.at(LINE * k, "i8").load(_TYPE, align=1)
            sum = lane.value + word * scale
            lane.value = f.call(_TYPE, f"@llvm.fshl.v{WIDTH}i64", sum, sum, turn) * factor
    for place, lane in zip(places, held, strict=True):
        place.store(lane.value, align=8)
    f.give(0)


def mix_text() -> str:
    """The module, for any processor."""
    return _DECLARED + function(f"define i32 @{MIX}", "ptr rows, i64 count, ptr lanes", _mix)


@cache
def compile_mix(target: Processor) -> Compiled:
    """An image with the entry `mix`."""
    image, offsets = flatten(compile_text(mix_text(), target))
    return Compiled(Program((), 0, 0, 0, 0, (), tuple(sorted(offsets.items()))), image)


def _every(number: int) -> str:
    """A vector of equal words, as LLVM spells it: signed."""
    signed = number - (1 << 64) if number >> 63 else number
    return f"<{', '.join([f'i64 {signed}'] * WIDTH)}>"
