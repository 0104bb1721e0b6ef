"""Optimization profiles: the ranges of shapes that an engine is built for.

>>> profile = IOptimizationProfile()
>>> profile.set_shape("x", (1, 3), (4, 3), (8, 3))
>>> profile.get_shape("x"), profile.get_shape("y"), bool(profile)
([(1, 3), (4, 3), (8, 3)], [], True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import listed, one_line, quoted, range_text
from anyrt.api.edge.quiet import Refused, WrongValue, wrong_type
from anyrt.api.model.dims import Dims, integers, sizes
from anyrt.core.errors import ArgumentError, ProfileError
from anyrt.plan.plan import Range


@fold
class IOptimizationProfile(Fixed):
    """Minimum, optimum and maximum shapes of inputs; see `Builder.create_optimization_profile`."""

    __slots__ = ("__weakref__", "_extra_memory_target", "_shapes", "_values")

    def __init__(self) -> None:
        self._shapes: dict[str, Range] = {}
        self._values: dict[str, Range] = {}
        self._extra_memory_target = 1.0

    def set_shape(
        self, input: str, min: Dims | Sequence[int], opt: Dims | Sequence[int], max: Dims | Sequence[int]
    ) -> None:
        """Set the shapes of an input: `min` <= `opt` <= `max` in each dimension, equal in static ones.

            profile.set_shape("x", (1, 3, 32, 32), (1, 3, 224, 224), (8, 3, 1024, 1024))

        Kernels are tuned for `opt` and work for all. Raises RuntimeError (AR502, AR503) unless the ranks
        agree and 0 <= min <= opt <= max."""
        bounds = [sizes(s, f"set_shape({input!r})") for s in (min, opt, max)]
        self._shapes[_name(input)] = _ordered(input, bounds, is_values=False)

    def get_shape(self, input: str) -> list[Dims]:
        """The three shapes of an input; [] if not set."""
        limits = self._shapes.get(_name(input))
        return [] if limits is None else [Dims(s) for s in (limits.min, limits.opt, limits.max)]

    def set_shape_input(self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> None:
        """Set the values of a shape tensor input, such as `reshape_dims` of a Shuffle.

        Raises RuntimeError (AR502, AR503) unless the lengths agree and min <= opt <= max."""
        bounds = [integers(v, f"set_shape_input({input!r})") for v in (min, opt, max)]
        self._values[_name(input)] = _ordered(input, bounds, is_values=True)

    def get_shape_input(self, input: str) -> list[list[int]]:
        """The three lists of values of an input; [] if not set."""
        limits = self._values.get(_name(input))
        return [] if limits is None else [list(v) for v in (limits.min, limits.opt, limits.max)]

    @property
    def extra_memory_target(self) -> float:
        """Kept: the additional memory that the profile may use, 0 to 1; it uses none."""
        return self._extra_memory_target

    @extra_memory_target.setter
    def extra_memory_target(self, target: float) -> None:
        if not isinstance(target, float | int):
            raise wrong_type("extra_memory_target", target, "a float")
        if not 0 <= target <= 1:
            raise WrongValue(ArgumentError("AR304", "extra_memory_target", f"{target}", "0 to 1"))
        self._extra_memory_target = float(target)

    @one_line
    def __repr__(self) -> str:
        ranges = [*self._shapes.values(), *self._values.values()]
        texts = [f"{'values of ' * r.is_values}{quoted(r.tensor)} {range_text(r)}" for r in ranges]
        return f": {listed(texts)}"

    def __bool__(self) -> bool:
        return True  # an invalid profile is rejected when it is set

    def __nonzero__(self) -> bool:
        return bool(self)


def shape_ranges(profile: IOptimizationProfile) -> Mapping[str, Range]:
    """The ranges of shapes by the names of inputs."""
    return profile._shapes


def value_ranges(profile: IOptimizationProfile) -> Mapping[str, Range]:
    """The ranges of values by the names of inputs."""
    return profile._values


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise wrong_type("IOptimizationProfile", name, "the name of an input as str")
    return name


def _ordered(name: str, bounds: list[tuple[int, ...]], is_values: bool) -> Range:
    low, best, high = bounds
    if not len(low) == len(best) == len(high):
        got = f"{len(low)}, {len(best)} and {len(high)} numbers"
        raise Refused(
            ProfileError(
                "AR502",
                f"profile of {name!r}",
                got,
                "equal numbers of dimensions",
                "pass one number per dimension",
            )
        )
    in_order = all(a <= b <= c for a, b, c in zip(low, best, high, strict=True))
    if not in_order or (not is_values and min(low, default=0) < 0):
        got, wanted = (
            f"min {low}, opt {best}, max {high}",
            "min <= opt <= max" + ", 0 <= min" * (not is_values),
        )
        raise Refused(ProfileError("AR503", f"profile of {name!r}", got, wanted))
    return Range(name, is_values, low, best, high)
