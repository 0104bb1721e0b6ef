"""Timing caches: measurements of kernels, reused between builds (compiler/tune.py measures).

A key identifies a kernel with its sizes, threads and machine; a tactic identifies an implementation of it.
The build report shows the measured tactics. A kernel with an unknown tactic is measured again.

>>> cache = ITimingCache()
>>> key = TimingCacheKey.parse("k1")
>>> cache.update(key, TimingCacheValue(7, 0.5)), [str(k) for k in cache.queryKeys()]
(True, ['k1'])
>>> ITimingCache(cache.serialize()).query(key).tacticHash
7
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import wrong_type
from anyrt.api.run.host_memory import IHostMemory
from anyrt.core.errors import PlanError

MAGIC = b"anyrt timing cache 1\n"
MAX_BYTES = 1 << 28


@fold
class TimingCacheKey(Fixed):
    """The identity of a measured kernel."""

    __slots__ = ("__weakref__", "_text")

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def parse(cls, text: str) -> TimingCacheKey:
        """The key that prints as `text`."""
        if not isinstance(text, str):
            raise wrong_type("TimingCacheKey.parse", text, "a str")
        return cls(text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"TimingCacheKey({getattr(self, '_text', '')!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimingCacheKey) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


@fold
@dataclass(slots=True, weakref_slot=True)
class TimingCacheValue(Fixed):
    """The hash of the fastest tactic, and its time in milliseconds."""

    tacticHash: int
    timingMSec: float


@fold
class ITimingCache(Fixed):
    """Measurements by key, from builds, `update` and `combine`.

    Made by `IBuilderConfig.create_timing_cache`."""

    __slots__ = ("__weakref__", "_entries")

    def __init__(self, serialized: bytes | bytearray | memoryview = b"") -> None:
        try:
            data = bytes(memoryview(serialized))
        except TypeError:
            raise wrong_type("ITimingCache", serialized, "a buffer") from None
        self._entries = read(data) if data else {}

    @one_line
    def __repr__(self) -> str:
        entries = len(self._entries)
        return f": {entries} {'entry' if entries == 1 else 'entries'}"

    def serialize(self) -> IHostMemory:
        """The cache as bytes for `create_timing_cache`."""
        return IHostMemory(MAGIC + json.dumps(self._entries, sort_keys=True).encode())

    def combine(self, input_cache: ITimingCache, ignore_mismatch: bool) -> bool:
        """Add the entries of another cache that this one lacks."""
        if not isinstance(input_cache, ITimingCache):
            raise wrong_type("combine", input_cache, "an ITimingCache")
        self._entries = input_cache._entries | self._entries
        return True

    def reset(self) -> bool:
        """Remove all entries."""
        self._entries.clear()
        return True

    def queryKeys(self) -> list[TimingCacheKey]:
        """All keys."""
        return [TimingCacheKey(text) for text in self._entries]

    def query(self, key: TimingCacheKey) -> TimingCacheValue | None:
        """The entry for `key`; None if there is none."""
        entry = self._entries.get(str(key))
        return None if entry is None else TimingCacheValue(*entry)

    def update(self, key: TimingCacheKey, value: TimingCacheValue) -> bool:
        """Set the entry for `key`."""
        if not isinstance(key, TimingCacheKey) or not isinstance(value, TimingCacheValue):
            raise wrong_type("update", key, "a TimingCacheKey and a TimingCacheValue")
        self._entries[str(key)] = (int(value.tacticHash), float(value.timingMSec))
        return True


def entries_of(cache: ITimingCache) -> dict[str, tuple[int, float]]:
    """The entries of a cache, which the caller may extend."""
    return cache._entries


def read(data: bytes) -> dict[str, tuple[int, float]]:
    """The entries in the bytes of `serialize`; PlanError for anything else."""
    if not data.startswith(MAGIC):
        raise PlanError(
            "AR606",
            "timing cache",
            "bytes of another format",
            "the bytes of ITimingCache.serialize",
            'create an empty cache from b""',
        )
    if len(data) > MAX_BYTES:
        raise PlanError(
            "AR604",
            "timing cache",
            f"{len(data)} bytes",
            f"at most {MAX_BYTES} bytes",
            'create an empty cache from b""',
        )
    try:
        loaded = json.loads(data[len(MAGIC) :])
        return {str(k): (int(tactic), float(ms)) for k, (tactic, ms) in loaded.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise PlanError(
            "AR605",
            "timing cache",
            str(error),
            "keys with a number and a time",
            'create an empty cache from b""',
        ) from None
