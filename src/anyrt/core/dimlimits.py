"""How complicated a size may become: a few layers can describe one that fills the memory when written out.

Repeated squaring doubles the degree with every layer, and a size that is read twice at each of many layers
doubles its text. Plans hold sizes as text, with the limits of `core.dimtext`; what would not fit there is
refused where it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyrt.core.errors import NotSupportedError

MAX_DEPTH: Final = 64  # functions within functions
MAX_DEGREE: Final = 64  # factors of a term
MAX_WRITTEN: Final = 65536  # characters
MAX_TERMS: Final = 1 << 14  # that one multiplication makes

Terms = Sequence[tuple[tuple[object, ...], int]]


def check_function(text: str, depth: int) -> None:
    """NotSupportedError for a function of sizes that takes too much to write down."""
    if depth > MAX_DEPTH or len(text) > MAX_WRITTEN:
        raise _too_complicated(f"a size of {len(text)} characters, {depth} functions deep")


def check_product(a: Terms, b: Terms) -> None:
    """NotSupportedError for polynomials whose product would be too long; last terms are longest."""
    terms, degree = len(a) * len(b), sum(len(x[-1][0]) for x in (a, b) if x)
    if terms > MAX_TERMS or degree > MAX_DEGREE:
        raise _too_complicated(f"a product of {terms} terms with up to {degree} factors")


def _too_complicated(got: str) -> NotSupportedError:
    wanted = f"at most {MAX_TERMS} terms, {MAX_DEGREE} factors, {MAX_WRITTEN} characters, {MAX_DEPTH} deep"
    do = "compute sizes in fewer steps, or make dimensions static"
    return NotSupportedError("AR901", "sizes", got=got, wanted=wanted, do=do)
