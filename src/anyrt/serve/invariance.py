"""Whether a row of a batch has the bits of the same row alone: tried when a model is loaded.

An engine with an open first axis has the same kernels for every number of rows, so that sums of a row have
one order, whatever stands beside it. The trial finds models that join rows, as by a mean over them.

reason = mismatch(predictor.run, metadata.inputs, (), most=16)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import numpy_dtype
from anyrt.core.errors import AnyrtError
from anyrt.onnx.predictor import Shapes
from anyrt.onnx.session import Port

Arrays = Mapping[str, NDArray[Any]]  # Any: of whatever types models have
Run = Callable[[Arrays], Arrays]
EVERY: Final = 8  # up to which all numbers of rows are tried; above, those around powers of two
LENGTHS: Final = (16, 128)  # of open axes but the first, where no profile says more


def mismatch(
    run: Run, inputs: Sequence[Port], profiles: Sequence[Mapping[str, Shapes]], most: int
) -> str | None:
    """Why runs of up to `most` rows do not have the bits of each row alone, None: they do, in all trials."""
    found: str | None = "no trial"
    for shapes in _shapes(inputs, profiles, most):
        try:
            found = _tried(run, _rows(inputs, shapes), most)
        except AnyrtError as error:
            found = found and f"random rows cannot be run: {error}"
        else:
            if found:
                return found
    return found


def _shapes(
    inputs: Sequence[Port], profiles: Sequence[Mapping[str, Shapes]], most: int
) -> Iterator[Mapping[str, tuple[int, ...]]]:
    """Shapes of all rows together: the best ones of each profile, or else with a few lengths."""
    for profile in profiles:
        yield {p.name: (most, *(profile[p.name][1] if p.name in profile else p.shape)[1:]) for p in inputs}
    is_open = any(-1 in p.shape[1:] for p in inputs)
    for length in () if profiles else LENGTHS if is_open else LENGTHS[:1]:
        yield {p.name: (most, *(length if n < 0 else n for n in p.shape[1:])) for p in inputs}


def _rows(inputs: Sequence[Port], shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """Normal numbers; integers are 0 and 1, which lie in the tables that they may be looked up in."""
    random = np.random.default_rng(0)
    found = {}
    for port in inputs:
        dtype = numpy_dtype(port.dtype)
        x = random.standard_normal(shapes[port.name])
        found[port.name] = (x > 0 if dtype.kind in "biu" else x).astype(dtype)
    return found


def _tried(run: Run, rows: Arrays, most: int) -> str | None:
    alone = [run(_part(rows, k, k + 1)) for k in range(most)]
    powers = [1 << k for k in range(EVERY.bit_length(), most.bit_length() + 1)]
    around = (n + more for n in powers for more in (-1, 0, 1))
    for count in sorted({n for n in (*range(2, EVERY + 1), *around, most) if n <= most}):
        if (name := _different(run(_part(rows, most - count, most)), alone[most - count :])) is not None:
            return f"output {name!r} of {count} rows differs from that of each row"
    last = {n: _spoilt(x) for n, x in rows.items()}
    if (name := _different(_part(run(last), most - 1, most), alone[-1:])) is not None:
        return f"output {name!r} of a row depends on rows with NaN"
    return None


def _part(rows: Arrays, low: int, high: int) -> Arrays:
    return {n: x[low:high] for n, x in rows.items()}


def _spoilt(x: NDArray[Any]) -> NDArray[Any]:
    """The last row, behind others of NaN."""
    found = x.copy()
    if x.dtype.kind not in "biu":
        found[:-1] = np.nan
    return found


def _different(found: Arrays, alone: Sequence[Arrays]) -> str | None:
    """The first output whose bytes are not those of its rows alone."""
    for name, x in found.items():
        if x.tobytes() != b"".join(row[name].tobytes() for row in alone):
            return name
    return None
