"""The definition of windows: neighbouring positions that one result reads."""

from anyrt.core.dims import Dim, Sym, depends


def together(index: Dim, loops: tuple[Sym, ...]) -> tuple[int, ...]:
    """The loops that move an index, if these are several: one of them counts windows, the others positions in
    a window. None if the index belongs to no window."""
    moving = tuple(k for k, sym in enumerate(loops) if depends(index, sym))
    return moving if len(moving) > 1 else ()
