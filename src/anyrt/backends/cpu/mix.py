"""The mixing of checksums as LLVM IR: what `plan/checksum.py` defines, near the speed of memory.

Eight vectors of eight lanes hide the 15 cycles that a product of 64-bit words takes. The next rows are asked
for early, since the processor reads ahead no further than to the end of a page.
"""

from __future__ import annotations

from typing import Final

from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.processors import Processor
from anyrt.codegen.llvm import compile_text
from anyrt.plan.checksum import FACTOR, LANES, MIX, ROTATED, ROW_BYTES, SCALE
from anyrt.plan.program import Compiled, Program

WIDTH: Final = 8  # lanes of a vector
LINE: Final = 64
AHEAD: Final = 2048  # bytes
_TYPE: Final = f"<{WIDTH} x i64>"
_VECTORS: Final = range(LANES // WIDTH)

_TEXT: Final = """
declare {type} @llvm.fshl.v{width}i64({type}, {type}, {type})
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

; Changes 64 lanes by `count` rows, which begin anywhere.
define i32 @{name}(ptr %rows, i64 %count, ptr %lanes) {{
entry:
{first}
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %row
row:
  %i = phi i64 [0, %entry], [%next, %row]
{now}
  %at = mul i64 %i, {row_bytes}
  %row.at = getelementptr i8, ptr %rows, i64 %at
{steps}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %row, label %store
store:
{last}
  br label %done
done:
  ret i32 0
}}
"""
_STEP: Final = """\
  %p{k} = getelementptr i8, ptr %row.at, i64 {at}
  %f{k} = getelementptr i8, ptr %row.at, i64 {ahead}
  call void @llvm.prefetch.p0(ptr %f{k}, i32 0, i32 3, i32 1)
  %w{k} = load {type}, ptr %p{k}, align 1
  %s{k} = mul {type} %w{k}, {scale}
  %a{k} = add {type} %x{k}, %s{k}
  %t{k} = call {type} @llvm.fshl.v{width}i64({type} %a{k}, {type} %a{k}, {type} {turn})
  %y{k} = mul {type} %t{k}, {factor}"""


def mix_text() -> str:
    """The module, for any processor."""
    places = "\n".join(f"  %l{k} = getelementptr i8, ptr %lanes, i64 {LINE * k}" for k in _VECTORS)
    loads = "\n".join(f"  %o{k} = load {_TYPE}, ptr %l{k}, align 8" for k in _VECTORS)
    now = "\n".join(f"  %x{k} = phi {_TYPE} [%o{k}, %entry], [%y{k}, %row]" for k in _VECTORS)
    numbers = {"scale": _every(SCALE), "factor": _every(FACTOR), "turn": _every(ROTATED)}
    steps = "\n".join(
        _STEP.format(k=k, at=LINE * k, ahead=AHEAD + LINE * k, type=_TYPE, width=WIDTH, **numbers)
        for k in _VECTORS
    )
    last = "\n".join(f"  store {_TYPE} %y{k}, ptr %l{k}, align 8" for k in _VECTORS)
    return _TEXT.format(
        type=_TYPE, width=WIDTH, name=MIX, first=f"{places}\n{loads}", now=now, row_bytes=ROW_BYTES,
        steps=steps, last=last,
    )  # fmt: skip


def compile_mix(target: Processor) -> Compiled:
    """An image with the entry `mix`."""
    image, offsets = flatten(compile_text(mix_text(), target))
    return Compiled(Program((), 0, 0, 0, 0, (), tuple(sorted(offsets.items()))), image)


def _every(number: int) -> str:
    """A vector of equal words, as LLVM spells it: signed."""
    signed = number - (1 << 64) if number >> 63 else number
    return f"<{', '.join([f'i64 {signed}'] * WIDTH)}>"
