"""The record of each kernel of an engine: the layers that it computes, and its tensors.

It is stored with the code in the cache, as text, which is parsed only on request: loading an engine does not
need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from anyrt.core.dims import Dim, Sym
from anyrt.core.dimtext import parse_dim, print_dim
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType
from anyrt.plan.json import Json, Reader, dump, load
from anyrt.plan.plan import read_dtype

MAX_TEXT: Final = 64 << 20
MAX_ITEMS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """A tensor in memory. `layer`: the layer whose result it is, which knows its name; "" for an input or
    output of the network, and for an intermediate value of a layer."""

    name: str
    layer: str
    dtype: DataType
    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """`kind`: its strategy, or that it copies. `tuning`: its sizes of pieces, `tactic` the number of that.
    `layers`: in the order of the graph. `weights`: for each type the number of constant elements that it
    reads."""

    kind: str
    tuning: str
    tactic: int
    layers: tuple[str, ...]
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    weights: tuple[tuple[DataType, int], ...]


def print_records(records: Iterable[KernelRecord]) -> str:
    """The records as text that `parse_records` reads."""
    return dump([_print(r) for r in records]).decode()


def _print(r: KernelRecord) -> Json:
    tensors: list[Json] = [[_print_tensor(t) for t in group] for group in (r.inputs, r.outputs)]
    weights: Json = [[short_name(dtype), count] for dtype, count in r.weights]
    return [r.kind, r.tuning, r.tactic, list(r.layers), *tensors, weights]


def _print_tensor(t: TensorRecord) -> Json:
    return [t.name, t.layer, short_name(t.dtype), [print_dim(d) for d in t.shape]]


def parse_records(text: str, symbols: Mapping[str, Sym], count: int) -> tuple[KernelRecord, ...]:
    """The `count` records that `print_records` wrote; PlanError for anything else."""
    reader = Reader(load(text.encode(), "kernels", MAX_TEXT), "kernels")
    return tuple(_parse(item, symbols) for item in reader.exactly(count))


def _parse(reader: Reader, symbols: Mapping[str, Sym]) -> KernelRecord:
    kind, tuning, tactic, layers, inputs, outputs, weights = reader.exactly(7)
    return KernelRecord(
        kind.text(),
        tuning.text(),
        tactic.integer(),
        tuple(x.text() for x in layers.items(MAX_ITEMS)),
        tuple(_parse_tensor(x, symbols) for x in inputs.items(MAX_ITEMS)),
        tuple(_parse_tensor(x, symbols) for x in outputs.items(MAX_ITEMS)),
        tuple(_parse_weights(x) for x in weights.items(MAX_ITEMS)),
    )


def _parse_tensor(reader: Reader, symbols: Mapping[str, Sym]) -> TensorRecord:
    name, layer, dtype, shape = reader.exactly(4)
    dims = tuple(parse_dim(x.text(), symbols, x.where) for x in shape.items(MAX_ITEMS))
    return TensorRecord(name.text(), layer.text(), read_dtype(dtype), dims)


def _parse_weights(reader: Reader) -> tuple[DataType, int]:
    dtype, count = reader.exactly(2)
    return read_dtype(dtype), count.integer()
