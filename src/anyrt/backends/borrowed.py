"""The parts of native code that other backends, which execute or analyse its kernels, share."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.backends import loader
from anyrt.core.machine import Machine
from anyrt.ir.kernel import Intrinsic
from anyrt.schedule.step import Strategies


class Borrowed:
    """The part of a target that defines how kernels are created: as for native code."""

    @property
    def strategies(self) -> Strategies:
        """Those of native code."""
        return loader.target().strategies

    @property
    def intrinsics(self) -> Sequence[Intrinsic]:
        """Those of native code."""
        return loader.target().intrinsics

    def limited(self, machine: Machine) -> Machine:
        """The machine of native code."""
        return loader.target().limited(machine)
