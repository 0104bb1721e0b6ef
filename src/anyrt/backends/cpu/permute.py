"""Reads at positions of a small slope: a few whole registers and lane permutes instead of a gather.

If the positions p₀ ≤ p₁ ≤ … of one vector are within a few registers from p₀ on, the registers are loaded
whole, and each lane selects its element: one instruction for two registers, three for four.
"""

from __future__ import annotations

from anyrt.backends.cpu.transpose import cut, joined, shuffle
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Buffer, Scalar

REGISTER = 64  # bytes
MOST = 4  # registers

# LLVM's names of "pick from two registers" by element size.
PICKS = {1: "vpermi2var.qi.512", 2: "vpermi2var.hi.512", 4: "vpermi2var.d.512"}


def registers(table: Buffer, step: int, lanes: int, size: int) -> int:
    """The number of registers that hold the elements of `lanes` lanes at positions of `table`, each of `step`
    elements of `size` bytes."""
    group, last = table.group, lanes - 1
    # From the start of the first lane's group on: the next group may have the same position.
    spans = (group * table.slope * ((last + k) // group) + (last + k) % group for k in range(group))
    addresses = table.addresses
    common = group * (addresses.taps - 1) if addresses is not None and addresses.common else 0
    return -(-step * (max(spans) + 1 + common) * size // REGISTER)


def pick(w: Writer, scope: Scope, type: Scalar, start: str, places: str, lanes: int, count: int) -> str:
    """Lanes of `type` at `places` (a vector of i32, counted from address `start`) out of `count`
    registers."""
    size = ll.BYTES[type]
    each = REGISTER // size
    whole, element = f"<{each} x i{8 * size}>", f"i{8 * size}"
    parts = []
    for k in range(count):
        at = w.put(scope, f"getelementptr i8, ptr {start}, i64 {k * REGISTER}") if k else start
        parts.append(w.put(scope, f"load {whole}, ptr {at}, align {size}"))
    kind, narrow = ll.vector(type, lanes), f"<{lanes} x {element}>"
    width = min(lanes, each)
    registers = [
        _register(w, scope, size, parts, part, width) for part in cut(w, scope, places, "i32", lanes, width)
    ]
    (picked,) = joined(w, scope, registers, element, width, lanes)
    return picked if kind == narrow else w.put(scope, f"bitcast {narrow} {picked} to {kind}")


def _register(w: Writer, scope: Scope, size: int, parts: list[str], places: str, lanes: int) -> str:
    """At most a register of lanes."""
    each = REGISTER // size
    whole, element = f"<{each} x i{8 * size}>", f"i{8 * size}"
    indices = _widened(w, scope, places, lanes, each, element)
    pairs = [_two(w, scope, size, whole, parts[k : k + 2], indices) for k in range(0, len(parts), 2)]
    picked = pairs[0]
    if len(pairs) == 2:
        high = w.put(scope, f"and {whole} {indices}, {_splat(2 * each, element, each)}")
        upper = w.put(scope, f"icmp ne {whole} {high}, zeroinitializer")
        picked = w.put(scope, f"select <{each} x i1> {upper}, {whole} {pairs[1]}, {whole} {pairs[0]}")
    return picked if lanes == each else shuffle(w, scope, picked, "poison", element, each, list(range(lanes)))


def _widened(w: Writer, scope: Scope, places: str, lanes: int, each: int, element: str) -> str:
    """The places in the form of the permute: one of the element's size for each lane of a whole register."""
    short = places
    if element != "i32":
        short = w.put(scope, f"trunc <{lanes} x i32> {places} to <{lanes} x {element}>")
    if lanes == each:
        return short
    order = ", ".join(f"i32 {i if i < lanes else 'poison'}" for i in range(each))
    kind = f"<{lanes} x {element}>"
    return w.put(scope, f"shufflevector {kind} {short}, {kind} poison, <{each} x i32> <{order}>")


def _two(w: Writer, scope: Scope, size: int, whole: str, parts: list[str], indices: str) -> str:
    first, second = parts[0], parts[-1]
    return w.call(
        scope, whole, f"llvm.x86.avx512.{PICKS[size]}", [(whole, first), (whole, indices), (whole, second)]
    )


def _splat(value: int, element: str, each: int) -> str:
    signed = value - (1 << int(element[1:])) if value >= 1 << (int(element[1:]) - 1) else value
    return "<" + ", ".join([f"{element} {signed}"] * each) + ">"
