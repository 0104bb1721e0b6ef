"""A plan with a value in every field."""

import pytest

from anyrt.core import dims
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.requirement import Relation, Requirement
from anyrt.plan.file import write_plan
from anyrt.plan.plan import Binding, LayerRecord, Plan, Range, SymbolRecord, lay_out

CONTENTS = [b"\x01\x02\x03\x04" * 3, b"\x12\x03", b""]


@pytest.fixture(scope="session")
def plan() -> Plan:
    n, odd = Sym("n", 1, 64), Sym('a "b"/c:0', 0, 9)
    value = Sym("s#0", -5, 5)
    return Plan(
        name="everything",
        graph_text="graph { y = x }",
        blobs=lay_out([("w", DataType.FLOAT, 3), ("q", DataType.INT4, 3), ("", DataType.BF16, 0)]),
        bindings=(
            Binding("x", True, DataType.FLOAT, (n.dim, odd.dim, 3), dim_names=("batch", "", "")),
            Binding("s", True, DataType.INT64, (2,), is_shape=True, is_host=True),
            Binding("y", False, DataType.HALF, (dims.floordiv(n.dim * 3 + 2, 4), dims.scaled(odd.dim, 1.5))),
        ),
        symbols=(
            SymbolRecord("n", "x", 0, False, 1, 64),
            SymbolRecord('a "b"/c:0', "x", 1, False, 0, 9),
            SymbolRecord("s#0", "s", 0, True, -5, 5),
        ),
        requirements=(Requirement(value.dim, Relation.LE, n.dim * odd.dim, "AR303", "layer q", "shrink it"),),
        profiles=(
            (
                Range("x", False, (1, 0, 3), (2, 1, 3), (64, 9, 3)),
                Range("s", True, (-5, 0), (1, 1), (5, 9)),
            ),
        ),
        settings=(("level", "3"),),
        layers=(LayerRecord("conv", "Scale", ("x",), ("y",), (("kernel", "k0"),)),),
        report="k0: scale",
    )


@pytest.fixture(scope="session")
def data(plan: Plan) -> bytes:
    return write_plan(plan, CONTENTS)
