"""The memory of one context: arena and scratch (the workspace), and the tables of the current shapes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from anyrt.core.errors import BindingError, ResourceError
from anyrt.plan.abi import ALIGNMENT
from anyrt.plan.device import Device, Memory
from anyrt.runtime import reach
from anyrt.runtime.shapes import Resolved


class Policy(enum.Enum):
    """When a context allocates its workspace."""

    STATIC = "at once, for the largest shapes of any profile"
    ON_PROFILE_CHANGE = "for the largest shapes of the profile in force"
    ON_DEMAND = "for the shapes of each run, growing"
    USER_MANAGED = "never: the user gives it"


def workspace_bytes(resolved: Resolved, threads: int) -> int:
    """Arena and the scratch of every thread."""
    return resolved.arena_bytes + threads * resolved.scratch_bytes


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory of which a context uses the first `nbytes`."""

    address: int
    nbytes: int
    owner: Memory | None = None


EMPTY: Final = Workspace(0, 0)


def take(device: Device, nbytes: int, limit: int | None) -> Workspace:
    """New workspace; ResourceError AR801 over the limit, AR802 when the machine has no more."""
    if limit is not None and nbytes > limit:
        do = "raise the workspace limit, or use smaller shapes"
        got, wanted = f"a workspace of {nbytes:,} bytes", f"at most {limit:,}"
        raise ResourceError("AR801", "execution context", got=got, wanted=wanted, do=do)
    memory = device.allocate(nbytes)
    return Workspace(memory.address, nbytes, memory)


def adopt(address: int, nbytes: int) -> Workspace:
    """Workspace that the user provides."""
    if address % ALIGNMENT or address < 0 or nbytes < 0:
        got, wanted = f"{nbytes} bytes at {address:#x}", f"a multiple of {ALIGNMENT}"
        raise BindingError("AR705", "device memory", got, wanted, "align the address")
    lacks = reach.lack(address, nbytes, writes=True)
    if lacks:
        got = f"address {address:#x}, {lacks}"
        raise BindingError("AR712", "device memory", got, f"one of {nbytes:,} bytes")
    return Workspace(address, nbytes)
