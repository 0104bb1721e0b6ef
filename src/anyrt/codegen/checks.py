"""Bounds checks on every access of a function, for the build option `checked`.

No access touches memory outside its buffer: such a load reads zeros from memory of the function, and such a
store writes to other memory of the function. The first such access of a call is recorded behind the frame in
three words: its number (`access_number`; 0 if there was none), the index, and the number of elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.ir.buffer import Buffer, Scalar

RECORD_WORDS: Final = 3
LINE: Final = 64  # bytes that one instruction clears
NOTHING, NOWHERE = "%nothing", "%nowhere"  # memory for loads, and for stores, outside a buffer
# Only the first thread with such an access writes the record.
OUTSIDE: Final = """define internal void @outside(ptr %record, i64 %access, i64 %at, i64 %size) noinline #0 {
  %pair = cmpxchg ptr %record, i64 0, i64 %access monotonic monotonic
  %first = extractvalue { i64, i1 } %pair, 1
  br i1 %first, label %say, label %done
say:
  %second = getelementptr i64, ptr %record, i64 1
  store i64 %at, ptr %second
  %third = getelementptr i64, ptr %record, i64 2
  store i64 %size, ptr %third
  br label %done
done:
  ret void
}"""


def access_number(buffer: int, *, writes: bool) -> int:
    """The number that identifies loads, or stores, of the function's buffer `buffer`; never 0.

    >>> [access_number(b, writes=w) for b in (0, 1) for w in (False, True)]
    [1, 2, 3, 4]
    """
    return 1 + 2 * buffer + writes


@dataclass(slots=True)
class Checks:
    """The checks of one function. `extents`: the number of elements of each buffer; `room`: bytes of the
    largest access."""

    out: Writer
    extents: dict[Buffer, str] = field(default_factory=dict)
    numbers: dict[Buffer, int] = field(default_factory=dict)
    room: int = LINE

    def begin(self, buffer: Buffer, place: int) -> None:
        """Register a buffer whose number of elements is in a word of the frame."""
        entry = self.out.scopes.stack[0]
        word = self.out.put(entry, f"getelementptr i64, ptr %frame, i64 {place}")
        self.extents[buffer] = self.out.put(entry, f"load i64, ptr {word}, !invariant.load !0", "n")
        self.numbers[buffer] = len(self.numbers)

    def limit(self, buffer: Buffer, size: int) -> None:
        """Register an array of accumulators."""
        self.extents[buffer] = str(size)
        self.numbers.setdefault(buffer, len(self.numbers))

    def head(self, slots: int) -> list[str]:
        """The beginning of the function: the place for the record, zeros to read, and memory to write to."""
        room = -(-self.room // LINE) * LINE
        lines = [f"  %record = getelementptr i64, ptr %slots, i64 {slots}"]
        for name in (NOTHING, NOWHERE):
            lines.append(f"  {name}.room = alloca [{room} x i8], align {LINE}")
            # The assembly hides the memory from LLVM, which would otherwise optimise accesses to it.
            lines.append(f'  {name} = call ptr asm sideeffect "", "=r,0,~{{memory}}"(ptr {name}.room)')
        for at in range(0, room, LINE):
            line = f"{NOTHING}.{at}"
            lines.append(f"  {line} = getelementptr i8, ptr {NOTHING}, i64 {at}")
            lines.append(f"  store <{LINE} x i8> zeroinitializer, ptr {line}, align {LINE}")
        return lines

    def run(
        self, scope: Scope, buffer: Buffer, pointer: str, first: str, span: tuple[str, int], *, writes: bool
    ) -> str:
        """`pointer` to the element `first` if all elements of `span` (their number, and its upper bound) are
        in the buffer, else a pointer to other memory. If the number is 0, no element is required."""
        count, most = span
        w, extent = self.out, self.extents[buffer]
        self.room = max(self.room, most * ll.BYTES[buffer.stored])
        last = w.put(scope, f"sub i64 {w.put(scope, f'add i64 {first}, {count}')}, 1")
        begins = w.put(scope, f"icmp ult i64 {first}, {extent}")
        ends = w.put(scope, f"icmp ult i64 {last}, {extent}")
        there = w.put(scope, f"and i1 {begins}, {ends}")
        fine = w.put(scope, f"or i1 {there}, {w.put(scope, f'icmp slt i64 {count}, 1')}")
        if not writes and count == "1":  # beside a condition that discards it
            both = w.put(scope, f"or i64 {first}, {extent}")
            fine = w.put(scope, f"or i1 {fine}, {w.put(scope, f'icmp eq i64 {both}, 0')}")
        wrong = w.put(scope, f"select i1 {begins}, i64 {extent}, i64 {first}")
        self._unless(scope, fine, buffer, wrong, writes=writes)
        return self._instead(scope, there, pointer, writes=writes)

    def places(
        self,
        scope: Scope,
        buffer: Buffer,
        where: tuple[str, str],
        width: int,
        mask: str | None,
        *,
        writes: bool,
    ) -> str:
        """A vector of pointers, those outside the buffer replaced by pointers to other memory; `where`: the
        pointers, and the indices."""
        w, (pointers, indices), extent = self.out, where, self.extents[buffer]
        flags, wide = ll.vector(Scalar.BOOL, width), ll.vector(Scalar.I64, width)
        extents = w.spread(scope, extent, "i64", width)
        there = w.put(scope, f"icmp ult {wide} {indices}, {extents}")
        fine = there
        if not writes:
            both = w.put(scope, f"or {wide} {indices}, {extents}")
            first = w.put(scope, f"icmp eq {wide} {both}, zeroinitializer")
            fine = w.put(scope, f"or {flags} {fine}, {first}")
        every = ll.splat(True, Scalar.BOOL, width)
        bad = w.put(scope, f"xor {flags} {fine}, {every}")
        bad = bad if mask is None else w.put(scope, f"and {flags} {bad}, {mask}")
        bits = w.put(scope, f"bitcast {flags} {bad} to i{width}")
        lane = w.call(scope, f"i{width}", f"llvm.cttz.i{width}", [(f"i{width}", bits), ("i1", "false")])
        none = w.put(scope, f"icmp eq i{width} {bits}, 0")
        lane = w.put(scope, f"select i1 {none}, i{width} 0, i{width} {lane}")
        wrong = w.put(scope, f"extractelement {wide} {indices}, i{width} {lane}")
        self._unless(scope, none, buffer, wrong, writes=writes)
        instead = w.spread(scope, NOWHERE if writes else NOTHING, "ptr", width)
        kind = f"<{width} x ptr>"
        return w.put(scope, f"select {flags} {there}, {kind} {pointers}, {kind} {instead}")

    def masked(self, scope: Scope, mask: str, width: int) -> str:
        """The number of lanes of a mask, which are the first ones."""
        bits = self.out.put(scope, f"bitcast {ll.vector(Scalar.BOOL, width)} {mask} to i{width}")
        wide = self.out.put(scope, f"zext i{width} {bits} to i{width + 64}")
        name = f"llvm.ctpop.i{width + 64}"
        count = self.out.call(scope, f"i{width + 64}", name, [(f"i{width + 64}", wide)])
        return self.out.put(scope, f"trunc i{width + 64} {count} to i64")

    def _unless(self, scope: Scope, fine: str, buffer: Buffer, index: str, *, writes: bool) -> None:
        """Record the access if the condition `fine` does not hold."""
        w = self.out
        w.declared.add(OUTSIDE)
        number = access_number(self.numbers[buffer], writes=writes)
        wrong = w.put(scope, f"xor i1 {fine}, true")
        record_call = (
            f"  call void @outside(ptr %record, i64 {number}, i64 {index}, i64 {self.extents[buffer]})"
        )
        w.guarded(scope, wrong, [record_call], ", !prof !2")

    def _instead(self, scope: Scope, there: str, pointer: str, *, writes: bool) -> str:
        other = NOWHERE if writes else NOTHING
        return self.out.put(scope, f"select i1 {there}, ptr {pointer}, ptr {other}", "p")
