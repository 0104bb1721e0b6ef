"""Constants in the form for a plan: contiguous bytes, or strided elements in memory.

Constants that are only reordered, such as packed weights, are copied once, to where they are written. They
are read in parts, so that a stream or a checksum needs no memory for the whole.

>>> columns = np.arange(6, dtype=np.uint8).reshape(2, 3).T
>>> [bytes(part) for part in parts(columns, 4)]
[b'\\x00\\x03\\x01\\x04', b'\\x02\\x05']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anyrt.plan.crew import share

Array: TypeAlias = NDArray[np.generic]
Bytes: TypeAlias = NDArray[np.uint8]
Content: TypeAlias = memoryview | Array  # single bytes, or elements of a type that buffers may have

SHARED_BYTES: Final = 1 << 21  # bytes that a thread copies at a time


class _Lent:
    """NumPy's interface for an array on existing memory."""

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def lent(address: int, nbytes: int, owner: object) -> Bytes:
    """Memory of `owner`, which stays alive as long as anybody uses it, even a thread that an interrupt has
    left behind."""
    return np.asarray(_Lent(address, nbytes, owner)) if nbytes else np.empty(0, np.uint8)


def parts(content: Content, most: int) -> Iterator[memoryview]:
    """The bytes of `content` in parts of `most`, a multiple of every element's size, the last one shorter."""
    for at in range(0, content.nbytes, most):
        yield part(content, at, min(content.nbytes, at + most))


def part(content: Content, start: int, stop: int, room: Bytes | None = None) -> memoryview:
    """Some bytes of `content`, which begin and end with an element; copied only if they are strided, to
    `room` if that is passed."""
    if isinstance(content, memoryview):
        return content[start:stop]
    held = np.empty(stop - start, np.uint8) if room is None else room[: stop - start]
    copy(content, start, held)
    return held.data


def copy(content: Content, start: int, out: Bytes) -> None:
    """Fill `out` with the bytes of `content` from `start` on, which begin and end with an element."""
    if isinstance(content, memoryview):
        out[:] = np.frombuffer(content[start : start + out.size], np.uint8) if out.size else ()
    else:
        _copy(content, start // content.itemsize, out.view(content.dtype))


def _copy(array: Array, start: int, out: Array) -> None:
    """Fill `out` with the elements of `array` from number `start` on: whole rows at once, and parts of those
    before and behind them."""
    if not out.size:
        return
    if array.ndim < 2:
        out[:] = array[start : start + out.size] if array.ndim else array
        return
    row, stop = array[0].size, start + out.size
    first, last = -(-start // row), stop // row
    if first > last:
        _copy(array[last], start - last * row, out)
        return
    begin, end = first * row - start, last * row - start
    if begin:
        _copy(array[first - 1], row - begin, out[:begin])
    out[begin:end].reshape(-1, *array.shape[1:])[...] = array[first:last]
    if end < out.size:
        _copy(array[last], 0, out[end:])


def write(contents: Sequence[Content], memory: Bytes) -> None:
    """Fill `memory` with all contents, one after the other, on several threads."""
    todo, at = list[tuple[Content, int, Bytes]](), 0
    for x in contents:
        own = memory[at : at + x.nbytes]
        todo += [(x, k, own[k : k + SHARED_BYTES]) for k in range(0, x.nbytes, SHARED_BYTES)]
        at += x.nbytes
    share(len(todo), lambda i: copy(*todo[i]), "copies")
