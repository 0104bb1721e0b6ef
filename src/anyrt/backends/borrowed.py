"""What backends have of native code that run or judge its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.backends import loader
from anyrt.core.machine import Machine
from anyrt.ir.kernel import Intrinsic
from anyrt.schedule.step import Strategies


class Borrowed:
    """The part of a target that says how kernels are made: as for native code."""

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
