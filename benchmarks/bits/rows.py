"""The rows: a model, the entries that compute it (program, file and precision), and the goals.

>>> row = next(r for r in ROWS if r.name == "int8_qdq_mobilenet")
>>> row.ours.label, [e.label for e in row.peers]
('AnyRT Q/DQ', ['ONNX Runtime Q/DQ', 'OpenVINO Q/DQ'])
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from benchmarks.bits.files import Form
from benchmarks.bits.products import BLOCK, Product, streamed
from benchmarks.models.programs import OURS
from benchmarks.steps import Element

ORT, OPENVINO, COMPILED = "ONNX Runtime", "OpenVINO", "torch.compile"
TIE = 0.97  # of a speed that must not be lost
BUILD = 1.2  # times a float32 build


class Ask(enum.Enum):
    """An option that a program gets besides its file."""

    NOTHING = ""
    BF16 = "BF16"
    FP16 = "FP16"
    CALIBRATED = "INT8 calibrated"
    DIRECT = "without Winograd"


# The least cosine of right results, by the contents of the file and the program's option. Random weights of
# int8 networks have no structure that codes could preserve: single outputs are wrong, not all of them.
EXACT, ROUNDED, CODES = 0.99999, 0.99, 0.9
LEAST = {
    Form.F32: EXACT, Form.BF16: ROUNDED, Form.QDQ: CODES, Form.QOPERATOR: CODES, Form.DYNAMIC: CODES,
    Form.I2: EXACT, Form.I4: EXACT, Form.I4_LEVEL4: 0.999, Form.I8: EXACT, Form.I8_LEVEL4: 0.999,
}  # fmt: skip
ALLOWED = {Ask.BF16: ROUNDED, Ask.FP16: 0.999, Ask.CALIBRATED: CODES}


class Group(enum.Enum):
    """The tables."""

    BF16 = "bfloat16 allowed (weak) and bfloat16 models (strong)"
    FP16 = "half allowed"
    INT8 = "int8"
    ONE = "weights of a few bits, one row"
    MANY = "weights of 4 bits, several rows"
    F32 = "float32"


@dataclass(frozen=True, slots=True)
class Entry:
    """A program on a file."""

    program: str
    form: Form = Form.F32
    ask: Ask = Ask.NOTHING

    @property
    def label(self) -> str:
        """The name in tables, and the key of results."""
        form = "" if self.form is Form.F32 and self.ask is not Ask.NOTHING else self.form.value
        return " ".join(filter(None, (self.program, form, self.ask.value)))

    @property
    def least_cosine(self) -> float:
        """The smallest cosine that its results may have."""
        return min(LEAST[self.form], ALLOWED.get(self.ask, 1.0))


class Figure(enum.Enum):
    """The quantity of a goal: a speed relative to other programs, a share of the limit, or bytes and build
    time relative to packed codes and scales, to another engine or to another build."""

    SPEED = "# × a program"
    SHARE = "# of the limit"
    PLAN = "plan # × packed"
    RESIDENT = "resident # × packed"
    LIGHTER = "plan # × float32's"
    BUILD = "build # × float32's"


AT_LEAST = (Figure.SPEED, Figure.SHARE)


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound of a figure; `beside`: the entries to compare with (default: all peers)."""

    figure: Figure
    bound: float
    beside: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A row: our entry, its peers, our own engine to compare with, the type of its limit, and its goals."""

    name: str
    group: Group
    model: str
    ours: Entry
    peers: tuple[Entry, ...]
    own: Entry | None
    unit: Element
    goals: tuple[Goal, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries that run."""
        return tuple(e for e in (self.ours, self.own, *self.peers) if e is not None)


MODELS = ("resnet50", "mobilenet", "vit_small", "bert", "unet", "yolo", "llama")
PLAIN = Entry(OURS)
FLOAT_PEERS = (Entry(ORT), Entry(OPENVINO), Entry(COMPILED))
BF16_PEERS = (
    Entry(OPENVINO, ask=Ask.BF16), Entry(OPENVINO), Entry(ORT), Entry(COMPILED, ask=Ask.BF16)
)  # fmt: skip
HALF_PEERS = (Entry(OPENVINO), Entry(ORT))
LEVELS = {Form.I4: "i4", Form.I4_LEVEL4: "i4_level4"}
BYTES = (Form.I4_LEVEL4, Form.I8_LEVEL4)  # whose rows are int8


def _built() -> Goal:
    return Goal(Figure.BUILD, BUILD, (PLAIN,))


def _bf16() -> Iterator[Row]:
    for model, (name, ours) in product(
        MODELS, (("bf16", Entry(OURS, ask=Ask.BF16)), ("bf16_strong", Entry(OURS, Form.BF16)))
    ):
        goals = [Goal(Figure.SPEED, 1.1, BF16_PEERS[:1]), Goal(Figure.SPEED, TIE, (PLAIN,)), _built()]
        goals += [Goal(Figure.SHARE, 0.7)] if model in ("resnet50", "bert") else []
        yield Row(
            f"{name}_{model}", Group.BF16, model, ours, BF16_PEERS, PLAIN, Element.BF16, tuple(goals)
        )  # fmt: skip


def _fp16() -> Iterator[Row]:
    """A plan has few bytes besides weights: above 0.6, some weights are stored in float32."""
    goals = (Goal(Figure.SPEED, TIE, (PLAIN,)), Goal(Figure.LIGHTER, 0.6, (PLAIN,)))
    for model in MODELS:
        ours = Entry(OURS, ask=Ask.FP16)
        yield Row(f"fp16_{model}", Group.FP16, model, ours, HALF_PEERS, PLAIN, Element.F32, goals)


def _int8() -> Iterator[Row]:
    quantised = (
        ("resnet50", Form.QDQ), ("resnet50", Form.QOPERATOR), ("resnet50_x8", Form.QDQ),
        ("mobilenet", Form.QDQ), ("mobilenet", Form.QOPERATOR),
        ("bert", Form.QDQ), ("bert", Form.DYNAMIC), ("vit_small", Form.QDQ), ("vit_small", Form.DYNAMIC),
    )  # fmt: skip
    for model, form in quantised:
        kind = {Form.QDQ: "qdq", Form.QOPERATOR: "qoperator", Form.DYNAMIC: "dynamic"}[form]
        yield _codes(f"int8_{kind}_{model}", model, Entry(OURS, form), form)
    for model in ("resnet50", "mobilenet", "bert", "vit_small"):
        yield _codes(f"int8_calibrated_{model}", model, Entry(OURS, ask=Ask.CALIBRATED), Form.QDQ)


def _codes(name: str, model: str, ours: Entry, form: Form) -> Row:
    """Other programs have no calibrator: they run the file that ONNX Runtime's quantizer wrote. OpenVINO
    reads few QOperator files, so that it also runs the same network as Q/DQ."""
    goals = [Goal(Figure.SPEED, 1.0), _built()]
    goals += [Goal(Figure.SHARE, 0.78)] if model.startswith("resnet50") else []
    more = (Entry(OPENVINO, Form.QDQ),) if form is Form.QOPERATOR else ()
    peers = (Entry(ORT, form), Entry(OPENVINO, form), *more)
    return Row(name, Group.INT8, model, ours, peers, PLAIN, Element.I8, tuple(goals))


def _one() -> Iterator[Row]:
    """Products of one row: weights are read once, from a cache or from memory."""
    sizes = [Product(1, 2048, 2048), Product(1, 4096, 4096), Product(1, 4096, 11008), streamed()]
    small = (Goal(Figure.PLAN, 1.1), Goal(Figure.RESIDENT, 1.1))
    for size, (form, name) in product(sizes, LEVELS.items()):
        ahead = Goal(Figure.SPEED, 1.5 if form is Form.I4 else 1.1)
        goals = (*small, Goal(Figure.SHARE, 0.85) if size is sizes[-1] else ahead)
        yield _product(name, Group.ONE, size, form, goals, own=size is not sizes[-1])
    for form, name in ((Form.I2, "i2"), (Form.I8, "i8"), (Form.I8_LEVEL4, "i8_level4")):
        yield _product(name, Group.ONE, sizes[1], form, (*small, Goal(Figure.SPEED, 1.1)))


def _many() -> Iterator[Row]:
    sizes = [Product(rows, 2048, 8192) for rows in (2, 4, 8, 16)]
    sizes += [Product(rows, 2048, 2048) for rows in (128, 512)]
    goals = (Goal(Figure.SPEED, 1.1), Goal(Figure.SPEED, 0.95, (PLAIN,)), Goal(Figure.PLAN, 1.1))
    for size, (form, name) in product(sizes, LEVELS.items()):
        yield _product(name, Group.MANY, size, form, goals)
    yield _product("i8_level4", Group.MANY, sizes[3], Form.I8_LEVEL4, goals)


def _product(
    name: str, group: Group, size: Product, form: Form, goals: tuple[Goal, ...], own: bool = True
) -> Row:
    unit = Element.I8 if form in BYTES else Element.F32
    ours, peers = Entry(OURS, form), (Entry(ORT, form),)
    return Row(f"{name}_{size.sizes}", group, size.name, ours, peers, PLAIN if own else None, unit, goals)


def _f32() -> Iterator[Row]:
    models = {
        "resnet50": 1.15,
        "resnet50_x8": 1.2,
        "mobilenet_x8": 1.05,
        "vit_small_x8": 1.05,
        "yolo_x8": 1.05,
    }
    direct = Entry(OURS, ask=Ask.DIRECT)
    for model, bound in models.items():
        goals = (Goal(Figure.SPEED, bound),)
        own = direct if model.startswith("resnet50") else None
        yield Row(f"f32_{model}", Group.F32, model, PLAIN, FLOAT_PEERS, own, Element.F32, goals)
        if own:
            yield Row(f"f32_direct_{model}", Group.F32, model, direct, FLOAT_PEERS, None, Element.F32, ())


ROWS = (*_bf16(), *_fp16(), *_int8(), *_one(), *_many(), *_f32())
FLOAT_GROUPS = (Group.BF16, Group.FP16, Group.F32)
assert BLOCK == 32, "the goals are for blocks of 32"
