"""Replaces the constants of a running engine: all are written to new memory, which later inferences use.

Running inferences keep the constants that they started with; if anything fails, the old ones stay active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyrt.core.dtype import is_packed, numpy_dtype, pack4, unpack4
from anyrt.plan.checksum import Mixer, checksums
from anyrt.plan.content import SHARED_BYTES, Array, Bytes, Content, copy, lent
from anyrt.plan.crew import share
from anyrt.plan.plan import BlobRecord
from anyrt.runtime.constants import Constants
from anyrt.runtime.loaded import Loaded


def elements(loaded: Loaded, record: BlobRecord) -> Array:
    """The current elements of a constant: a view, except for types whose elements share bytes."""
    now = loaded.held.now
    raw = now.bytes(record.offset, record.nbytes)
    packed = is_packed(record.dtype)
    return unpack4(raw, record.count, record.dtype) if packed else raw.view(numpy_dtype(record.dtype))


def exchange(
    loaded: Loaded, changed: Iterable[tuple[BlobRecord, Array]], same: Callable[[], Mixer] | None
) -> list[str]:
    """Replace constants by these elements, for later inferences; the caller holds the lock of `loaded.held`.
    `same`: first compare them with those of the build, by checksums with this mixer; if some differ, nothing
    changes, and their names are returned."""
    plan, new = loaded.plan, {record.name: (record, _words(record, array)) for record, array in changed}
    memory, now = loaded.device.allocate(plan.blob_bytes), loaded.held.now
    room = lent(memory.address, plan.blob_bytes, memory)
    unchanged = [(b, now.bytes(b.offset, b.nbytes)) for b in plan.blobs if b.name not in new]
    _write([*new.values(), *unchanged], room)
    others = [] if same is None else _others(loaded, [record for record, _ in new.values()], room, same)
    if not others:
        loaded.held.put(Constants(memory.address, memory))
    return others


def _words(record: BlobRecord, array: Array) -> Array:
    """The elements as integers of their size, which buffers support; those that share bytes in this form."""
    return pack4(array) if is_packed(record.dtype) else array.view(f"u{array.itemsize}")


def _write(changed: Iterable[tuple[BlobRecord, Array]], room: Bytes) -> None:
    """Fill the memory of constants, on several threads."""
    todo = list[tuple[Content, int, Bytes]]()
    for record, words in changed:
        place = room[record.offset : record.offset + record.nbytes]
        todo += [(words, k, place[k : k + SHARED_BYTES]) for k in range(0, place.size, SHARED_BYTES)]
    share(len(todo), lambda i: copy(*todo[i]), "copies")


def _others(loaded: Loaded, records: list[BlobRecord], room: Bytes, mixer: Callable[[], Mixer]) -> list[str]:
    """The constants whose checksums differ from those of the build."""
    stated = {b.name: x for b, x in zip(loaded.plan.blobs, loaded.checksums, strict=True)}
    computed = checksums([room[b.offset : b.offset + b.nbytes].data for b in records], mixer)
    return [b.name for b, mine in zip(records, computed, strict=True) if mine != stated[b.name]]
