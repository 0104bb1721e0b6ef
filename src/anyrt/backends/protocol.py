"""What a backend's compile side is asked: to run, or to judge, a network that has been scheduled.

The run side, which native code needs, is `plan.device.Device`; it must work without any compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from anyrt.ir.graph import Graph
from anyrt.ir.kernel import Kernel
from anyrt.ir.prim import Array


@dataclass(frozen=True, slots=True)
class Job:
    """A network at particular sizes: its graph, its kernels in order, the value of every size symbol."""

    graph: Graph
    kernels: tuple[Kernel, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outputs by name, none from a backend that computes nothing; `notes` is for people."""

    outputs: Mapping[str, Array]
    notes: str = ""


class Target(Protocol):
    """The compile side of a backend."""

    def run(self, job: Job, feeds: Mapping[str, Array]) -> Answer:
        """What the backend makes of the network for these inputs."""
