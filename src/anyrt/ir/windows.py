"""Windows: neighbouring positions that one result reads. What they are is said here, and nowhere else."""

from anyrt.core.dims import Dim, Sym, depends


def together(index: Dim, loops: tuple[Sym, ...]) -> tuple[int, ...]:
    """Which loops move an index, where these are several: one of them counts windows, the others what lies in
    one. None where the index belongs to no window."""
    moving = tuple(k for k, sym in enumerate(loops) if depends(index, sym))
    return moving if len(moving) > 1 else ()
