"""The collective operations: which of them reduce, have a root, split their operand, or concatenate the
operands of the ranks.

>>> first_size(CollectiveOperation.ALL_GATHER, 3, 2), first_size(CollectiveOperation.SCATTER, 6, 2)
(6, 3)
"""

from __future__ import annotations

from typing import Final

from anyrt.core.dims import Dim, floordiv, mul
from anyrt.core.enums import CollectiveOperation

C = CollectiveOperation
REDUCING: Final = frozenset({C.ALL_REDUCE, C.REDUCE, C.REDUCE_SCATTER})
ROOTED: Final = frozenset({C.BROADCAST, C.REDUCE, C.GATHER, C.SCATTER})
JOINED: Final = frozenset({C.ALL_GATHER, C.GATHER})
PARTED: Final = frozenset({C.REDUCE_SCATTER, C.SCATTER})
CUT: Final = PARTED | {C.ALL_TO_ALL}  # the number of members divides the first size


def first_size(operation: CollectiveOperation, size: Dim, members: int) -> Dim:
    """The first dimension of the result, if that of the operand is `size`."""
    if operation in JOINED:
        return mul(size, members)
    return floordiv(size, members) if operation in PARTED else size
