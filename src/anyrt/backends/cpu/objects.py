"""Code of single functions, from the cache or compiled, in several processes if that pays.

It depends only on its text, the processor and the compiler, so layers, builds and networks share it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from anyrt.backends.cpu import image, processors
from anyrt.backends.cpu.link import Image
from anyrt.codegen import llvm
from anyrt.codegen.target import ReportProgress, Store
from anyrt.codegen.workers import compile_texts
from anyrt.core.errors import PlanError
from anyrt.plan.cache import cache_key
from anyrt.plan.json import Reader, dump, load

MAX_ENTRIES: Final = 1 << 10
MAX_TEXT: Final = 1 << 20
_LENGTH: Final = struct.Struct("<Q")


class Nowhere:
    """A store that keeps nothing."""

    def get_bytes(self, key: str) -> bytes | None:
        """Nothing."""
        return None

    def put_bytes(self, key: str, parts: Sequence[bytes | memoryview]) -> bool:
        """Does nothing."""
        return False


def compiled(
    texts: Iterable[str],
    target: processors.Processor,
    store: Store,
    progress: ReportProgress = lambda done, total: None,
) -> Mapping[str, Image]:
    """Code for every text; `progress` is called between the steps with the number done and the total, and an
    exception of it ends them."""
    keys = {text: cache_key("piece", llvm.VERSION, target.key, text) for text in texts}
    cached = {
        text: function
        for text, key in keys.items()
        if (function := _unpack(store.get_bytes(key))) is not None
    }
    missing = [text for text in keys if text not in cached]
    objects = compile_texts(missing, target, lambda count: progress(len(cached) + count, len(keys)))
    new = {text: Image(*image.flatten(obj)) for text, obj in objects.items()}
    for text, function in new.items():
        progress(len(keys), len(keys))  # a cancelled build needs no result, and does not wait for a disk
        store.put_bytes(keys[text], _packed(function))
    return cached | new


def _packed(function: Image) -> Sequence[bytes]:
    entries = dump([[name, offset] for name, offset in function.entries.items()])
    return _LENGTH.pack(len(entries)), entries, function.code


def _unpack(content: bytes | None) -> Image | None:
    """None also for content that is not code."""
    if content is None or len(content) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(content)
    head, code = content[_LENGTH.size : _LENGTH.size + length], content[_LENGTH.size + length :]
    try:
        rows = Reader(load(head, "cache entry", MAX_TEXT), "entries").items(MAX_ENTRIES)
        entries = {name.text(): offset.integer() for name, offset in (r.exactly(2) for r in rows)}
    except PlanError:
        return None
    return Image(code, entries) if all(0 <= at < len(code) for at in entries.values()) else None
