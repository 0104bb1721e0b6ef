"""A plan ready to run: its code mapped, its constants in place, with the thread pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec

from anyrt.core.counts import highest, is_open
from anyrt.core.dims import INF, bounds, symbols
from anyrt.core.errors import AnyrtError, BindingError, ProfileError
from anyrt.plan.abi import Status, align
from anyrt.plan.device import Code, Device
from anyrt.plan.plan import Binding, Plan, Range
from anyrt.plan.program import Program
from anyrt.runtime.constants import Held
from anyrt.runtime.external import Callers
from anyrt.runtime.memory import workspace_bytes
from anyrt.runtime.pool import Pool
from anyrt.runtime.shapes import Resolver, Shape, value_of

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """The data that all contexts of an engine share; nothing in it changes.

    `position`: index of a binding by name. `value_inputs`: the inputs whose elements determine sizes.
    `counts`: data-dependent sizes, with the outputs that contain them, by index. `open_outputs`: those of
    them that contain sizes without an upper bound; `late`: outputs that have such sizes (runtime/pauses.py).
    `sources`: the inputs whose memory outputs share, by index; `lenders`: those whose memory they may share.
    `held`: the constants, which a refit replaces; `checksums`: those of the plan. `callers`: calls plug-ins
    and communicators; None if there are none.
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
    held: Held
    checksums: tuple[str, ...]
    callers: Callers | None
    prepare: Callable[[int], int]
    run: Callable[[int], int]
    step: Callable[[int, int], int]
    resume: Callable[[int, int], int]
    again: Callable[[int, int], int]

    def find(self, name: str) -> int:
        """The index of the input or output `name`."""
        if name not in self.position:
            raise BindingError(
                "AR706",
                "engine",
                got=repr(name),
                wanted=f"one of {', '.join(self.position)}",
                do="check the spelling",
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
                do="add profiles to the configuration before the build",
            )

    def limits(self, profile: int, tensor: str, is_values: bool) -> Range | None:
        """The limits of `profile` for an input's dimensions or elements, None if it has none."""
        if not self.plan.profiles:
            return None
        ranges = self.plan.profiles[profile]
        return next((r for r in ranges if (r.tensor, r.is_values) == (tensor, is_values)), None)

    def workspace_bytes(self, profile: int | None = None) -> int:
        """The workspace for the largest shapes of a profile (None: of all); 0 if nothing bounds them."""
        if profile is None:
            return max(self.workspace_bytes(i) for i in range(max(1, len(self.plan.profiles))))
        inputs = self._inputs_at(profile, "max")
        if inputs is None:
            return 0
        try:
            resolved = self.resolver.resolve(*inputs)
        except AnyrtError:  # the maxima of several inputs may exclude each other
            return self._bound()
        return workspace_bytes(resolved, self.pool.threads)

    def _inputs_at(
        self, profile: int, corner: str
    ) -> tuple[tuple[Shape, ...], tuple[Shape | None, ...]] | None:
        """The inputs' shapes at the "min", "opt" or "max" of a profile, and elements that determine sizes;
        None if it does not define them all."""
        shapes: list[Shape] = []
        values: list[Shape | None] = []
        for binding in self.resolver.inputs:
            by_shape = self.limits(profile, binding.name, is_values=False)
            by_value = self.limits(profile, binding.name, is_values=True)
            shape = getattr(by_shape, corner) if by_shape else static_shape(binding)
            if shape is None:
                return None
            shapes.append(shape)
            values.append(getattr(by_value, corner) if by_value else None)
        if any(values[i] is None for i in self.value_inputs):
            return None
        return tuple(shapes), tuple(values)

    def output_shape(self, profile: int, corner: str, binding: Binding) -> Shape:
        """The shape of an output for the inputs' "min", "opt" or "max": its upper bound if data-dependent,
        and −1 for sizes that the profile does not define."""
        inputs = self._inputs_at(profile, corner)
        try:
            sizes = {} if inputs is None else self.resolver.sizes(*inputs)
        except AnyrtError:  # these shapes of several inputs may exclude each other
            sizes = {}
        for symbol in (s.sym for s in self.plan.symbols if is_open(s.sym)):
            sizes.pop(symbol.name, None)
        most = [highest(d) for d in binding.shape]
        known = [all(s.name in sizes for s in symbols(d)) for d in most]
        return tuple(value_of(d, sizes) if ok else -1 for d, ok in zip(most, known, strict=True))

    def _bound(self) -> int:
        """Workspace for every size; 0 if nothing bounds it, since each inference then allocates what it
        needs."""
        most = [bounds(d)[1] for d in (self.program.arena_bytes, self.program.scratch_bytes)]
        return 0 if INF in most else align(most[0]) + self.pool.threads * align(most[1])


def static_shape(binding: Binding) -> Shape | None:
    """The shape of a tensor without dynamic dimensions, else None."""
    known = tuple(d for d in binding.shape if isinstance(d, int))
    return known if len(known) == len(binding.shape) else None


def guarded(function: Callable[P, int], is_intact: Callable[[], bool] | None) -> Callable[P, int]:
    """`function`, or a function that returns STALE without calling it if its mapped file has changed."""
    if is_intact is None:
        return function

    def call(*args: P.args, **kwargs: P.kwargs) -> int:
        return function(*args, **kwargs) if is_intact() else Status.STALE

    return call
