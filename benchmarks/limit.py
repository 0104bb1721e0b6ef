"""The limit of a case: the time to read and write its bytes once.

A plain kernel reads one memory and writes another from beginning to end, with the threads of the case: a few
vector loads, a few vector stores, in the proportion of the case. Ways differ in the kind of stores and in the
size of the pieces; the fastest is the limit. The memcpy of the C library copies the larger of the two sizes.
If the sizes are equal, it is one more way (it may use instructions that do not read the target first). If
they differ and memcpy is faster nevertheless, the limit is wrong, and reports mark it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

from anyrt.backends.cpu.processors import Arch, Processor, host
from benchmarks.native import Region, region, word
from benchmarks.peers import Way
from benchmarks.steps import Element, Tensor
from benchmarks.values import Array, aligned

LIMIT, MEMCPY = "limit", "memcpy"
EQUAL = 0.01  # sizes that differ by less, by coefficients that is, are equal
UNROLL, MOST = 4, 32  # vectors of the smaller side in a turn of the loop; at most of the larger
FENCES = {Arch.X86_64: 'call void asm sideeffect "sfence", "~{memory}"()'}
KINDS = {Arch.X86_64: "v" if host().vector_bits == 512 else "x", Arch.AARCH64: "w"}


@dataclass(frozen=True, slots=True)
class Pieces:
    """The division of the traffic: bytes read and written by each of `items`."""

    items: int
    read: int
    written: int


def ways(read: int, written: int, threads: int) -> tuple[Way, ...]:
    """Kernels that read and write so many bytes, and memcpy."""
    source, target = (_bytes(read, written) for _ in range(2))
    out = []
    for pieces in _cuts(read, written, threads):
        for streaming in (False, True):
            label = f"{LIMIT} {'streaming' if streaming else 'normal'} {pieces.items}"
            kernel = _move(pieces, read, written, streaming, source, target, threads)
            out.append(Way(label, kernel, lambda: (target,)))
    size = max(read, written)
    libc = ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0
    pieces = Pieces(threads, _up(-(-size // threads)), 0)
    words = (source.ctypes.data, target.ctypes.data, pieces.read, size, libc)
    copy = region(_MEMCPY, threads, words, threads, (source, target))
    return (*out, Way(MEMCPY, copy, lambda: (target,)))


def reading(read: int, threads: int) -> tuple[Way, ...]:
    """Kernels that read so many bytes and write none."""
    source = _bytes(read, 0)
    return tuple(
        Way(f"{LIMIT} {p.items}", _move(p, read, 0, False, source, source, threads), lambda: (source,))
        for p in _cuts(read, 0, threads)
    )


def is_copy(read: int, written: int) -> bool:
    """Whether memcpy moves the same bytes."""
    return abs(read - written) <= EQUAL * max(read, written)


def _bytes(read: int, written: int) -> Array:
    """Memory that either side fits into, already touched."""
    array = aligned(Tensor((_up(max(read, written)) + 4096,), Element.U8))
    array[:] = 1
    return array


def _up(n: int) -> int:
    return -(-n // 4096) * 4096


def _cuts(read: int, written: int, threads: int) -> Iterator[Pieces]:
    """A piece for each thread, and many small pieces, which balance better; small work also in one piece."""
    most = max(read, written)
    counts = {1, threads, -(-most // 65536)} if most < 1 << 20 else {threads, -(-most // 65536)}
    for items in sorted(counts):
        yield Pieces(items, _lines(read, items), _lines(written, items))


def _lines(size: int, items: int) -> int:
    """Bytes of one item, in whole cache lines."""
    return -(-size // items // 64) * 64


def _move(
    pieces: Pieces, read: int, written: int, streaming: bool, source: Array, target: Array, threads: int
) -> Region:
    loads, stores = _proportion(read, written)
    text = _kernel(loads, stores, streaming, host())
    words = (
        *(source.ctypes.data, target.ctypes.data),
        *(pieces.read, pieces.written, read // 64 * 64, written // 64 * 64),
    )
    return region(text, pieces.items, words, threads, (source, target))


def _proportion(read: int, written: int) -> tuple[int, int]:
    """Vectors loaded and stored in one iteration."""
    if not written:
        return 2 * UNROLL, 0
    if read >= written:
        return min(MOST, round(UNROLL * read / max(written, 1))), UNROLL
    return UNROLL, min(MOST, round(UNROLL * written / max(read, 1)))


def _kernel(loads: int, stores: int, streaming: bool, target: Processor) -> str:
    """Iterations of `loads` loads and `stores` stores, then the remaining ones."""
    size = target.vector_bits // 8
    vector = f"<{size} x i8>"
    kind = KINDS.get(target.arch, "r")
    hint = ", !nontemporal !0" if streaming else ""
    body = [
        f"  %from{i} = getelementptr i8, ptr %r, i64 {i * size}\n"
        f"  %v{i} = load {vector}, ptr %from{i}, align {size}"
        for i in range(loads)
    ]
    body += [f'  call void asm sideeffect "", "{kind}"({vector} %v{i})' for i in range(loads) if i >= stores]
    body += [
        f"  %to{i} = getelementptr i8, ptr %w, i64 {i * size}\n"
        f"  store {vector} %v{i % loads}, ptr %to{i}, align {size}{hint}"
        for i in range(stores)
    ]
    fence = FENCES.get(target.arch, "fence seq_cst") if streaming else ""
    head = "".join(
        word(name, i) for i, name in enumerate(("src", "dst", "rbytes", "wbytes", "rtotal", "wtotal"))
    )
    return _MOVE.format(
        head=head, body="\n".join(body), read=loads * size, written=stores * size, size=size,
        vector=vector, kind=kind, hint=hint, fence=fence,
    )  # fmt: skip


_MOVE = """
declare i64 @llvm.umin.i64(i64, i64)
define internal void @k(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {{
entry:
{head}
  %r0at = mul i64 %begin, %rbytes
  %r0 = call i64 @llvm.umin.i64(i64 %r0at, i64 %rtotal)
  %r1at = mul i64 %end, %rbytes
  %r1 = call i64 @llvm.umin.i64(i64 %r1at, i64 %rtotal)
  %w0at = mul i64 %begin, %wbytes
  %w0 = call i64 @llvm.umin.i64(i64 %w0at, i64 %wtotal)
  %w1at = mul i64 %end, %wbytes
  %w1 = call i64 @llvm.umin.i64(i64 %w1at, i64 %wtotal)
  br label %check
check:
  %ri = phi i64 [%r0, %entry], [%rn, %turn]
  %wi = phi i64 [%w0, %entry], [%wn, %turn]
  %rn = add i64 %ri, {read}
  %wn = add i64 %wi, {written}
  %rok = icmp ule i64 %rn, %r1
  %wok = icmp ule i64 %wn, %w1
  %ok = and i1 %rok, %wok
  br i1 %ok, label %turn, label %loads
turn:
  %rat = add i64 %src, %ri
  %r = inttoptr i64 %rat to ptr
  %wat = add i64 %dst, %wi
  %w = inttoptr i64 %wat to ptr
{body}
  br label %check
loads:
  %rj = phi i64 [%ri, %check], [%rm, %load]
  %rm = add i64 %rj, {size}
  %more = icmp ule i64 %rm, %r1
  br i1 %more, label %load, label %stores
load:
  %rlast = add i64 %src, %rj
  %rp = inttoptr i64 %rlast to ptr
  %v = load {vector}, ptr %rp, align {size}
  call void asm sideeffect "", "{kind}"({vector} %v)
  br label %loads
stores:
  %wj = phi i64 [%wi, %loads], [%wm, %store]
  %wm = add i64 %wj, {size}
  %room = icmp ule i64 %wm, %w1
  br i1 %room, label %store, label %done
store:
  %wlast = add i64 %dst, %wj
  %wp = inttoptr i64 %wlast to ptr
  store {vector} splat (i8 1), ptr %wp, align {size}{hint}
  br label %stores
done:
  {fence}
  ret void
}}
"""

_MEMCPY = (
    """
declare i64 @llvm.umin.i64(i64, i64)
define internal void @k(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {
"""
    + "".join(word(name, i) for i, name in enumerate(("src", "dst", "bytes", "total", "libc")))
    + """
  %first = mul i64 %begin, %bytes
  %start = call i64 @llvm.umin.i64(i64 %first, i64 %total)
  %last = mul i64 %end, %bytes
  %stop = call i64 @llvm.umin.i64(i64 %last, i64 %total)
  %count = sub i64 %stop, %start
  %from = add i64 %src, %start
  %to = add i64 %dst, %start
  %copy = inttoptr i64 %libc to ptr
  %r = call ptr %copy(i64 %to, i64 %from, i64 %count)
  ret void
}
"""
)
