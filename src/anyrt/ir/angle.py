"""Float32 angles beyond 2³¹ reduced by whole turns, in 64-bit integers.

Such a number is m × 2ᵉ with a 24-bit integer m and e ≥ 8. Two bits of 2/π × 2ᵉ before the point and 62 bits
behind it determine the number of quarter turns modulo 4; higher bits are whole turns (M. Payne and R. Hanek,
"Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983). The product with m wraps, which
is correct modulo 4; its error is at most 2⁻³⁸ of a quarter turn. Generated code takes the same steps
(`codegen/angle.py`).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

LARGEST: Final = 2.0**31  # angles up to it are unchanged
WORDS: Final = (0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041)  # of 2/π, as in fdlibm
FIRST: Final = 152  # the exponent field whose bits begin with those of 2/π
FRACTION: Final = 23
MASK: Final = (1 << FRACTION) - 1
UNIT: Final = math.pi / 2 * 2.0**-30  # of the upper 32 bits of the product, which are signed


def angle(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each number itself, or beyond 2³¹ the equivalent angle in −π … π, to 2⁻²² absolute; ∞ and NaN are
    unchanged."""
    bits = np.asarray(x).view(np.uint32)
    offset = ((bits >> FRACTION).astype(np.uint64) - np.uint64(FIRST)) & np.uint64(127)
    words, upper, by = np.array(WORDS, np.uint64), (offset >> 6).astype(np.int64), offset & 63
    # In two shifts, as none by 64 is defined.
    fraction = (words[upper] << by) | (words[upper + 1] >> 1 >> (63 - by))
    product = ((bits & MASK) | (MASK + 1)).astype(np.uint64) * fraction
    turned = (product >> 32).astype(np.uint32).view(np.int32) * UNIT
    return np.where((x > LARGEST) & (x < math.inf), turned.astype(np.float32), x)
