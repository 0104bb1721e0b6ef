"""The content of a plan: records of plain values, with their JSON forms.

A plan is a compiled network without native code: the graph (as text, not parsed here), the places of its
constants, inputs and outputs, the sources of dynamic sizes and the conditions on them, the profiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from anyrt.core.codes import CODES
from anyrt.core.counts import counts, is_open
from anyrt.core.dimlimits import MAX_RANK
from anyrt.core.dims import INF, Dim, Sym
from anyrt.core.dimtext import parse_dim, print_dim
from anyrt.core.dtype import parse as parse_dtype
from anyrt.core.dtype import short_name, storage_bytes
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import DTypeError, PlanError
from anyrt.core.formats import in_memory, misfit
from anyrt.core.requirement import Relation, Requirement
from anyrt.plan.abi import align
from anyrt.plan.json import MAX_INT, Json, Reader
from anyrt.plan.refit import Refit, parse_refit

MAX_BINDINGS: Final = 4096
MAX_SYMBOLS: Final = 65536
MAX_PROFILES: Final = 1024
LENT_BY: Final = "over"  # of a layer, in its details: the input whose memory its output may share
REFIT: Final = "refit"  # the field of plans with refittable weights
MEMORY_OF: Final = "memory of"  # of a layer, in its details: the input whose memory its output shares
STREAMS: Final = "streams"  # the setting of a plan whose weights may be streamed
MAX_RECORDS: Final = 1 << 20  # blobs, requirements, layers, settings

T = TypeVar("T")
_MAX_DIGITS: Final = 18
_RELATIONS: Final = {r.value: r for r in Relation}
_FORMATS: Final = {f.name: f for f in TensorFormat}
_FIELDS: Final = (
    *("name", "graph", "blobs", "symbols", "bindings", "requirements", "profiles"),
    *("settings", "layers", "report", "checksums"),
)


@dataclass(frozen=True, slots=True)
class BlobRecord:
    """A constant: `count` elements at `offset` from the start of the blobs; 4-bit elements share bytes."""

    name: str
    dtype: DataType
    count: int
    offset: int

    @property
    def nbytes(self) -> int:
        """Its size."""
        return storage_bytes(self.dtype, self.count)


def lay_out(blobs: Iterable[tuple[str, DataType, int]]) -> tuple[BlobRecord, ...]:
    """Records of (name, type, number of elements), each at the next multiple of ALIGNMENT."""
    records, offset = [], 0
    for name, dtype, count in blobs:
        records.append(BlobRecord(name, dtype, count, offset))
        offset = align(offset + storage_bytes(dtype, count))
    return tuple(records)


@dataclass(frozen=True, slots=True)
class Binding:
    """An input or output. `is_shape`: its values determine sizes; `is_host`: its memory is the host's.
    `rank`: how many axes an output has, if an inference determines that; the others, at its end, have size
    1."""

    name: str
    is_input: bool
    dtype: DataType
    shape: tuple[Dim, ...]
    is_shape: bool = False
    is_host: bool = False
    format: TensorFormat = TensorFormat.LINEAR
    dim_names: tuple[str, ...] = ()
    rank: Dim | None = None

    @property
    def is_data_dependent(self) -> bool:
        """Whether an inference determines its shape."""
        return self.rank is not None or any(map(counts, self.shape))

    @property
    def memory(self) -> tuple[Dim, ...]:
        """The sizes of the row-major array that is its memory in its format."""
        return in_memory(self.format, self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class SymbolRecord:
    """A dynamic size: dimension `axis` of the input `tensor`, or (`is_value`) its element `axis`. A
    data-dependent size is the number in an output, at most `most`."""

    name: str
    tensor: str
    axis: int
    is_value: bool
    lo: int
    hi: int
    most: Dim | None = None

    @property
    def sym(self) -> Sym:
        """The symbol of the size."""
        return Sym(self.name, self.lo, self.hi, most=self.most)

    @staticmethod
    def of(sym: Sym, tensor: str, axis: int, is_value: bool) -> SymbolRecord:
        """A symbol with the source of its value."""
        return SymbolRecord(sym.name, tensor, axis, is_value, sym.lo, sym.hi, sym.most)


@dataclass(frozen=True, slots=True)
class Range:
    """A profile's limits for one input: for its dimensions, or (`is_values`) for its elements."""

    tensor: str
    is_values: bool
    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """The inspector's record of a layer; `details` are pairs in the order of display."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about an engine except its constants' values and its native code.

    `bindings`: inputs, then outputs. `settings`: (key, value) pairs that the compiler needs when it compiles
    on load. `report`: the build report. `refit`: see `plan/refit.py`, None if no weights may change.
    """

    name: str
    graph_text: str
    blobs: tuple[BlobRecord, ...] = ()
    bindings: tuple[Binding, ...] = ()
    symbols: tuple[SymbolRecord, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    profiles: tuple[tuple[Range, ...], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    layers: tuple[LayerRecord, ...] = ()
    report: str = ""
    refit: Refit | None = None

    @property
    def blob_bytes(self) -> int:
        """The size of all constants in memory, with the gaps between them."""
        return _end(self.blobs)

    @property
    def held(self) -> tuple[BlobRecord, ...]:
        """The constants in the file, with their places there: all except those that it was stripped of."""
        if self.refit is None or not self.refit.is_stripped:
            return self.blobs
        derived = set(self.refit.derived)
        return lay_out((b.name, b.dtype, b.count) for b in self.blobs if b.name not in derived)

    @property
    def held_bytes(self) -> int:
        """The size of these."""
        return _end(self.held)

    @property
    def sym_by_name(self) -> dict[str, Sym]:
        """The symbols of sizes, for reading a program."""
        return {s.name: s.sym for s in self.symbols}

    @property
    def sources(self) -> dict[int, int]:
        """The inputs that outputs update in place, as indices of bindings."""
        return self._inputs_of(MEMORY_OF)

    @property
    def lenders(self) -> dict[int, int]:
        """The inputs whose memory plug-ins may overwrite with outputs, as indices of bindings."""
        return self._inputs_of(LENT_BY)

    def _inputs_of(self, detail: str) -> dict[int, int]:
        place = {b.name: i for i, b in enumerate(self.bindings)}
        details = ((layer.outputs, x) for layer in self.layers for key, x in layer.details if key == detail)
        sources = {place[y]: place[x] for ys, x in details for y in ys if x in place and y in place}
        return {y: x for y, x in sources.items() if _is_update(self.bindings[y], self.bindings[x])}

    @property
    def streams(self) -> bool:
        """Whether its weights may be read step by step, see runtime/stream.py."""
        return STREAMS in dict(self.settings)

    def number(self, setting: str) -> int | None:
        """A numeric setting; None if it is missing."""
        text = dict(self.settings).get(setting)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
            raise PlanError("AR605", f"settings, {setting}", got=repr(text[:40]), wanted="a number")
        return int(text)

    def as_json(self) -> dict[str, Json]:
        """Plain values that `parse_plan` reads."""
        return {
            "name": self.name,
            "graph": self.graph_text,
            "blobs": [[b.name, short_name(b.dtype), b.count] for b in self.blobs],
            "symbols": [_print_symbol(s) for s in self.symbols],
            "bindings": [_print_binding(b) for b in self.bindings],
            "requirements": [
                [print_dim(r.left), r.relation.value, print_dim(r.right), r.code, r.where, r.do]
                for r in self.requirements
            ],
            "profiles": [[_print_range(r) for r in profile] for profile in self.profiles],
            "settings": [[key, value] for key, value in self.settings],
            "layers": [
                [x.name, x.kind, list(x.inputs), list(x.outputs), [list(d) for d in x.details]]
                for x in self.layers
            ],
            "report": self.report,
            **({} if self.refit is None else {REFIT: self.refit.as_json()}),
        }


def stripped(plan: Plan, is_stripped: bool) -> Plan:
    """The plan stripped of constants made from weights, or with them; the same plan if it is not
    refittable."""
    return plan if plan.refit is None else replace(plan, refit=replace(plan.refit, is_stripped=is_stripped))


def _end(blobs: tuple[BlobRecord, ...]) -> int:
    return blobs[-1].offset + blobs[-1].nbytes if blobs else 0


def _is_update(output: Binding, source: Binding) -> bool:
    same = (output.dtype, output.shape, output.format) == (source.dtype, source.shape, source.format)
    return same and source.is_input and not output.is_input


def _print_symbol(s: SymbolRecord) -> Json:
    upper: list[Json] = [] if s.most is None else [print_dim(s.most)]
    return [s.name, s.tensor, s.axis, s.is_value, s.lo, s.hi, *upper]


def _print_binding(b: Binding) -> Json:
    shape: list[Json] = [print_dim(d) for d in b.shape]
    flags: list[Json] = [b.is_input, b.is_shape, b.is_host]
    rank: list[Json] = [] if b.rank is None else [print_dim(b.rank)]
    return [b.name, short_name(b.dtype), shape, *flags, b.format.name, list(b.dim_names), *rank]


def _print_range(r: Range) -> Json:
    return [r.tensor, r.is_values, list(r.min), list(r.opt), list(r.max)]


def parse_plan(header: Reader) -> Plan:
    """The plan that `as_json` wrote, each value checked; PlanError names the field."""
    more = (REFIT,) if isinstance(header.value, dict) and REFIT in header.value else ()
    name, graph, blobs, symbols, bindings, requirements, profiles, *rest = header.fields(*_FIELDS, *more)
    settings, layers, report, _, *refit = rest
    records = _parse_symbols(symbols)
    known = {s.name: s.sym for s in records}
    tensors = _list(bindings, MAX_BINDINGS, lambda r: _parse_binding(r, known))
    _distinct(bindings, [b.name for b in tensors])
    _check_inputs(bindings, tensors)
    inputs = {b.name: b for b in tensors if b.is_input}
    outputs = {b.name: b for b in tensors if not b.is_input}
    for record, place in zip(records, symbols.items(MAX_SYMBOLS), strict=True):
        if record.most is None:
            _check_symbol(record, inputs, place)
        else:
            _check_count(record, outputs, place)
    constants = lay_out(_list(blobs, MAX_RECORDS, _parse_blob))
    _distinct(blobs, [b.name for b in constants])
    return Plan(
        name=name.text(),
        graph_text=graph.text(),
        blobs=constants,
        bindings=tensors,
        symbols=records,
        requirements=_list(requirements, MAX_RECORDS, lambda r: _parse_requirement(r, known)),
        profiles=_list(profiles, MAX_PROFILES, lambda r: _parse_profile(r, inputs)),
        settings=settings.pairs(MAX_RECORDS),
        layers=_list(layers, MAX_RECORDS, _parse_layer),
        report=report.text(),
        refit=parse_refit(refit[0], frozenset(b.name for b in constants)) if refit else None,
    )


def _list(reader: Reader, most: int, parse: Callable[[Reader], T]) -> tuple[T, ...]:
    return tuple(parse(item) for item in reader.items(most))


def _distinct(reader: Reader, names: list[str]) -> None:
    if len(set(names)) != len(names):
        ((twin, _),) = Counter(names).most_common(1)
        raise reader.error(f"{twin!r} twice", "different names")


def read_dtype(reader: Reader) -> DataType:
    """An element type by its short name."""
    try:
        return parse_dtype(reader.text())
    except DTypeError as error:
        raise reader.error(error.got, error.wanted) from None


def _parse_blob(reader: Reader) -> tuple[str, DataType, int]:
    name, dtype, count = reader.exactly(3)
    return name.text(), read_dtype(dtype), count.integer()


def _parse_symbols(reader: Reader) -> tuple[SymbolRecord, ...]:
    """Upper bounds refer to symbols before them."""
    records: dict[str, SymbolRecord] = {}
    known: dict[str, Sym] = {}
    for item in reader.items(MAX_SYMBOLS):
        record = _parse_symbol(item, known)
        _distinct(reader, [*records, record.name])
        records[record.name], known[record.name] = record, record.sym
    return tuple(records.values())


def _parse_symbol(reader: Reader, known: Mapping[str, Sym]) -> SymbolRecord:
    members = reader.items(7)
    name, tensor, axis, is_value, low, high = members[:6] if len(members) == 7 else reader.exactly(6)
    upper = members[6:]
    lo = low.integer(-MAX_INT)
    bound = parse_dim(upper[0].text(), known, upper[0].where) if upper else None
    kind = is_value.flag()
    return SymbolRecord(
        name.name(), tensor.name(), axis.integer(), kind, lo, high.integer(lo, MAX_INT), bound
    )


def _parse_binding(reader: Reader, known: Mapping[str, Sym]) -> Binding:
    members = reader.items(9)
    *rest, dim_names = members[:8] if len(members) == 9 else reader.exactly(8)
    name, dtype, shape, is_input, is_shape, is_host, layout = rest
    rank = members[8:]
    dims = _list(shape, MAX_RANK, lambda r: parse_dim(r.text(), known, r.where))
    if layout.text() not in _FORMATS:
        raise layout.error(repr(layout.text()[:40]), "a tensor format")
    kind, format = read_dtype(dtype), _FORMATS[layout.text()]
    if wanted := misfit(format, kind, dims):
        raise layout.error(f"{format.name} of {short_name(kind)}, shape {dims}", wanted)
    return Binding(
        name=name.name(),
        is_input=is_input.flag(),
        dtype=kind,
        shape=dims,
        is_shape=is_shape.flag(),
        is_host=is_host.flag(),
        format=format,
        dim_names=_list(dim_names, MAX_RANK, lambda r: r.text(4095)),
        rank=parse_dim(rank[0].text(), known, rank[0].where) if rank else None,
    )


def _check_inputs(reader: Reader, tensors: tuple[Binding, ...]) -> None:
    roles = [b.is_input for b in tensors]
    if roles != sorted(roles, reverse=True):
        raise reader.error("an output before an input", "inputs, then outputs")
    for binding, place in zip(tensors, reader.items(MAX_BINDINGS), strict=True):
        if binding.dim_names and len(binding.dim_names) != len(binding.shape):
            raise place.error(
                f"{len(binding.dim_names)} names of dimensions", f"none or {len(binding.shape)}"
            )
        if binding.is_input and not all(_is_plain(d) for d in binding.shape):
            raise place.error("a computed size", "numbers and symbols in the shape of an input")


def _is_plain(dim: Dim) -> bool:
    return dim >= 0 if isinstance(dim, int) else symbol_of(dim) is not None


def symbol_of(dim: Dim) -> Sym | None:
    """The symbol that `dim` is, None when it is a number or computed."""
    if isinstance(dim, int) or len(dim.terms) != 1:
        return None
    ((monomial, coefficient),) = dim.terms
    alone = coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Sym)
    return monomial[0] if alone and isinstance(monomial[0], Sym) else None


def _check_symbol(record: SymbolRecord, inputs: Mapping[str, Binding], place: Reader) -> None:
    binding = inputs.get(record.tensor)
    if binding is None:
        raise place.error(f"the tensor {record.tensor!r}", "an input")
    if record.is_value:
        size = binding.shape[0] if binding.shape else 1
        if not binding.is_shape or len(binding.shape) > 1 or not isinstance(size, int) or record.axis >= size:
            raise place.error(f"element {record.axis} of {record.tensor!r}", "an element of a shape tensor")
    elif record.axis >= len(binding.shape) or binding.shape[record.axis] != record.sym.dim:
        raise place.error(f"axis {record.axis} of {record.tensor!r}", f"an axis of size {record.name}")


def _check_count(record: SymbolRecord, outputs: Mapping[str, Binding], place: Reader) -> None:
    """A data-dependent size is a number in an output."""
    binding = outputs.get(record.tensor)
    if binding is None or binding.shape or binding.dtype is not DataType.INT64 or not record.is_value:
        raise place.error(f"the tensor {record.tensor!r}", "an output that is an int64")
    least = -INF if is_open(record.sym) else 0
    if record.axis or record.lo != least:
        raise place.error(f"element {record.axis} from {record.lo} on", f"element 0 from {least} on")


def _parse_requirement(reader: Reader, known: Mapping[str, Sym]) -> Requirement:
    left, relation, right, code, where, do = reader.exactly(6)
    if relation.text() not in _RELATIONS:
        raise relation.error(repr(relation.text()[:40]), f"one of {', '.join(_RELATIONS)}")
    if code.text() not in CODES:
        raise code.error(repr(code.text()[:40]), "a code of the table")
    return Requirement(
        parse_dim(left.text(), known, left.where),
        _RELATIONS[relation.text()],
        parse_dim(right.text(), known, right.where),
        code.text(),
        where.text(),
        do.text(),
    )


def _parse_profile(reader: Reader, inputs: Mapping[str, Binding]) -> tuple[Range, ...]:
    ranges = _list(reader, 2 * MAX_BINDINGS, lambda r: _parse_range(r, inputs))
    _distinct(reader, [f"{r.tensor} {r.is_values}" for r in ranges])
    return ranges


def _parse_range(reader: Reader, inputs: Mapping[str, Binding]) -> Range:
    tensor, is_values, *limits = reader.exactly(5)
    binding, by_value = inputs.get(tensor.name()), is_values.flag()
    if binding is None:
        raise tensor.error(repr(tensor.name()), "an input")
    if by_value:
        size = binding.shape[0] if binding.shape else 1
        count, lowest = (size if isinstance(size, int) else 0), -MAX_INT
    else:
        count, lowest = len(binding.shape), 0
    low, opt, high = (_integers(x, count, lowest) for x in limits)
    if not all(a <= b <= c for a, b, c in zip(low, opt, high, strict=True)):
        raise reader.error(f"{low}, {opt}, {high}", "minimum <= optimum <= maximum")
    return Range(tensor.name(), by_value, low, opt, high)


def _integers(reader: Reader, count: int, lowest: int) -> tuple[int, ...]:
    return tuple(x.integer(lowest) for x in reader.exactly(count))


def _parse_layer(reader: Reader) -> LayerRecord:
    name, kind, inputs, outputs, details = reader.exactly(5)
    return LayerRecord(
        name.text(),
        kind.text(),
        inputs.texts(MAX_RECORDS),
        outputs.texts(MAX_RECORDS),
        details.pairs(MAX_RECORDS),
    )
