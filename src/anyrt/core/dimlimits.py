"""Limits on the complexity of a size: a few layers can describe one that fills the memory when written out.

Repeated squaring doubles the degree with every layer. A size that each of many layers reads twice doubles its
text. Plans store sizes as text, with the limits of `core.dimtext`, so a size beyond these limits is rejected
when it is created. This file also limits the number of axes.

>>> check_size(depth=65)
Traceback (most recent call last):
anyrt.core.dimlimits.SizeTooLong: [AR901] sizes: got a size with 65 levels, wanted at most 64; ...
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from anyrt.core.errors import NotSupportedError

MAX_DEPTH: Final = 64
MAX_DEGREE: Final = 64
MAX_TEXT: Final = 65536
MAX_WHOLE: Final = 1 << 20  # characters if each part were written as often as it occurs
LONG: Final = 256  # characters of a part that is compared and shown as it is
MAX_RANK: Final = 8  # axes of a tensor that a user sees
MAX_AXES: Final = 32  # of any other value: some releases of NumPy, which the interpreter uses, have no more
_MOST: Final = {
    "levels": MAX_DEPTH,
    "characters": MAX_TEXT,
    "factors": MAX_DEGREE,
    "terms": 1 << 14,
    "characters, written out": MAX_WHOLE,
}


class SizeTooLong(NotSupportedError):
    """A size that exceeds these limits."""


def check_size(depth: int = 0, text: int = 0, degree: int = 0, terms: int = 0, written_out: int = 0) -> None:
    """SizeTooLong for a function `depth` levels deep or `text` characters long, `written_out` if each
    part were written as often as it occurs, or for a product of so many factors or terms."""
    for (what, most), amount in zip(_MOST.items(), (depth, text, degree, terms, written_out), strict=True):
        if amount > most:
            do = "compute sizes in fewer steps, or make dimensions static"
            got = f"a size with {amount} {what}"
            raise SizeTooLong("AR901", "sizes", got=got, wanted=f"at most {most}", do=do)


def shortened(text: str) -> str:
    """A text, or the beginning of a long one with a number that identifies the rest."""
    if len(text) <= LONG:
        return text
    return f"{text[:40]}…#{blake2b(text.encode(), digest_size=16).hexdigest()}"
