"""The least time that the arithmetic of a case takes: a loop of multiply-adds on registers, as many as the
case has, with the threads of the case.

All types use multiply-adds of float32; bfloat16 and int8 also the dot instructions of vectors, if there are
any: four int8 products per lane and instruction, two of bfloat16. The fastest is the limit. The time of a
tile unit (AMX) is shown beside it and is no limit, since no other instruction comes near it.
"""

from __future__ import annotations

import ctypes
import enum
import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from anyrt.backends.cpu.processors import Arch, Processor, host
from benchmarks.native import Region, region, word
from benchmarks.peers import Way
from benchmarks.steps import Element

CHAINS = 12  # sums that do not wait for one another: latency times units of today's processors, in registers
PEAK, TILE_PEAK = "peak", "tiles"
REGISTER_BITS = 512
# The instruction for tiles of a type, and its multiply-adds.
TILES = {Element.I8: ("tdpbssd", 16 * 16 * 64), Element.BF16: ("tdpbf16ps", 16 * 16 * 32)}
TILE_SUMS = 4
ARCH_PRCTL, REQUEST_STATE, TILE_STATE = 158, 0x1023, 18  # Linux: a process must request the use of tiles


class Unit(enum.Enum):
    """An arithmetic unit."""

    FMA = "fma"
    BF16 = "bf16 dot"
    INT8 = "int8 dot"


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction: LLVM text that computes `%s{i}` from `%a{i}`, and its number of multiply-adds."""

    text: str
    macs: int


def units(dtype: Element, target: Processor) -> tuple[Unit, ...]:
    """The units of a processor that multiply this type."""
    kinds = [Unit.FMA]
    if dtype is Element.I8 and "has_vnni" not in target.lacks and target.vector_bits == REGISTER_BITS:
        kinds.append(Unit.INT8)
    if dtype is Element.BF16 and "has_bf16" not in target.lacks and target.vector_bits == REGISTER_BITS:
        kinds.append(Unit.BF16)
    return tuple(kinds)


def ways(flops: int, dtype: Element, threads: int) -> tuple[Way, ...]:
    """Loops with as many multiplications and additions; none for cases that have none."""
    if not flops:
        return ()
    runs = {f"{PEAK} {u.value}": _loop(_step(u, host()), flops, threads) for u in units(dtype, host())}
    if dtype in TILES and has_tiles():
        runs[TILE_PEAK] = _tiles(*TILES[dtype], flops, threads)
    return tuple(Way(label, run, tuple) for label, run in runs.items())


@cache
def has_tiles() -> bool:
    """Whether the processor has tile registers and the system lets this process use them."""
    if "+amx-int8," not in host().features:
        return False
    answer: int = ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_STATE, TILE_STATE)
    return answer == 0


def _step(unit: Unit, target: Processor) -> Step:
    lanes = target.vector_bits // 32
    floats = f"<{lanes} x float>"
    match unit:
        case Unit.FMA:
            call = f"call {floats} @llvm.fmuladd.v{lanes}f32({floats} %a#, {floats} %x, {floats} %y)"
            return Step(f"  %s# = {call}", lanes)
        case Unit.BF16:
            return Step(_assembly("vdpbf16ps", floats), 2 * lanes)
        case Unit.INT8:
            return Step(_assembly("vpdpbusd", floats), 4 * lanes)


def _assembly(name: str, vector: str) -> str:
    """As inline assembly: an intrinsic whose signature differs between versions of LLVM ends the process."""
    operands = f"{vector} %x, {vector} %y, {vector} %a#"
    return f'  %s# = call {vector} asm "{name} $2, $1, $0", "=v,v,v,0"({operands})'


def _loop(step: Step, flops: int, threads: int) -> Region:
    lanes = host().vector_bits // 32
    turns = max(1, math.ceil(flops / 2 / (threads * CHAINS * step.macs)))
    each = range(CHAINS)
    vector = f"<{lanes} x float>"
    text = _KERNEL.format(
        vector=vector, lanes=lanes, declare="" if "asm" in step.text else _declared(lanes),
        head=word("turns", 0) + word("seed", 1),
        phis="\n".join(f"  %a{i} = phi {vector} [%x, %entry], [%s{i}, %loop]" for i in each),
        steps="\n".join(step.text.replace("#", str(i)) for i in each),
        kept="\n".join(f'  call void asm sideeffect "", "{_register()}"({vector} %s{i})' for i in each),
    )  # fmt: skip
    return region(text, threads, (turns, 0), threads)


def _tiles(name: str, macs: int, flops: int, threads: int) -> Region:
    """Four sums, of two by two tiles."""
    config = np.zeros(64, np.uint8)
    config[0] = 1  # palette: 8 tiles of 16 rows of 64 bytes
    config[16:32].view(np.uint16)[:] = 64
    config[48:56] = 16
    steps = [f"{name} %tmm{6 + i % 2}, %tmm{4 + i // 2}, %tmm{i}" for i in range(TILE_SUMS)]
    text = _TILE_KERNEL.format(
        head=word("turns", 0) + word("config", 1),
        steps="\n".join(f'  call void asm sideeffect "{s}", ""()' for s in steps),
    )
    turns = max(1, math.ceil(flops / 2 / (threads * TILE_SUMS * macs)))
    return region(text, threads, (turns, config.ctypes.data), threads, (config,))


def _declared(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    return f"declare {vector} @llvm.fmuladd.v{lanes}f32({vector}, {vector}, {vector})"


def _register() -> str:
    if host().arch is not Arch.X86_64:
        return "w"
    return "v" if host().vector_bits == 512 else "x"


# The operands are 0, from memory, so that LLVM computes nothing beforehand and nothing becomes infinite.
_KERNEL = """
{declare}
define internal void @k(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {{
entry:
{head}
  %bits = trunc i64 %seed to i32
  %number = bitcast i32 %bits to float
  %first = insertelement {vector} poison, float %number, i32 0
  %x = shufflevector {vector} %first, {vector} poison, <{lanes} x i32> zeroinitializer
  %y = fadd {vector} %x, %x
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%n, %loop]
{phis}
{steps}
  %n = add i64 %i, 1
  %more = icmp ult i64 %n, %turns
  br i1 %more, label %loop, label %done
done:
{kept}
  ret void
}}
"""

_TILE_KERNEL = """
define internal void @k(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {{
entry:
{head}
  %at = inttoptr i64 %config to ptr
  call void asm sideeffect "ldtilecfg ($0)", "r,~{{memory}}"(ptr %at)
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%n, %loop]
{steps}
  %n = add i64 %i, 1
  %more = icmp ult i64 %n, %turns
  br i1 %more, label %loop, label %done
done:
  call void asm sideeffect "tilerelease", ""()
  ret void
}}
"""
