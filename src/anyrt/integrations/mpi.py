"""Ranks of MPI as a communicator: `anyrt[mpi]`, that is mpi4py, beside any MPI.

ranks = MpiRanks()                                      # under mpiexec -n 2 python program.py
total = exchange(ranks, Exchange(CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM), x)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from mpi4py import MPI

from anyrt.core.errors import ArgumentError, ResourceError
from anyrt.runtime.collective import Bytes

TEXT: Final = 32
SPIN_SECONDS: Final = 0.002


class MpiRanks:
    """The ranks of an MPI communicator, None: all. `seconds` is the longest that a call waits for others.

    What is folded is folded here, in the order of ranks, so that results have the bits that `SharedRanks`
    gives. A rank that ends takes all with it, as MPI does."""

    def __init__(
        self, world: MPI.Intracomm | None = None, seconds: float = 30.0, chunk: int = 1 << 20
    ) -> None:
        self._world = MPI.COMM_WORLD if world is None else world
        self._seconds, self.chunk = seconds, -(-chunk // 64) * 64
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        self._groups: dict[tuple[int, ...], MPI.Intracomm] = {tuple(range(self.size)): self._world}
        self._is_broken = False

    def share(self, text: bytes, chunk: Bytes, members: Sequence[int]) -> Sequence[Bytes]:
        """The chunks of all members; see Communicator."""
        if self._is_broken:
            raise ResourceError("AR802", f"rank {self.rank}", "an exchange that failed", "none before")
        comm, count = self._of(tuple(members)), len(members)
        # Sizes may differ where ranks disagree, and MPI wants equal ones: texts go first.
        told = np.frombuffer(text + chunk.size.to_bytes(8, "little"), np.uint8)
        every = self._gathered(comm, told, count)
        for member, other in zip(members, every, strict=True):
            if not np.array_equal(other, told):
                self._is_broken = True
                got = f"another exchange, shape or type on rank {member}"
                raise ArgumentError("AR304", f"rank {self.rank}", got, "the same on all ranks")
        return list(self._gathered(comm, chunk, count))

    def release(self, members: Sequence[int]) -> None:
        """Chunks are copies."""

    def _gathered(self, comm: MPI.Intracomm, chunk: Bytes, count: int) -> Bytes:
        found = np.empty((count, chunk.size), np.uint8)
        self._finish(comm.Iallgather([np.ascontiguousarray(chunk), MPI.BYTE], [found, MPI.BYTE]))
        return found

    def _of(self, members: tuple[int, ...]) -> MPI.Intracomm:
        """Their communicator, whose ranks are in this order; made by the members alone."""
        found = self._groups.get(members)
        if found is None:
            group = self._world.Get_group().Incl(list(members))
            found = self._groups[members] = self._world.Create_group(group)
        return found

    def _finish(self, request: Any) -> None:  # Any: mpi4py may be missing where types are checked
        start = time.monotonic()
        while not request.Test():
            waited = time.monotonic() - start
            if waited > self._seconds:
                self._is_broken = True
                got = f"no word of others in {self._seconds:g} s"
                raise ResourceError(
                    "AR802", f"rank {self.rank}", got, "all ranks", "start all, or wait longer"
                )
            time.sleep(0 if waited < SPIN_SECONDS else 0.0001)
