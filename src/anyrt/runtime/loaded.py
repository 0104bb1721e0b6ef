"""A plan made ready to run: its code mapped, its constants in place, the thread pool at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec

import numpy as np

from anyrt.core.dims import INF, bounds
from anyrt.core.errors import AnyrtError, BindingError, ProfileError
from anyrt.plan import abi
from anyrt.plan.abi import Status, align
from anyrt.plan.device import Code, Device
from anyrt.plan.file import PlanFile
from anyrt.plan.plan import Binding, Plan, Range
from anyrt.plan.program import Program
from anyrt.runtime.memory import workspace_bytes
from anyrt.runtime.outward import Callers
from anyrt.runtime.pool import Pool
from anyrt.runtime.shapes import Resolver, Shape

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """What all contexts of an engine share; nothing in it changes.

    `position`: index of a binding by name. `value_inputs`: the inputs whose elements decide sizes. `counts`:
    sizes that data decide, with the outputs that tell them, by index. `open_outputs`: those of them that tell
    sizes without an upper bound; `late`: outputs that have such sizes (runtime/pauses.py). `sources`: the
    inputs whose memory outputs have, by index; `lenders`: those whose memory they may have.
    `is_intact`: whether constants in a mapped file are what they were; None where they are in memory.
    `callers`: who calls plug-ins; None where there are none.
    """

    plan: Plan
    program: Program
    code: Code
    device: Device
    pool: Pool
    resolver: Resolver
    position: dict[str, int]
    value_inputs: tuple[int, ...]
    counts: dict[str, int]
    open_outputs: tuple[int, ...]
    late: tuple[int, ...]
    sources: dict[int, int]
    lenders: dict[int, int]
    consts: int
    owner: object
    is_intact: Callable[[], bool] | None
    callers: Callers | None
    prepare: Callable[[int], int]
    run: Callable[[int], int]
    step: Callable[[int, int], int]
    resume: Callable[[int, int], int]

    def find(self, name: str) -> int:
        """The index of the input or output `name`."""
        if name not in self.position:
            raise BindingError(
                "AR706",
                "engine",
                got=repr(name),
                wanted=f"one of {', '.join(self.position)}",
                do="look at the spelling",
            )
        return self.position[name]

    def check_profile(self, profile: int) -> None:
        """ProfileError unless there is such a profile; number 0 always is."""
        count = max(1, len(self.plan.profiles))
        if not 0 <= profile < count:
            raise ProfileError(
                "AR507",
                "engine",
                got=f"profile {profile}",
                wanted=f"0 to {count - 1}",
                do="add profiles to the config before the build",
            )

    def limits(self, profile: int, tensor: str, is_values: bool) -> Range | None:
        """What `profile` says of an input's dimensions or elements, None when it says nothing."""
        if not self.plan.profiles:
            return None
        ranges = self.plan.profiles[profile]
        return next((r for r in ranges if (r.tensor, r.is_values) == (tensor, is_values)), None)

    def workspace_bytes(self, profile: int | None = None) -> int:
        """The workspace for the largest shapes of a profile (None: of all); 0 where nothing bounds them."""
        if profile is None:
            return max(self.workspace_bytes(i) for i in range(max(1, len(self.plan.profiles))))
        shapes: list[Shape] = []
        values: list[Shape | None] = []
        for binding in self.resolver.inputs:
            by_shape = self.limits(profile, binding.name, is_values=False)
            by_value = self.limits(profile, binding.name, is_values=True)
            shape = by_shape.max if by_shape else static_shape(binding)
            if shape is None:
                return 0
            shapes.append(shape)
            values.append(by_value.max if by_value else None)
        if any(values[i] is None for i in self.value_inputs):
            return 0
        try:
            resolved = self.resolver.resolve(tuple(shapes), tuple(values))
        except AnyrtError:  # the maxima of several inputs need not go together
            return self._bound()
        return workspace_bytes(resolved, self.pool.threads)

    def _bound(self) -> int:
        """What is enough for every size; 0 where nothing bounds it, as each run takes what it needs."""
        most = [bounds(d)[1] for d in (self.program.arena_bytes, self.program.scratch_bytes)]
        return 0 if INF in most else align(most[0]) + self.pool.threads * align(most[1])


def static_shape(binding: Binding) -> Shape | None:
    """The shape of a tensor without dynamic dimensions, else None."""
    known = tuple(d for d in binding.shape if isinstance(d, int))
    return known if len(known) == len(binding.shape) else None


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants where kernels read them, as long as `owner` is held. `is_intact`: see `PlanFile`."""

    address: int
    owner: object
    is_intact: Callable[[], bool] | None = None


def place_constants(file: PlanFile, device: Device) -> Constants:
    """Used in place where they may be and are aligned, else copied to aligned memory."""
    if not file.weights.nbytes:
        return Constants(0, None)
    source = np.frombuffer(file.weights, np.uint8)
    address = int(source.ctypes.data)
    if file.in_place and address % abi.ALIGNMENT == 0:
        return Constants(address, source, file.is_intact)
    memory = device.allocate(source.size)
    device.write(memory, source)
    return Constants(memory.address, memory)


def guarded(function: Callable[P, int], is_intact: Callable[[], bool] | None) -> Callable[P, int]:
    """`function`, which is not called, and answers STALE, where the mapped file that it reads has changed."""
    if is_intact is None:
        return function

    def call(*args: P.args, **kwargs: P.kwargs) -> int:
        return function(*args, **kwargs) if is_intact() else Status.STALE

    return call
