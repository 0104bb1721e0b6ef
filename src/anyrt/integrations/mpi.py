"""Ranks of MPI as a communicator; needs `anyrt[mpi]`, which installs mpi4py, and an MPI library.

ranks = MpiRanks()                                      # under mpiexec -n 2 python program.py
total = exchange(ranks, Exchange(CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM), x)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import numpy as np
from mpi4py import MPI

from anyrt.core.errors import ArgumentError, ResourceError
from anyrt.runtime.collective import Bytes

TEXT: Final = 32
TOLD: Final = 64  # bytes of a text and of the size of a piece; the data after them is aligned
SMALL: Final = 1024  # maximum bytes of a piece that is sent with its text
SPIN_SECONDS: Final = 0.002
MEETING: Final = 0x6A72  # the tag of the messages that synchronise the members of a group


class MpiRanks:
    """The ranks of an MPI communicator (None: all ranks). `seconds`: maximum time that a call waits for other
    ranks.

    This process reduces the arrays itself, in the order of ranks, so that results are bitwise equal to those
    of `SharedRanks`. If a rank fails, all ranks end, as usual with MPI."""

    def __init__(
        self, world: MPI.Intracomm | None = None, seconds: float = 30.0, chunk: int = 1 << 20
    ) -> None:
        self._world = MPI.COMM_WORLD if world is None else world
        self._seconds, self.chunk = seconds, -(-chunk // 64) * 64
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        self._groups: dict[tuple[int, ...], MPI.Intracomm] = {tuple(range(self.size)): self._world}
        self._is_broken = False

    def share(self, text: bytes, piece: Bytes, members: Sequence[int]) -> Sequence[Bytes]:
        """The pieces of all members; see Communicator."""
        if self._is_broken:
            raise ResourceError(
                "AR811", f"rank {self.rank}", "an earlier exchange that failed", "no failed exchange"
            )
        comm, count = self._of(tuple(members)), len(members)
        # Sizes may differ where ranks disagree, and MPI wants equal ones: texts go first, with room for few
        # bytes.
        sent = np.zeros(TOLD + SMALL, np.uint8)
        sent[: TEXT + 8] = np.frombuffer(text + piece.size.to_bytes(8, "little"), np.uint8)
        is_small = piece.size <= SMALL
        if is_small:
            sent[TOLD : TOLD + piece.size] = piece
        every = self._gathered(comm, sent, count)
        for member, other in zip(members, every, strict=True):
            if not np.array_equal(other[:TOLD], sent[:TOLD]):
                self._is_broken = True
                got = f"another exchange, shape or type on rank {member}"
                raise ArgumentError("AR304", f"rank {self.rank}", got, "the same on all ranks")
        pieces = every[:, TOLD : TOLD + piece.size] if is_small else self._gathered(comm, piece, count)
        return list(pieces)

    def release(self, members: Sequence[int]) -> None:
        """Do nothing: pieces are copies."""

    def _gathered(self, comm: MPI.Intracomm, piece: Bytes, count: int) -> Bytes:
        pieces = np.empty((count, piece.size), np.uint8)
        self._finish(comm.Iallgather([np.ascontiguousarray(piece), MPI.BYTE], [pieces, MPI.BYTE]))
        return pieces

    def _of(self, members: tuple[int, ...]) -> MPI.Intracomm:
        """The communicator of the members, with ranks in this order; only the members create it."""
        group_comm = self._groups.get(members)
        if group_comm is None:
            self._meet(members)
            group = self._world.Get_group().Incl(list(members))
            group_comm = self._groups[members] = self._world.Create_group(group)
        return group_comm

    def _meet(self, members: tuple[int, ...]) -> None:
        """Wait for all members within the time limit, since the creation of a group has none."""
        name = np.frombuffer(sha256(repr(members).encode()).digest(), np.uint8)
        others = [m for m in members if m != self.rank]
        names = [np.empty_like(name) for _ in others]
        requests = [self._world.Irecv([x, MPI.BYTE], m, MEETING) for x, m in zip(names, others, strict=True)]
        self._finish(*requests, *(self._world.Isend([name, MPI.BYTE], m, MEETING) for m in others))
        for member, x in zip(others, names, strict=True):
            if not np.array_equal(x, name):
                self._is_broken = True
                got = f"another group on rank {member}"
                raise ArgumentError("AR304", f"rank {self.rank}", got, f"the group {list(members)}")

    def _finish(self, *requests: Any) -> None:  # Any: mpi4py may be missing during type checks
        start = time.monotonic()
        while not MPI.Request.Testall(requests):
            waited = time.monotonic() - start
            if waited > self._seconds:
                self._is_broken = True
                got = f"no message from other ranks in {self._seconds:g} s"
                raise ResourceError(
                    "AR811",
                    f"rank {self.rank}",
                    got,
                    "all ranks",
                    "start all ranks, or increase the time limit",
                )
            time.sleep(0 if waited < SPIN_SECONDS else 0.0001)
