"""Large pages: memory of which a processor keeps more addresses at hand, and reads ahead further.

A processor fetches ahead only as far as a page reaches, so that what is read once from end to end, as weights
are, comes faster out of pages of 2 MB than out of those of 4 KB.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

LARGE: Final = 2 << 20  # bytes
COLLAPSE: Final = 25  # MADV_COLLAPSE: Linux 6.1 and later, madvise(2)


def collapse_pages(address: int, nbytes: int) -> None:
    """Have the system put memory into large pages where it can, which costs as much as a copy; what the
    memory holds stays as it is."""
    first, last = -(-address // LARGE) * LARGE, (address + nbytes) // LARGE * LARGE
    if sys.platform != "linux" or first >= last:
        return
    try:
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):  # no C library with this call
        return
    advise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), COLLAPSE)
