"""The computation of an engine's constants from weights, read from its plan and executed.

    recipe = read_recipe(plan, held)              # held(record): the elements that are there now
    changed = recipe.make({0: array}, (), held)    # weights by their number in `plan.refit.weights`

Constants that are only moved, such as packed weights, are views of the new weights: they are copied once, to
the memory that kernels read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.dtype import is_float, numpy_dtype, short_name
from anyrt.core.errors import PlanError, RefitError
from anyrt.ir.graph import Type, Value, walk
from anyrt.ir.prim import Array
from anyrt.ir.text import parse_graph
from anyrt.plan.plan import BlobRecord, Plan
from anyrt.plan.refit import Refit, input_name
from anyrt.prims.closed import evaluate, rounded
from anyrt.prims.const import Blob, Param
from anyrt.prims.table import vocabulary

Held = Callable[[BlobRecord], Array]
Changed = list[tuple[BlobRecord, Array]]
SHOWN: Final = 5  # names in a message


@dataclass(frozen=True, slots=True)
class Step:
    """One array to compute. `reads`: the inputs of `value` by name; `weights`: the numbers of all weights
    that it depends on; `record`: the constant that it is, None for an intermediate value."""

    name: str
    value: Value
    reads: Mapping[str, Value]
    weights: frozenset[int]
    record: BlobRecord | None

    @property
    def plain(self) -> int | None:
        """The number of the weights, if the constant is weights unchanged."""
        return next(iter(self.weights)) if isinstance(self.value.op, Param) else None


@dataclass(frozen=True, slots=True)
class Recipe:
    """The computations of an engine's constants, in order of dependence."""

    refit: Refit
    steps: tuple[Step, ...]

    @property
    def used(self) -> frozenset[int]:
        """The weights that some constant depends on."""
        return frozenset[int]().union(*(s.weights for s in self.steps))

    def range_now(self, number: int, held: Held) -> Array:
        """The scale of an int8 tensor in the engine."""
        return next(held(s.record) for s in self.steps if s.record and s.plain == number)

    def touched(self, numbers: Iterable[int], lacks: Iterable[str]) -> list[Step]:
        """The constants that change with these weights, or that are missing."""
        weights, names = set(numbers), set(lacks)
        return [s for s in self.steps if s.record and (s.name in names or not weights.isdisjoint(s.weights))]

    def missing(self, numbers: Iterable[int], lacks: Iterable[str]) -> list[int]:
        """The additional weights that must be passed with these: changed constants depend on them, and the
        engine does not hold them unchanged."""
        weights, names = set(numbers), set(lacks)
        held = {s.plain for s in self.steps if s.record and s.name not in names}
        needed = {w for s in self.touched(weights, names) for w in s.weights}
        return sorted(needed - weights - held)

    def make(
        self, exchanged: Mapping[int, Array], lacks: Iterable[str], held: Held, *, validate: bool = True
    ) -> Changed:
        """The constants that change, each with its elements, possibly strided. Raises RefitError AR844 for
        missing weights, and with `validate` AR843 for numbers that become infinite."""
        if missing := self.missing(exchanged, lacks):
            titles = [self.refit.weights[k].title for k in missing]
            some = ", ".join(map(repr, titles[:SHOWN]))
            more = f" and {len(titles) - SHOWN} more" if len(titles) > SHOWN else ""
            raise RefitError("AR844", "refit", f"no weights for {some}{more}", "all that belong together")
        touched = {s.name for s in self.touched(exchanged, lacks)}
        arrays, changed = self._known(exchanged, set(lacks), held), Changed()
        for step in self.steps:
            if step.reads.keys() <= arrays.keys() and (step.record is None or step.name in touched):
                array = evaluate(step.value, {v: arrays[name] for name, v in step.reads.items()})
                arrays[step.name] = self._rounded(step, array, exchanged if validate else None)
                changed += [(step.record, arrays[step.name])] if step.record is not None else []
        return changed

    def _known(self, exchanged: Mapping[int, Array], lacks: set[str], held: Held) -> dict[str, Array]:
        """All weights by name: the new ones, and those that the engine holds unchanged."""
        known = dict(exchanged)
        for step in self.steps:
            number, record = step.plain, None if step.name in lacks else step.record
            if record is not None and number is not None and number not in known:
                known[number] = held(record)
        return {input_name(k): array for k, array in known.items()}

    def _rounded(self, step: Step, array: Array, exchanged: Mapping[int, Array] | None) -> Array:
        """A result in the form of a constant; `exchanged`: if these weights are finite, it must be finite."""
        dtype = step.value.dtype
        if array.dtype == numpy_dtype(dtype):
            return array
        flat = rounded(array, dtype)
        if exchanged is None or not is_float(dtype) or _is_finite(flat):
            return flat
        if all(_is_finite(exchanged[k]) for k in step.weights if k in exchanged):
            got = f"numbers that become infinite as {short_name(dtype)}"
            raise RefitError("AR843", self._titles(step), got, "smaller ones")
        return flat

    def other(self, names: Iterable[str]) -> RefitError:
        """The error for constants of these names, which differ from those of the build."""
        of = next(s for s in self.steps if s.name in names)
        return RefitError("AR845", self._titles(of), "other numbers than those of the build", "the same")

    def _titles(self, step: Step) -> str:
        return ", ".join(self.refit.weights[k].title for k in sorted(step.weights))


def read_recipe(plan: Plan, held: Held) -> Recipe:
    """The computations for a plan; RefitError AR841 if it was not built for refits. `held`: the current
    elements of a constant."""
    if plan.refit is None:
        raise RefitError("AR841", f"engine {plan.name!r}", "weights that are built in", "weights to exchange")
    derived, text = set(plan.refit.derived), plan.refit.graph_text
    # Copies, since refits free the previous memory.
    numbers = [b for b in plan.blobs if b.name not in derived and b.name in text]
    blobs = {b.name: Blob(held(b).copy(), b.dtype, b.name) for b in numbers}
    types = {input_name(k): Type((w.count,), w.dtype) for k, w in enumerate(plan.refit.weights)}
    known = {input_name(k): frozenset((k,)) for k in range(len(plan.refit.weights))}
    records, steps = {b.name: b for b in plan.blobs if b.name in derived}, list[Step]()
    for name, value in parse_graph(text, vocabulary(blobs), "plan").outputs if text else ():
        reads = {v.op.name: v for v in walk([value]) if isinstance(v.op, Param)}
        fits = name not in derived or _is(records[name], value)
        if not fits or not all(types.get(read) == v.type for read, v in reads.items()):
            raise PlanError("AR607", f"refit of {name!r}", f"{value.type} of {', '.join(reads)}", "what fits")
        known[name] = frozenset[int]().union(*(known[read] for read in reads))
        types[name] = Type((_count(value),), value.dtype)
        steps.append(Step(name, value, reads, known[name], records.get(name)))
    if missing := derived - {s.name for s in steps}:
        raise PlanError("AR607", "refit", f"nothing for {min(missing)!r}", "every constant of weights")
    return Recipe(plan.refit, tuple(steps))


def _is(record: BlobRecord, value: Value) -> bool:
    return value.dtype is record.dtype and _count(value) == record.count


def _count(value: Value) -> int:
    """Number of elements; −1 if a size is symbolic, which no constant's is."""
    sizes = [d for d in value.shape if isinstance(d, int)]
    return int(np.prod(sizes, dtype=object)) if len(sizes) == value.type.rank else -1


def _is_finite(array: Array) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isfinite(array if array.dtype.kind in "fiub" else array.astype(np.float32)).all())
