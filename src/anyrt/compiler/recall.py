"""The result of an earlier build of the same request in the cache: the plan without its weights.

Equal networks with equal weights and settings have equal plans. The header of a plan is therefore stored
under a key made from all its inputs, with the position of each constant among those of the network, which
describes packing completely; only of computed constants, such as Winograd weights, the bytes are stored. A
build that finds this runs no passes: it reads the weights twice, once for their checksums and once for the
plan.

    recall = Recall.of(request, device, mixer)
    recall.remember(parts, contents, report, store)
    recall.known(store)                            the same parts, over the network's weights, and the report
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Final, Protocol

import numpy as np

from anyrt.compiler.cached import computed_key, request_key
from anyrt.compiler.request import BuildRequest
from anyrt.core.errors import PlanError
from anyrt.ir.text import print_graph
from anyrt.plan.checksum import Mixer, checksums, portable
from anyrt.plan.content import Array, Content
from anyrt.plan.device import Device
from anyrt.plan.file import PlanParts, assembled
from anyrt.plan.json import Json, Reader, dump, load
from anyrt.plan.plan import Plan, lay_out
from anyrt.prims.const import Blob
from anyrt.prims.table import named_blobs, vocabulary

# The inputs of the key, and settings that change no plan of a build that measures nothing.
NAMED: Final = {"name", "graph", "profiles", "settings", "bindings", "layers", "aside"}
IDLE: Final = {"title", "monitor", "cancelled", "log", "timings", "clock", "pool"}
MOST_BYTES: Final = 64 << 20  # of constants that are stored whole: more would evict code from the cache
MOST_JSON: Final = 64 << 20
MOST_RECORDS: Final = 1 << 20
_LENGTHS: Final = struct.Struct("<QQ")  # bytes of the records and the header; the report is the rest


class Store(Protocol):
    """A store of bytes."""

    def get_bytes(self, key: str) -> bytes | None:
        """The content stored at `key`."""

    def put_bytes(self, key: str, parts: Sequence[bytes | memoryview]) -> bool:
        """Store `parts`, joined."""


@dataclass(frozen=True, slots=True)
class Recall:
    """The key of a request, and the bytes of the network's constants."""

    key: str
    sources: tuple[memoryview, ...]

    @staticmethod
    def of(request: BuildRequest, device: Device, mixer: Callable[[], Mixer] = portable) -> Recall | None:
        """None if the plan depends on more than the key; `mixer`: see `checksums`."""
        if any(_is_unusual(request, f.name, f.default) for f in fields(request)):
            return None
        blobs = named_blobs(request.graph)
        sources = tuple(map(_bytes_of, blobs.values()))
        described = Plan(
            name=request.name,
            graph_text=print_graph(request.graph, vocabulary(blobs)),
            blobs=lay_out((name, b.dtype, b.size) for name, b in blobs.items()),
            bindings=request.bindings,
            profiles=request.profiles,
            layers=request.layers,
        )
        settings = f"{request.settings} {sorted(request.aside)}"
        sums = "".join(checksums(sources, mixer))
        return Recall(request_key(device, dump(described.as_json()), settings, sums), sources)

    def known(self, store: Store) -> tuple[PlanParts, str] | None:
        """The plan and its report, if they are stored."""
        entry = store.get_bytes(self.key)
        return None if entry is None else _read(memoryview(entry), self.sources, store)

    def remember(self, parts: PlanParts, contents: Sequence[Content], report: str, store: Store) -> None:
        """Store a plan whose constants are `contents`, unless too much of it was computed."""
        places = _Places.of(self.sources)
        records = [places.record(x) for x in contents]
        computed = [x for x, record in zip(contents, records, strict=True) if len(record) == 1]
        if sum(x.nbytes for x in computed) > MOST_BYTES:
            return
        whole = [bytes(x) if isinstance(x, memoryview) else x.tobytes() for x in computed]
        name = computed_key(*whole)
        if store.get_bytes(name) is None:
            store.put_bytes(name, whole)
        listed, header, text = dump([name, *records]), bytes(parts.header), report.encode()
        store.put_bytes(self.key, [_LENGTHS.pack(len(listed), len(header)), listed, header, text])


def _is_unusual(request: BuildRequest, name: str, default: object) -> bool:
    """True for requests that the key does not describe."""
    usual = default is not MISSING and getattr(request, name) == default
    return name not in NAMED and name not in IDLE and not usual


def _bytes_of(blob: Blob) -> memoryview:
    return np.frombuffer(blob.data.view(np.uint8), np.uint8).data if blob.size else memoryview(b"")


@dataclass(frozen=True, slots=True)
class _Places:
    """The memory range of each of the network's constants, in order, with their numbers and sizes."""

    starts: list[int]
    numbers: list[int]
    sizes: list[int]

    @staticmethod
    def of(sources: Sequence[memoryview]) -> _Places:
        rows = sorted(
            (_address(np.frombuffer(x, np.uint8)), n, x.nbytes) for n, x in enumerate(sources) if x.nbytes
        )
        return _Places([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])

    def record(self, content: Content) -> list[Json]:
        """Number, offset, bytes of an element, sizes and strides of a constant in these ranges; otherwise its
        number of bytes."""
        array = np.frombuffer(content, np.uint8) if isinstance(content, memoryview) else content
        start, behind = (
            _address(array),
            sum(n * (d - 1) for n, d in zip(array.strides, array.shape, strict=True)),
        )
        k = bisect_right(self.starts, start) - 1
        at = start - self.starts[k] if k >= 0 else 0
        inside = k >= 0 and at + behind + array.itemsize <= self.sizes[k]
        if not array.size or not inside or min(array.strides) < 0:
            return [array.nbytes]
        return [self.numbers[k], at, array.itemsize, *array.shape, *array.strides]


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _read(entry: memoryview, sources: Sequence[memoryview], store: Store) -> tuple[PlanParts, str] | None:
    """The parts that `remember` joined, None if one is missing; PlanError for anything else."""
    if entry.nbytes < _LENGTHS.size:
        raise PlanError("AR601", "cache entry", got=f"{entry.nbytes} bytes")
    listed, size = _LENGTHS.unpack_from(entry)
    header_at = _LENGTHS.size + listed
    records = Reader(load(bytes(entry[_LENGTHS.size : header_at]), "cache entry", MOST_JSON), "cache entry")
    name, *rest = records.items(MOST_RECORDS)
    computed = store.get_bytes(name.text())
    if computed is None:
        return None
    contents, at, whole = list[Content](), 0, memoryview(computed)
    for record in rest:
        numbers = [x.integer() for x in record.items(MOST_RECORDS)]
        if len(numbers) == 1:
            contents.append(whole[at : at + numbers[0]])
            at += numbers[0]
        else:
            contents.append(_view(numbers, sources))
    header = bytes(entry[header_at : header_at + size])
    return assembled(header, contents), bytes(entry[header_at + size :]).decode()


def _view(record: Sequence[int], sources: Sequence[memoryview]) -> Content:
    """The elements of a constant, in place."""
    number, offset, itemsize, *rest = record
    shape, strides = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    try:
        array = np.ndarray(shape, f"u{itemsize}", sources[number], offset, strides)
    except (IndexError, TypeError, ValueError) as error:
        raise PlanError("AR605", "cache entry", str(error), "elements of the network's constants") from None
    return array.data if (itemsize, strides) == (1, [1]) else array
