"""`with` for objects that do not need it."""

from __future__ import annotations

import warnings
from typing import Self


class Managed:
    """`with` on an object, which has no effect and a deprecation warning, as in TensorRT."""

    __slots__ = ()

    def __enter__(self) -> Self:
        warnings.warn(
            "`with` does nothing on this object, which exists while it is referenced", DeprecationWarning, 2
        )
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        return None
