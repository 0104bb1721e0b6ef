"""Graphs as text: printed for users and plans, parsed back to the same interned nodes.

    symbol n 1..64
    v0: FLOAT[n, 8] = Param(name="x", type=FLOAT[n, 8], dynamic_values=())()
    v1: FLOAT[n, 1] = Reduce(fn="sum", axes=(1))(v0) "sum of rows"
    input "x" v0
    output "y" v1
    output "z" v0 "identity"
    follow n "x" 0

A node with several results is one line, `v3: FLOAT[2], INT32[2] = …`, and its results are `v3.0` and `v3.1`.
An output whose layer has another name than its value has that name behind it. `update "y" "x"` states that
the output y shares the memory of the input x. Regions stand before the statement that names them; each counts
its values from v0:

    region r0 {
      v0: FLOAT[n, 8] = Param(name="a", type=FLOAT[n, 8], dynamic_values=())()
      input "a" v0
      output "b" v0
    }
    v2: FLOAT[n, 8] = Chosen(then=r0, otherwise=r1)(v1, v0)

Regions are not nested in the text, so neither printing nor reading recurses. The attributes of a primitive
are parsed by the types of its fields, so that manipulated text cannot create a primitive of the wrong form;
`infer` and the verifier check the rest. Constants are written as `@"name"`.
"""

from __future__ import annotations

import enum
import json
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from itertools import chain
from typing import Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from anyrt.core.counts import named
from anyrt.core.dims import INF, Expr, Sym, symbols
from anyrt.core.dimtext import Reader, print_dim, print_name
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError, PlanError
from anyrt.ir.graph import MAX_REGIONS, Graph, Node, Symbol, Type, Value, apply_all, walk
from anyrt.ir.prim import Prim
from anyrt.ir.verify import graph_faults

Hints: TypeAlias = Mapping[str, Sequence[tuple[str, object]]]  # the declared types of a class's fields

MAX_TEXT: Final = 1 << 24
MAX_VOLUME_TERMS: Final = 4096  # sizes with more terms than any network has make products explode


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The vocabulary of a text: primitives and the dataclasses in their attributes, the primitive of inputs,
    and named objects that are not printed (constants' elements)."""

    classes: Mapping[str, type]
    param: type[Prim]
    blobs: Mapping[str, object]


def print_graph(graph: Graph, words: Vocabulary) -> str:
    """`graph` as text; every blob in it has a name in `words`."""
    show = _Printer(words)
    lines = show.statements(graph)
    regions = [show.region(name, inner) for name, inner in show.regions]  # which grows while they are printed
    sizes = [f"symbol {size_text(s)}" for s in in_order(show.sizes)]
    return "\n".join([*sizes, *chain.from_iterable(reversed(regions)), *lines]) + "\n"


def _named(node: Node, name: str) -> Iterator[tuple[Value, str]]:
    """All results of a node, with their names."""
    for k in range(len(node.types)):
        yield Value(node, k), name if len(node.types) == 1 else f"{name}.{k}"


def symbol_text(s: Sym) -> str:
    """A symbol's name and range."""
    return f"{print_name(s.name)} {s.lo}..{'' if s.hi == INF else s.hi}"


def size_text(s: Sym) -> str:
    """The same of a size; a data-dependent one has an upper bound."""
    return symbol_text(s) if s.most is None else f"{symbol_text(s)} most {print_dim(s.most)}"


def in_order(sizes: Iterable[Sym]) -> list[Sym]:
    """Sizes, after those in their upper bounds."""
    depths = {s: -1 if s.most is None else len(named(s.most)) for size in sizes for s in named(size)}
    return sorted(depths, key=lambda s: (depths[s], s.name))


class _Printer:
    """Text of nodes and their attributes; collects the symbols and regions that it meets."""

    def __init__(self, words: Vocabulary) -> None:
        self.names = {id(blob): name for name, blob in words.blobs.items()}
        self.classes = frozenset(words.classes.values())
        self.sizes: set[Sym] = set()
        self.regions: list[tuple[str, Graph]] = []

    def region(self, name: str, graph: Graph) -> list[str]:
        """A region under its name."""
        return [f"region {name} {{", *(f"  {line}" for line in self.statements(graph)), "}"]

    def statements(self, graph: Graph) -> list[str]:
        """All but the symbols."""
        nodes = dict.fromkeys(v.node for v in walk(v for _, v in (*graph.inputs, *graph.outputs)))
        names = {v: name for k, node in enumerate(nodes) for v, name in _named(node, f"v{k}")}
        lines = [self.node(f"v{k}", node, names, graph.names) for k, node in enumerate(nodes)]
        lines += [f"input {json.dumps(name)} {names[v]}" for name, v in graph.inputs]
        for output, v in graph.outputs:
            maker = f" {json.dumps(graph.makers[output])}" if output in graph.makers else ""
            lines.append(f"output {json.dumps(output)} {names[v]}{maker}")
        self.sizes |= {s.sym for s in graph.symbols}
        for s in graph.symbols:
            kind = "follow value" if s.is_value else "follow"
            lines.append(f"{kind} {print_name(s.sym.name)} {json.dumps(s.tensor)} {s.axis}")
        lines += [f"update {json.dumps(output)} {json.dumps(source)}" for output, source in graph.updates]
        return lines

    def node(self, name: str, node: Node, names: Mapping[Value, str], labels: Mapping[Value, str]) -> str:
        types, args = ", ".join(map(self.attribute, node.types)), ", ".join(names[a] for a in node.args)
        line = f"{name}: {types} = {self.attribute(node.op)}({args})"
        results = [v for v, _ in _named(node, name)]
        if labels.keys().isdisjoint(results):
            return line
        return f"{line} {', '.join(json.dumps(labels[v]) if v in labels else 'None' for v in results)}"

    def attribute(self, x: object) -> str:
        match x:
            case None | bool():
                return str(x)
            case enum.Enum():
                return x.name
            case int() | Expr():
                self.sizes |= symbols(x)
                return print_dim(x)
            case float():
                return float.__repr__(x)
            case str():
                return json.dumps(x)
            case tuple():
                return f"({', '.join(map(self.attribute, x))})"
            case Sym():
                self.sizes.add(x)
                return print_name(x.name)
            case Type():
                return f"{x.dtype.name}[{', '.join(map(self.attribute, x.shape))}]"
            case Graph():
                self.regions.append((f"r{len(self.regions)}", x))
                return self.regions[-1][0]
        return self.structure(x)

    def structure(self, x: object) -> str:
        """A dataclass of the vocabulary, or the name of a blob."""
        if type(x) in self.classes and is_dataclass(x):
            values = [(f, getattr(x, f.name)) for f in fields(x) if f.init]
            while values and values[-1][1] == values[-1][0].default:  # as declared
                values.pop()
            parts = (f"{f.name}={self.attribute(value)}" for f, value in values)
            return f"{type(x).__name__}({', '.join(parts)})"
        assert id(x) in self.names, f"{type(x).__name__} is neither in the vocabulary nor a named blob"
        return f"@{json.dumps(self.names[id(x)])}"


def parse_graph(text: str, words: Vocabulary, where: str = "graph") -> Graph:
    """The graph that `print_graph` printed; PlanError at `where` for anything else."""
    if len(text) > MAX_TEXT:
        raise PlanError("AR605", where, got=f"{len(text)} characters", wanted=f"at most {MAX_TEXT}")
    sizes: dict[str, Sym] = {}
    hints = {name: _hints(kind) for name, kind in words.classes.items()}
    parser = _Parser(words, hints, sizes, Reader(text, sizes, where), {})
    while parser.reader.next:
        parser.statement()
    graph = parser.graph()
    fault = next(graph_faults(graph, words.param), None)
    if fault is not None:
        raise PlanError("AR607", where, got=fault)
    return graph


def read_symbol(reader: Reader) -> Sym:
    """The symbol that `symbol_text` printed."""
    place, name, lo = reader.place, reader.name(), reader.integer()
    reader.expect("..")
    hi = reader.integer() if reader.next.isdecimal() else INF
    if not -INF <= lo <= hi <= INF:
        raise PlanError("AR605", place, got=f"the range {lo}..{hi} of {name!r}", wanted="low <= high")
    return Sym(name, lo, hi, most=reader.dim() if reader.skip("most") else None)


class _Parser:
    """A graph that grows statement by statement."""

    def __init__(
        self,
        words: Vocabulary,
        hints: Hints,
        sizes: dict[str, Sym],
        reader: Reader,
        regions: dict[str, tuple[Graph, int]],
    ) -> None:
        self.words = words
        self.hints = hints
        self.sizes = sizes
        self.reader = reader
        self.regions = regions  # that no statement names yet, with their nesting depth
        self.is_region = False
        self.depth = 0
        self.values: dict[str, Value] = {}
        self.names: dict[Value, str] = {}
        self.inputs: list[tuple[str, Value]] = []
        self.outputs: list[tuple[str, Value]] = []
        self.follows: list[Symbol] = []
        self.makers: dict[str, str] = {}
        self.updates: list[tuple[str, str]] = []

    def graph(self) -> Graph:
        return Graph(
            tuple(self.inputs),
            tuple(self.outputs),
            self.names,
            tuple(self.follows),
            self.makers,
            tuple(self.updates),
        )

    def region(self) -> None:
        """A graph in braces: it has its own values, and the sizes of the whole text."""
        place, name = self.reader.place, self.reader.word()
        if self.is_region or name in self.regions:
            got = f"region {name} inside another one" if self.is_region else f"a second region {name}"
            raise PlanError("AR605", place, got=got, wanted="regions of different names side by side")
        inner = _Parser(self.words, self.hints, self.sizes, self.reader, self.regions)
        inner.is_region = True
        self.reader.expect("{")
        while not self.reader.skip("}"):
            inner.statement()
        if inner.depth >= MAX_REGIONS:
            got = f"more than {MAX_REGIONS} regions inside one another"
            raise PlanError("AR605", place, got=got, wanted="less")
        self.regions[name] = inner.graph(), inner.depth + 1

    def held(self) -> Graph:
        """A region above, which only one attribute may use: repeated use would let the graph grow without
        limit."""
        place, name = self.reader.place, self.reader.word()
        if name not in self.regions:
            raise PlanError("AR607", place, got=repr(name), wanted="a region above that nothing else holds")
        graph, depth = self.regions.pop(name)
        self.depth = max(self.depth, depth)
        return graph

    def statement(self) -> None:
        place, word = self.reader.place, self.reader.word()
        if word in STATEMENTS and not self.reader.follows(":"):
            STATEMENTS[word](self)
        else:
            self.node(word, place)

    def symbol(self) -> None:
        place, sym = self.reader.place, read_symbol(self.reader)
        if sym.name in self.sizes:
            raise PlanError("AR605", place, got=f"a second symbol {sym.name!r}", wanted="one of a name")
        self.sizes[sym.name] = sym

    def input(self) -> None:
        self.inputs.append((self.reader.string(), self.value()))

    def output(self) -> None:
        name, value = self.reader.string(), self.value()
        self.outputs.append((name, value))
        if self.reader.next.startswith('"'):
            self.makers[name] = self.reader.string()

    def follow(self) -> None:
        is_value = self.reader.skip("value")
        sym = self.size()
        self.follows.append(Symbol(sym, self.reader.string(), self.reader.integer(), is_value))

    def update(self) -> None:
        self.updates.append((self.reader.string(), self.reader.string()))

    def size(self) -> Sym:
        place, name = self.reader.place, self.reader.name()
        if name not in self.sizes:
            raise PlanError("AR605", place, got=repr(name), wanted="a known symbol")
        return self.sizes[name]

    def value(self) -> Value:
        place, word = self.reader.place, self.reader.word()
        if word not in self.values:
            raise PlanError("AR607", place, got=repr(word), wanted="a value defined above")
        return self.values[word]

    def node(self, word: str, place: str) -> None:
        self.reader.expect(":")
        declared = [self.value_type()]
        while self.reader.skip(","):
            declared.append(self.value_type())
        self.reader.expect("=")
        op = self.structure(Prim)
        args: list[Value] = []
        self.reader.items("(", lambda: args.append(self.value()), ")")
        assert isinstance(op, Prim), f"{op} was read as a primitive"
        try:
            results = apply_all(op, *args)
        except AnyrtError as error:
            raise PlanError("AR607", place, got=str(error)) from None
        node = results[0].node
        if node.types != tuple(declared):
            got, wanted = (", ".join(map(repr, types)) for types in (declared, node.types))
            raise PlanError("AR607", place, got=f"type {got}", wanted=wanted)
        for value, name in _named(node, word):
            if name in self.values:
                raise PlanError("AR607", place, got=f"a second {name}", wanted="every value once")
            self.values[name] = value
        if self.reader.next.startswith('"') or (len(results) > 1 and self.reader.follows("None")):
            self.result_names(results)

    def result_names(self, results: Sequence[Value]) -> None:
        """The names of results in messages; None for one without a name."""
        for k, value in enumerate(results):
            if k:
                self.reader.expect(",")
            if not self.reader.skip("None"):
                self.names[value] = self.reader.string()

    def value_type(self) -> Type:
        dtype = self.member(DataType)
        shape: list[int | Expr] = []
        self.reader.items("[", lambda: shape.append(self.reader.dim()), "]")
        assert isinstance(dtype, DataType), f"{dtype} was read as an element type"
        self.limit(shape)
        return Type(tuple(shape), dtype)

    def member(self, kind: type[enum.Enum]) -> enum.Enum:
        if self.reader.next not in kind.__members__:
            raise self.reader.error(f"a member of {kind.__name__}")
        return kind[self.reader.take()]

    def attribute(self, hint: object) -> object:
        """One attribute of the declared type `hint`."""
        members = get_args(hint)
        if get_origin(hint) is tuple:
            return self.items_of(members)
        if get_origin(hint) in (Union, types.UnionType):
            if types.NoneType in members and self.reader.skip("None"):
                return None
            rest = [m for m in members if m is not types.NoneType]
            return self.reader.dim() if Expr in rest else self.attribute(rest[0])
        assert isinstance(hint, type), f"attributes of type {hint} have no text form"
        return self.atom(hint)

    def atom(self, hint: type) -> object:
        if hint in ATOMS:
            return ATOMS[hint](self)
        if issubclass(hint, enum.Enum):
            return self.member(hint)
        if self.reader.skip("@"):
            return self.blob(hint)
        return self.structure(hint)

    def flag(self) -> bool:
        if not self.reader.follows("True") and not self.reader.follows("False"):
            raise self.reader.error("True or False")
        return self.reader.take() == str(True)

    def items_of(self, members: tuple[object, ...]) -> tuple[object, ...]:
        out: list[object] = []
        place, repeated = self.reader.place, Ellipsis in members

        def item() -> None:
            if not repeated and len(out) == len(members):
                raise self.reader.error(repr(")"))
            out.append(self.attribute(members[0] if repeated else members[len(out)]))

        self.reader.items("(", item, ")")
        if not repeated and len(out) != len(members):
            raise PlanError("AR605", place, got=f"{len(out)} items", wanted=f"{len(members)}")
        self.limit(out)
        return tuple(out)

    def limit(self, items: Sequence[object]) -> None:
        """The product of sizes read together stays small."""
        terms = math.prod(len(x.terms) for x in items if isinstance(x, Expr))
        if terms > MAX_VOLUME_TERMS:
            got = f"sizes whose product has {terms} terms"
            raise PlanError("AR605", self.reader.place, got=got, wanted=f"at most {MAX_VOLUME_TERMS}")

    def blob(self, hint: type) -> object:
        place, name = self.reader.place, self.reader.string()
        if not isinstance(self.words.blobs.get(name), hint):
            raise PlanError("AR607", place, got=f"@{name!r}", wanted=f"the name of a {hint.__name__}")
        return self.words.blobs[name]

    def structure(self, base: type) -> object:
        """A dataclass of the vocabulary that is a `base`, with its fields in order; trailing fields with a
        default may be omitted."""
        kind = self.words.classes.get(self.reader.next)
        if kind is None or not issubclass(kind, base):
            raise self.reader.error(f"a {base.__name__}")
        place, declared, values = self.reader.place, self.hints[kind.__name__], list[object]()
        self.reader.take()

        def item() -> None:
            if len(values) == len(declared):
                raise self.reader.error(repr(")"))
            name, hint = declared[len(values)]
            self.reader.expect(name)
            self.reader.expect("=")
            values.append(self.attribute(hint))

        self.reader.items("(", item, ")")
        assert is_dataclass(kind), f"{kind.__name__} is no dataclass"
        usual = {f.name for f in fields(kind) if f.default is not MISSING}
        missing = next((name for name, _ in declared[len(values) :] if name not in usual), None)
        if missing is not None:
            raise PlanError("AR605", place, got=f"{kind.__name__} without {missing}")
        try:
            return kind(*values)
        except AnyrtError as error:
            raise PlanError("AR607", place, got=str(error)) from None


STATEMENTS: Mapping[str, Callable[[_Parser], None]] = {
    "symbol": _Parser.symbol,
    "input": _Parser.input,
    "output": _Parser.output,
    "follow": _Parser.follow,
    "update": _Parser.update,
    "region": _Parser.region,
}
ATOMS: Mapping[type, Callable[[_Parser], object]] = {
    bool: _Parser.flag,
    int: lambda p: p.reader.integer(),
    float: lambda p: p.reader.number(),
    str: lambda p: p.reader.string(),
    Sym: _Parser.size,
    Type: _Parser.value_type,
    Graph: _Parser.held,
}


def _hints(kind: type) -> list[tuple[str, object]]:
    """The declared types of the fields that the constructor takes."""
    assert is_dataclass(kind), f"{kind.__name__} is no dataclass"
    hints = get_type_hints(kind)
    return [(f.name, hints[f.name]) for f in fields(kind) if f.init]
