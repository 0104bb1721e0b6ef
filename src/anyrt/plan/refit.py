"""The refit part of a plan: the names of refittable weights, and the constants that depend on them.

A refit computes the graph `graph_text`: its inputs are weights, `w0` and so on in their order, and values
computed before; its outputs are computed in their order, and those that are constants of the plan replace
these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anyrt.core.dtype import parse as parse_dtype
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType
from anyrt.core.errors import DTypeError
from anyrt.plan.json import Json, Reader

MAX_WEIGHTS: Final = 1 << 20
RANGE: Final = "RANGE"  # the role of the scale of an int8 tensor, which is no weights


@dataclass(frozen=True, slots=True)
class WeightsRecord:
    """Weights of a network. `user_name`: the name that the user set, "" for none; `places`: the layers that
    have them, each with their role; for a range, the tensor that has it."""

    user_name: str
    dtype: DataType
    count: int
    places: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The name that the user set, otherwise their layer and role, as in "conv1 KERNEL"; "" for a
        range."""
        return "" if self.range_of is not None else self.title

    @property
    def range_of(self) -> str | None:
        """The tensor whose range it is, None for weights."""
        return next((tensor for tensor, role in self.places if role == RANGE), None)

    @property
    def title(self) -> str:
        """Their name in messages."""
        return self.user_name or " ".join(self.places[0] if self.places else ("weights",))


@dataclass(frozen=True, slots=True)
class Refit:
    """`derived`: the constants that depend on weights, by name. `is_free`: weights may change; otherwise they
    must be those of the build. `is_stripped`: these constants are not in the plan."""

    weights: tuple[WeightsRecord, ...]
    graph_text: str
    derived: tuple[str, ...]
    is_free: bool = True
    is_stripped: bool = False

    def as_json(self) -> Json:
        """Plain values that `parse_refit` reads."""
        weights: list[Json] = [
            [w.user_name, short_name(w.dtype), w.count, [list(p) for p in w.places]] for w in self.weights
        ]
        return [weights, self.graph_text, list(self.derived), self.is_free, self.is_stripped]


def parse_refit(reader: Reader, blobs: frozenset[str]) -> Refit:
    """The record that `as_json` wrote, of a plan with constants of these names."""
    weights, graph, derived, is_free, is_stripped = reader.exactly(5)
    names = derived.texts(MAX_WEIGHTS)
    if unknown := set(names) - blobs:
        raise derived.error(repr(min(unknown)[:40]), "the name of a constant")
    records = tuple(_parse_weights(item) for item in weights.items(MAX_WEIGHTS))
    return Refit(records, graph.text(), names, is_free.flag(), is_stripped.flag())


def _parse_weights(reader: Reader) -> WeightsRecord:
    name, dtype, count, places = reader.exactly(4)
    try:
        kind = parse_dtype(dtype.text())
    except DTypeError as error:
        raise dtype.error(error.got, error.wanted) from None
    return WeightsRecord(name.text(), kind, count.integer(), places.pairs(MAX_WEIGHTS))


def input_name(index: int) -> str:
    """The name of weights number `index` in the graph of a refit."""
    return f"w{index}"
