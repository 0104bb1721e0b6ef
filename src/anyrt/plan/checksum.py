"""Checksums of constants against damage, near the speed of memory, computed by several threads.

A constant of at most `SHORT_BYTES` has the SHA-256 of its bytes. A longer one is rows of 64 words of 64 bits,
and each of the 64 columns is mixed to one word, modulo 2^64:

    lane = rotate(lane + word * SCALE, 31) * FACTOR

for each word from the first row to the last (the round of XXH64), anew for each block of `BLOCK_ROWS` rows.
The checksum is the SHA-256 of all lanes, block after block, and of the bytes behind the last whole row. The
size of a constant, which the header states, tells all these forms apart.

A step is invertible for a known word, and for a known lane, so one changed word in a column always changes
its lane; several do with probability 1 − 2^-64. A person can construct other content for a lane, just as
whoever changes weights can write another header: checksums are no signatures. Constants that code depends on,
single numbers, are short.

>>> checksums([memoryview(b"abc")])
['ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad']
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from anyrt.plan.content import Bytes, Content, part
from anyrt.plan.crew import share

Words: TypeAlias = npt.NDArray[np.uint64]
Mixer: TypeAlias = Callable[[Words, Words], None]  # takes rows, changes lanes

MIX: Final = "mix"  # the entry of native code: (address of rows, how many, address of lanes)
SHORT_BYTES: Final = 1 << 16
BLOCK_ROWS: Final = 1 << 12  # 2 MB
LANES: Final = 64
ROW_BYTES: Final = 8 * LANES
ROTATED: Final = 31
SCALE: Final = 0xC2B2AE3D27D4EB4F  # primes of XXH64
FACTOR: Final = 0x9E3779B185EBCA87
_START: Final = np.arange(1, LANES + 1, dtype=np.uint64) * np.uint64(0x165667B19E3779F9)


def mix(rows: Words, lanes: Words) -> None:
    """The definition, in NumPy; `rows`: (n, 64), `lanes`: (64), which are changed."""
    for row in rows * np.uint64(SCALE):
        lanes += row
        turned = lanes << np.uint64(ROTATED) | lanes >> np.uint64(64 - ROTATED)
        np.multiply(turned, np.uint64(FACTOR), out=lanes)


def portable() -> Mixer:
    """`mix`, which needs no native code and is many times slower."""
    return mix


def checksums(contents: Sequence[Content], mixer: Callable[[], Mixer] = portable) -> list[str]:
    """The checksum of each constant, in hexadecimal digits.

    `mixer` returns a function equal to `mix`; it is called if a constant is long."""
    counts = [x.nbytes // ROW_BYTES if x.nbytes > SHORT_BYTES else 0 for x in contents]
    blocks = [(n, k) for n, rows in enumerate(counts) for k in range(-(-rows // BLOCK_ROWS))]
    lanes = np.tile(_START, (len(blocks), 1))
    fast = mixer() if blocks else mix

    rooms: list[Bytes] = []  # one per thread: fresh memory costs more than filling it

    def work(i: int) -> None:
        n, k = blocks[i]
        if isinstance(contents[n], memoryview):
            return fast(_block(contents[n], k), lanes[i])
        room = rooms.pop() if rooms else np.empty(BLOCK_ROWS * ROW_BYTES, np.uint8)
        fast(_block(contents[n], k, room), lanes[i])
        rooms.append(room)
        return None

    share(len(blocks), work, "checksums")
    digests = [hashlib.sha256() for _ in contents]
    for (n, _), own in zip(blocks, lanes, strict=True):
        digests[n].update(own.data)
    for n, content in enumerate(contents):
        digests[n].update(part(content, counts[n] * ROW_BYTES, content.nbytes))
    return [digest.hexdigest() for digest in digests]


def _block(content: Content, number: int, room: Bytes | None = None) -> Words:
    """Whole rows, in place unless their elements are strided, else in `room`; at any address."""
    start, whole = number * BLOCK_ROWS * ROW_BYTES, content.nbytes // ROW_BYTES * ROW_BYTES
    rows = part(content, start, min(start + BLOCK_ROWS * ROW_BYTES, whole), room)
    return np.frombuffer(rows, np.uint64).reshape(-1, LANES)
