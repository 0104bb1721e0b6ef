"""Native code with which ranks exchange small arrays over shared memory: from the cache, or compiled.

`code().function(MEET, 2)(address of a frame, turn)` copies an array to this rank's piece, publishes it, waits
for the other ranks, and adds their pieces in order. `runtime/ranks.py` describes the memory.
"""

from __future__ import annotations

from enum import IntEnum, auto
from functools import cache
from typing import Final

import numpy as np

from anyrt.backends import loader
from anyrt.codegen.sources import codegen_version
from anyrt.core.errors import CompileError, ResourceError
from anyrt.core.flags import read_flags
from anyrt.plan.cache import DEFAULT_LIMIT, KernelCache, cache_key, default_directory
from anyrt.plan.device import Code
from anyrt.plan.program import Compiled
from anyrt.plan.room import require_room

MEET: Final = "meet"
ROOM: Final = 256 << 20  # of LLVM, as in compiler/cached.py
SIGN_BYTES: Final = 8  # where the digest follows the counter of a header
PIECE_BYTES: Final = 64  # where the piece follows the counter
# The types whose pieces are added; the others are only exchanged.
ADDED: Final = tuple(np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64))


class FrameWord(IntEnum):
    """The words of a frame. HEADERS: the address of the header of each member, in order."""

    SPINS = 0  # looks at the counter of a rank before Python waits
    SIGN = auto()
    MINE = auto()  # the address of this rank's header
    X = auto()
    NBYTES = auto()
    TOTAL = auto()  # the address of the sums
    ADDED = auto()  # 1 + the index of their type, 0: no sums
    ELEMENTS = auto()
    MEMBERS = auto()
    HEADERS = auto()


class Met(IntEnum):
    """The result of a call. SHARED: all pieces are there, but not added; Python does the rest, and reports
    other exchanges and numbers that are not finite."""

    ADDED = 0
    SHARED = auto()
    WAITS = auto()


@cache
def code() -> Code | None:
    """The code for this processor; None if the system does not permit native code, or LLVM is missing."""
    device, flags = loader.device(), read_flags()
    store = KernelCache(default_directory(), lambda text: None, flags.cache_limit or DEFAULT_LIMIT)
    key = cache_key(MEET, codegen_version(), device.identity(), flags.cpu or "")
    try:
        return device.load(store.obtain(key, {}, _compiled))
    except (CompileError, ImportError, ResourceError):
        return None


def _compiled() -> Compiled:
    require_room(ROOM, "compiler")
    return loader.target().compile_meeting()
