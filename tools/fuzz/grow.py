"""Random ONNX models from seeds: `grow(seed)`.

A model contains one form of `forms.py`, which follows from the seed, and up to four more. onnx's reference
can evaluate each node and onnx's checker accepts it; rejected nodes are replaced."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tools.fuzz import oracles

Array = NDArray[Any]
OPSETS = (17, 18, 19, 20, 21, 22, 23)
FLOATS = ("float", "double", "float16", "bfloat16")
INTS = ("int32", "int64", "int8", "int16", "uint8", "uint16", "uint32", "uint64")
NUMPY: dict[str, Any] = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "bool": np.bool_, **{name: np.dtype(name).type for name in INTS},
}  # fmt: skip
ONNX = {name: getattr(TensorProto, name.upper()) for name in NUMPY}
NAMES = {np.dtype(t): name for name, t in NUMPY.items()}
TRIES = 12  # attempts to add one node
MOST = 4096  # elements of a tensor
WINDOWED = ("Conv", "ConvTranspose", "ConvInteger", "MaxPool", "AveragePool", "LpPool")
MOODS = ("usual", "usual", "usual", "ties", "small", "large", "ends")


def _context(opset: int) -> Any:
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 10, {"": opset}
    return context


CONTEXTS = {opset: _context(opset) for opset in OPSETS}


class Unfit(Exception):
    """The random choices do not fit together."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the model with its value for the first sizes."""

    name: str
    array: Array = field(compare=False)

    @property
    def type(self) -> str:
        return NAMES[self.array.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim


@dataclass(frozen=True, slots=True)
class Case:
    """A model, its form, and inputs for it: of one size, or of two."""

    seed: int
    form: str
    mood: str
    model: ModelProto
    feeds: tuple[dict[str, Array], ...]


def values(dice: random.Random, shape: Sequence[int], kind: str, mood: str) -> Array:
    """Elements of a type: usual ones, halfway cases, small or large ones, or those at its ends."""
    rng = np.random.default_rng(dice.getrandbits(32))
    dtype, shape = NUMPY[kind], tuple(shape)
    if kind == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if kind in INTS:
        info = np.iinfo(dtype)
        if mood == "ends":
            few = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], dtype)
            return np.where(rng.random(shape) < 0.5, rng.choice(few, shape), rng.integers(0, 9, shape, dtype))
        most = 100 if mood == "large" else 9
        return np.asarray(rng.integers(max(info.min, -most), most, shape, dtype, endpoint=True))
    x = rng.standard_normal(shape)
    info = ml_dtypes.finfo(dtype)
    match mood:
        case "ties":
            x = np.round(x * 4) / 2
        case "small":
            x = x * np.exp(-rng.integers(0, 20, shape))
        case "large":
            x = x * rng.choice([1.0, 30.0, 1000.0], shape)
        case "ends":
            big = float(info.max)
            few = [
                0.0,
                -0.0,
                np.inf,
                -np.inf,
                np.nan,
                big,
                -big,
                float(info.tiny),
                1.0,
                -1.0,
                0.5,
                88.8,
                1e-3,
            ]
            x = np.where(rng.random(shape) < 0.3, rng.choice(few, shape), x)
    with np.errstate(all="ignore"):
        return np.asarray(x, dtype)


@dataclass(slots=True)
class Grower:
    """A model under construction, and the random choices."""

    dice: random.Random
    opset: int
    mood: str
    open: bool  # whether its inputs have dynamic dimensions
    nodes: list[NodeProto] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    results: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    symbols: dict[str, tuple[str | int, ...]] = field(default_factory=dict)

    # ---- dice

    def pick(self, *items: Any) -> Any:
        return self.dice.choice(items)

    def some(self, chance: float = 0.5) -> bool:
        return self.dice.random() < chance

    def int(self, low: int, high: int) -> int:
        return self.dice.randint(low, high)

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""
        if rank == 0:
            raise Unfit("no axis")
        return self.dice.randrange(-rank, rank)

    def axes(self, rank: int, least: int = 1) -> list[int]:
        """Distinct axes, some counted from the end."""
        if rank < least:
            raise Unfit("few axes")
        chosen = self.dice.sample(range(rank), self.int(least, rank))
        return [a - rank if self.some(0.4) else a for a in chosen]

    def shape(self, low: int = 0, high: int = 4, most: int = 6) -> tuple[int, ...]:
        sizes = [self.pick(1, 1, 2, 2, 3, 3, 4, 5, most, self.int(1, 17)) for _ in range(self.int(low, high))]
        if self.some(0.03) and sizes:
            sizes[self.dice.randrange(len(sizes))] = 0
        return tuple(sizes)

    # ---- tensors

    def input(self, kind: str, shape: Sequence[int], mood: str | None = None, fixed: bool = False) -> Tensor:
        """A new input of the model. If the model is dynamic, so are its dimensions, except `fixed` inputs."""
        name = f"x{len(self.inputs)}"
        sizes = [
            f"{name}_{i}" if self.open and not fixed and self.some(0.6) else n for i, n in enumerate(shape)
        ]
        shared = {
            n: s for x in self.inputs for n, s in zip(self.tensors[x].shape, self.symbols[x], strict=True)
        }
        sizes = [shared[n] if isinstance(s, str) and isinstance(shared.get(n), str) else s
                 for n, s in zip(shape, sizes, strict=True)]  # fmt: skip
        self.inputs.append(name)
        self.symbols[name] = tuple(sizes)
        return self._keep(name, values(self.dice, shape, kind, mood or self.mood))

    def constant(self, array: Array | Sequence[int] | int | float, kind: str = "int64") -> Tensor:
        name = f"c{len(self.constants)}"
        self.constants.append(name)
        is_array = isinstance(array, np.ndarray | np.generic)
        return self._keep(name, np.asarray(array) if is_array else np.array(array, NUMPY[kind]))

    def operand(self, array: Array | Sequence[int] | int | float, kind: str = "int64") -> Tensor:
        """A constant, or occasionally an input of the model."""
        known = self.constant(array, kind)
        if self.some(0.85):
            return known
        self.constants.remove(known.name)
        del self.tensors[known.name]
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.symbols[name] = known.shape
        return self._keep(name, known.array)

    def fresh(self, kind: str, shape: Sequence[int], mood: str | None = None, fixed: bool = False) -> Tensor:
        """An input, or a constant."""
        if not self.inputs or self.some(0.6):
            return self.input(kind, shape, mood, fixed)
        return self.constant(values(self.dice, shape, kind, mood or self.mood))

    def tensor(
        self,
        kinds: Sequence[str],
        low: int = 0,
        high: int = 5,
        shape: Sequence[int] | None = None,
        fixed: bool = False,
    ) -> Tensor:
        """A tensor that the model has computed, if one fits, or a new tensor, with `fixed` or dynamic
        dimensions."""
        results = [
            t for n in self.results[-3:] for t in [self.tensors[n]]
            if t.type in kinds and low <= t.rank <= high and (shape is None or t.shape == tuple(shape))
        ]  # fmt: skip
        if results and self.some(0.9):
            return self.dice.choice(results)
        shape = self.shape(low, min(high, 4)) if shape is None else shape
        return self.fresh(self.dice.choice(list(kinds)), shape, None, fixed)

    def like(self, x: Tensor, mood: str | None = None) -> Tensor:
        """A tensor that broadcasts with x: of equal sizes, or some of them 1, or with fewer axes."""
        if self.some(0.2):
            same = [self.tensors[n] for n in self.results if self.tensors[n].type == x.type]
            if same:
                return self.dice.choice(same)
        shape = [1 if self.some(0.25) else n for n in x.shape]
        if self.some(0.3):
            shape = shape[self.int(0, len(shape)) :]
        if self.some(0.1) and len(shape) < 4:
            shape = [self.int(1, 3), *shape]
        return self.fresh(x.type, shape, mood)

    def _keep(self, name: str, array: Array) -> Tensor:
        self.tensors[name] = Tensor(name, np.asarray(array))
        return self.tensors[name]

    # ---- nodes

    def types(self, op: str) -> list[str]:
        """The types of the first tensor that an operator accepts, among those of these models."""
        schema = onnx.defs.get_schema(op, self.opset)
        letter = schema.inputs[0].type_str
        names = next(
            (set(c.allowed_type_strs) for c in schema.type_constraints if c.type_param_str == letter), set()
        )
        return [kind for kind in NUMPY if f"tensor({kind})" in names]

    def node(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        outputs: int = 1,
        inside: Sequence[Tensor] = (),
        **attributes: Any,
    ) -> tuple[Tensor, ...]:
        """Add a node, and return its results; `inside`: tensors that its branches read. Raises `Unfit` if
        onnx cannot evaluate it."""
        names = [f"t{len(self.results) + i}" for i in range(outputs)]
        arguments = {k: v for k, v in attributes.items() if v is not None and v != []}
        node = helper.make_node(op, ["" if x is None else x.name for x in inputs], names, **arguments)
        feeds = {x.name: x.array for x in (*inputs, *inside) if x is not None}
        try:
            result = oracles.evaluate(node, feeds, self.opset)
        except Exception as error:
            raise Unfit(f"{op}: {error}") from None
        for array in result:
            empty = op in WINDOWED and 0 in array.shape and all(0 not in x.shape for x in inputs if x)
            if array.dtype not in NAMES or array.size > MOST or empty:
                raise Unfit(f"{op}: {array.dtype} {array.shape}")
        self.nodes.append(node)
        self.results += names
        return tuple(self._keep(name, array) for name, array in zip(names, result, strict=True))


def grow(seed: int) -> Case:
    """The model of a seed. It depends on the versions of onnx and NumPy, which the report names."""
    from tools.fuzz.forms import FORMS

    dice = random.Random(seed)
    names = list(FORMS)
    first = names[seed % len(names)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        while True:
            model = Grower(dice, dice.choice(OPSETS), dice.choice(MOODS), dice.random() < 0.4)
            for n in range(dice.choice((1, 1, 2, 3, 4, 5))):
                _grown(model, [first] if n == 0 else names)
            if model.nodes and (case := _case(model, seed, first)) is not None:
                return case


def _grown(model: Grower, names: Sequence[str]) -> None:
    """The model with one form more, or unchanged."""
    from tools.fuzz.forms import FORMS

    for _ in range(TRIES):
        kept = [len(x) for x in (model.nodes, model.results, model.inputs, model.constants)]
        try:
            FORMS[model.dice.choice(names)](model)
            _checked(model)
        except Unfit:
            for held, count in zip(
                (model.nodes, model.results, model.inputs, model.constants), kept, strict=True
            ):
                del held[count:]
            alive = {*model.results, *model.inputs, *model.constants}
            model.tensors = {n: t for n, t in model.tensors.items() if n in alive}
        else:
            return


def _checked(model: Grower) -> None:
    try:
        whole = proto(model, model.results)
        onnx.shape_inference.infer_shapes(whole, check_type=True, strict_mode=True, data_prop=True)
        for node in (n for n in whole.graph.node if n.op_type not in ("If", "Loop")):
            onnx.checker.check_node(node, CONTEXTS[model.opset])
    except Exception as error:
        raise Unfit(str(error)) from None


def proto(model: Grower, outputs: Sequence[str]) -> ModelProto:
    """The model with these outputs."""
    used = {name for node in model.nodes for name in node.input}
    for node in model.nodes:  # tensors of the model that branches and bodies read
        used |= {n for a in node.attribute if a.HasField("g") for inner in a.g.node for n in inner.input}
    inputs = [
        helper.make_tensor_value_info(n, ONNX[model.tensors[n].type], model.symbols[n])
        for n in model.inputs
        if n in used
    ]
    declared = [helper.make_tensor_value_info(n, ONNX[model.tensors[n].type], None) for n in outputs]
    weights = [numpy_helper.from_array(model.tensors[n].array, n) for n in model.constants if n in used]
    graph = helper.make_graph(model.nodes, "fuzz", inputs, declared, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", model.opset)], ir_version=10)


def _case(model: Grower, seed: int, form: str) -> Case | None:
    read = {name for node in model.nodes for name in node.input}
    ends = [name for name in model.results if name not in read or model.some(0.1)]
    whole = proto(model, ends)
    feeds = {x.name: model.tensors[x.name].array for x in whole.graph.input}
    other = _other_sizes(model, whole) if model.open else None
    return Case(seed, form, model.mood, whole, (feeds,) if other is None else (feeds, other))


def _other_sizes(model: Grower, whole: ModelProto) -> dict[str, Array] | None:
    """Inputs of other sizes, which the reference accepts, too."""
    sizes: dict[str, int] = {}
    feeds = {}
    for x in whole.graph.input:
        old = model.tensors[x.name]
        shape = [
            n if isinstance(s, int) else sizes.setdefault(s, model.pick(1, 2, 3, 7, 12, 0))
            for n, s in zip(old.shape, model.symbols[x.name], strict=True)
        ]
        same = tuple(shape) == old.shape
        feeds[x.name] = old.array if same else values(model.dice, shape, old.type, model.mood)
    try:
        result = oracles.chain(whole, feeds)
    except Exception:
        return None
    return feeds if sizes and all(x.size <= 4 * MOST for x in result.values()) else None
