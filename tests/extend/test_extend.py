"""The extensions that docs/architecture.md describes: each test edits only the places named there."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from anyrt.core.enums import LayerType
from anyrt.ops import OPS

pytestmark = pytest.mark.static
FREE = next(t.name for t in LayerType if t not in OPS)

OPERATOR = f'''"""Dummy: x + bonus."""
from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.enums import DataType, LayerType
from anyrt.ir.graph import Value
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Op, attr
from anyrt.prims.build import map_, scalar


@dataclass(frozen=True, slots=True)
class DummyAttrs(Attrs):
    bonus: float = attr(Kind.FLOAT, "what is added", 1.0)


def expand(layer: Layer[DummyAttrs]) -> tuple[Value, ...]:
    """One `Map`."""
    x = layer.input(0)
    return (map_("add", x, scalar(layer.attrs.bonus, x)),)


def ref(attrs: DummyAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return (arrays[0] + attrs.bonus,)


OPS = (
    Op(
        layer=LayerType.{FREE},
        cls="IDummyLayer",
        methods=(Method("add_dummy", ("input",)),),
        inputs=(Input("input", frozenset({{DataType.FLOAT}})),),
        attrs=DummyAttrs,
        expand=expand,
        ref=ref,
        doc="Adds a number.",
        cases=lambda: (Case(DummyAttrs(2.5), ((3, 4),)),),
        onnx=("own::Dummy",),
    ),
)
'''
USE_OPERATOR = """
import numpy as np, anyrt as trt
from anyrt.ops import OPS
from anyrt.ops._cases import all_cases
from docgen import operators, stubs, tables
builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
network = builder.create_network()
layer = network.add_dummy(network.add_input("x", trt.float32, (2,)))
layer.bonus = 4
layer.get_output(0).name = "y"
network.mark_output(layer.get_output(0))
engine = builder.build_engine_with_config(network, builder.create_builder_config())
print(engine.run(x=np.float32([1, 2]))["y"], isinstance(layer, trt.IDummyLayer))
stub = stubs.stub()["src/anyrt/__init__.pyi"]
print("IDummyLayer" in [op.cls for op, case in all_cases()], "def add_dummy(" in stub)
op, = (op for op in OPS.values() if op.cls == "IDummyLayer")
page = operators.page(op)
print("| `bonus` | float |" in page, "add_dummy" in tables.works())
import onnx
head = '<ir_version: 10, opset_import: ["": 21, "own": 1]> g (float[2] x) => (float[2] y)'
model = onnx.parser.parse_model(head + "{ y = own.Dummy<bonus: float = 2.5>(x) }")
print(trt.load(model).run({"x": np.float32([1, 2])})["y"])
"""
RUN_GRAPH = """
import sys, numpy as np, anyrt as trt
from anyrt.backends import loader
from anyrt.compiler.driver import build_parts
from anyrt.compiler.request import BuildRequest
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, apply
from anyrt.ir.interpret import interpret
from anyrt.plan.file import read_plan
from anyrt.prims.build import *
x = param("x", (2, 3), DataType.FLOAT)
graph = Graph((("x", x),), (("y", {value}),))
plan = b"".join(build_parts(BuildRequest("net", graph), loader.target(), loader.device()).chunks(1 << 20))
engine = trt.Runtime(trt.Logger(trt.Logger.WARNING)).deserialize_cuda_engine(plan)
feeds = {{"x": np.float32([[1, 2, 3], [-1, -2, 4]])}}
print(engine.run(**feeds)["y"].tolist(), interpret(graph, feeds)["y"].tolist())
print("PLAN", read_plan(plan).plan.graph_text)
open("net.plan", "wb").write(plan)
np.save("x.npy", feeds["x"])
"""
PRIMITIVE = '''"""Twice the operand."""
from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.dims import Dim
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read


@dataclass(frozen=True, slots=True)
class Twice(Prim):
    """Every element doubled."""

    def infer(self, args: tuple[Type, ...]) -> Type:
        return args[0]

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        return args[0] * 2

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        return args[0].at(index) * 2.0
'''
TRANSFORMATION = '''"""Unroll: short vector loops are written out, turn by turn."""
from __future__ import annotations

from anyrt.ir.kernel import For, Kernel, Loop
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import changed
from dataclasses import replace


def unroll(kernel: Kernel, most: int) -> Kernel | Fail:
    """Loops of at most `most` turns."""
    body = tuple(replace(s, kind=Loop.UNROLL) if is_short(s, most) else s for s in kernel.body)
    return changed(kernel, body, f"no vector loop has at most {most} turns")


def is_short(stmt, most):
    return isinstance(stmt, For) and stmt.kind is Loop.VECTOR and stmt.var.extent <= most
'''
STRATEGY = '''"""Tiny: kernels of a few elements are one loop, widened."""
from __future__ import annotations

from anyrt.backends.cpu.strategies.common import COLLAPSE, VECTORISE
from anyrt.schedule.step import Strategy

TINY: Strategy = (COLLAPSE, VECTORISE)
'''
RULE = """RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "minimum of equals",
        find=lambda x: op(Map, x, x, fn="min"),
        make=lambda x: x,
        example=lambda draw: (lambda x: build.map_("min", x, x))(_input(draw, *NUMBERS)),
    ),
"""
TARGET = '''"""Names what it is given."""
from anyrt.codegen.target import Answer
from anyrt.schedule.step import Strategies


class EchoTarget:
    intrinsics = ()
    strategies = Strategies({})

    def limited(self, machine):
        return machine

    def run(self, job, feeds):
        return Answer({}, f"{len(job.kernels)} kernels for {', '.join(feeds)}")
'''
COMMAND = '''"""`anyrt hello`: a greeting."""
from anyrt.cli.command import Command

COMMAND = Command("greet", lambda parser: parser.add_argument("name"), lambda args: print("hello", args.name))
'''


def test_an_operator_is_one_file(copy):
    (copy.package / "ops/dummy.py").write_text(OPERATOR)
    printed = copy.run("-c", USE_OPERATOR).splitlines()
    assert printed == ["[5. 6.] True", "True True", "True True", "[3.5 4.5]"]


# Tests derived from records, and those that cover all operators at once.
DERIVED = ("tests/ops", "tests/api", "tests/onnx/test_plain.py", "tests/compiler/test_bounds.py")
AT_ONCE = (
    "the_cases_are or every_name_that_an_operator_states or every_code_of_a_mistake or are_the_published"
)


def test_derived_tests_hold_an_operator_that_is_one_file(copy):
    (copy.package / "ops/dummy.py").write_text(OPERATOR)
    printed = copy.tests(*DERIVED, "-k", f"{FREE}] or {FREE}- or dummy or IDummy or {AT_ONCE}")
    passed = [line for line in printed.splitlines() if line.startswith("PASSED")]
    files = {line.split("::")[0].split("/")[-1] for line in passed if f"[{FREE}" in line}
    assert {"test_cases.py", "test_records.py", "test_chains.py", "test_derived_layers.py"} <= files


def test_derived_tests_notice_an_operator_whose_record_is_wrong(copy):
    (copy.package / "ops/dummy.py").write_text(OPERATOR.replace("arrays[0] + attrs", "arrays[0] - attrs"))
    with pytest.raises(AssertionError, match=f"FAILED .*{FREE}"):
        copy.tests("tests/ops/test_cases.py", "-k", f"{FREE}-")


def test_a_scalar_function_is_one_line(copy):
    line = '    ScalarFn("cube", 1, lambda x: x * x * x, lambda x: x * x * x, ulp=1.5),\n'
    copy.replace("prims/scalar/special.py", "FUNCTIONS = (\n", "FUNCTIONS = (\n" + line)
    printed = copy.run("-c", RUN_GRAPH.format(value='map_("cube", x)')).splitlines()[0]
    assert printed == " ".join(["[[1.0, 8.0, 27.0], [-1.0, -8.0, 64.0]]"] * 2)


def test_a_primitive_is_a_file_and_its_name(copy):
    (copy.package / "prims/twice.py").write_text(PRIMITIVE)
    copy.replace("prims/table.py", "(\n    Const,", "(\n    Twice,\n    Const,")
    copy.replace(
        "prims/table.py",
        "from anyrt.prims.view",
        "from anyrt.prims.twice import Twice\nfrom anyrt.prims.view",
    )
    program = "from anyrt.prims.twice import Twice\n" + RUN_GRAPH.format(value="apply(Twice(), x)")
    printed = copy.run("-c", program)
    assert printed.splitlines()[0] == " ".join(["[[2.0, 4.0, 6.0], [-2.0, -4.0, 8.0]]"] * 2)
    assert "Twice()(v0)" in printed


def test_a_transformation_of_loops_is_a_file_and_a_step(copy):
    (copy.package / "loops/unroll.py").write_text(TRANSFORMATION)
    strategy = "backends/cpu/strategies/map.py"
    copy.replace(
        strategy, "from anyrt.loops.tile", "from anyrt.loops.unroll import unroll\nfrom anyrt.loops.tile"
    )
    step = 'Step("unroll", lambda kernel, c: unroll(kernel, 6))'
    copy.replace(strategy, "    VERSION,\n    PRECOMPUTE", f"    {step},\n    VERSION,\n    PRECOMPUTE")
    printed = copy.run("-c", RUN_GRAPH.format(value='map_("neg", x)')).splitlines()[0]
    assert printed == " ".join(["[[-1.0, -2.0, -3.0], [1.0, 2.0, -4.0]]"] * 2)
    built = copy.anyrt("explain", "net.plan", "--stage", "loops").split("# unroll\n")[1]
    assert "for unroll" in built.split("#")[0]


def test_a_strategy_is_a_list_its_name_and_a_line_that_describes_its_kernels(copy):
    (copy.package / "backends/cpu/strategies/tiny.py").write_text(STRATEGY)
    lists = "backends/cpu/strategies/__init__.py"
    imports = "from anyrt.backends.cpu.strategies.tiny import TINY\nfrom anyrt.ir.statements import stores\n"
    copy.replace(lists, "from anyrt.schedule.step", f"{imports}from anyrt.schedule.step")
    copy.replace(lists, '"mend": MEND,', '"mend": MEND, "tiny": TINY,')
    line = 'if stores(kernel.body)[0].buffer.size < 9: return "tiny"'
    copy.replace(lists, '    if kind != "contraction"', f'    {line}\n    if kind != "contraction"')
    program = RUN_GRAPH.format(value='map_("neg", x)')
    printed = copy.run("-c", program).splitlines()[0]
    assert printed == " ".join(["[[-1.0, -2.0, -3.0], [1.0, 2.0, -4.0]]"] * 2)
    steps = copy.anyrt("explain", "net.plan", "--stage", "loops")
    assert [x for x in steps.splitlines() if x[0] == "#"] == ["# serial loops", "# collapse", "# vectorise"]
    program = "from anyrt.backends.cpu.strategies import STRATEGIES; print(STRATEGIES.without('collapse'))"
    assert "tiny: vectorise;" in copy.run("-c", program)


def test_a_rewrite_rule_is_one_record(copy):
    program = RUN_GRAPH.format(value='map_("neg", map_("min", x, x))')
    assert 'fn="min"' in copy.run("-c", program)
    copy.replace("passes/rules.py", RULE.splitlines()[0] + "\n", RULE)
    printed = copy.run("-c", program)
    assert 'fn="min"' not in printed
    assert printed.startswith("[[-1.0, -2.0, -3.0], [1.0, 2.0, -4.0]]")


def test_a_backend_is_one_folder(copy):
    (copy.package / "backends/echo").mkdir()
    (copy.package / "backends/echo/__init__.py").write_text('"""Names what it is given."""\n')
    (copy.package / "backends/echo/target.py").write_text(TARGET)
    copy.run("-c", RUN_GRAPH.format(value='map_("neg", x)'))
    assert "backend echo    Names what it is given\n" in copy.anyrt("info")
    assert copy.anyrt("run", "net.plan", "--input", "x=x.npy", "--backend", "echo") == "1 kernels for x\n"


SUM = 'map_("max", reduce_("sum", map_("mul", x, map_("add", x, x)), (1,)), scalar(11.0, x))'


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
@pytest.mark.parametrize(
    ("value", "result", "loops"),
    [('map_("neg", x)', [[-1, -2, -3], [1, 2, -4]], 1), (SUM, [[28], [42]], 2)],
    ids=["a map, whose loops its strategy merges", "a fold, in serial loops"],
)
def test_a_backend_with_a_strategy_and_a_writer_of_c_is_one_folder(copy, value, result, loops):
    shutil.copytree(Path(__file__).parent / "demo", copy.package / "backends/demo")
    copy.run("-c", RUN_GRAPH.format(value=value))
    words = ("run", "net.plan", "--input", "x=x.npy", "--backend", "demo", "--output", "y=y.npy")
    assert copy.anyrt(*words).splitlines()[0] == f"kernels in C: 1, loops of items: {loops}"
    assert np.load(copy.folder / "y.npy").tolist() == result


def test_a_device_is_found_by_its_name(copy):
    (copy.package / "backends/tiny").mkdir()
    (copy.package / "backends/tiny/__init__.py").write_text('"""Runs nothing."""\n')
    (copy.package / "backends/tiny/device.py").write_text("class TinyDevice:\n    pass\n")
    program = "from anyrt.backends.loader import all_backends; print(type(all_backends()['tiny'].device()))"
    assert copy.run("-c", program) == "<class 'anyrt.backends.tiny.device.TinyDevice'>\n"


def test_a_command_is_one_file(copy):
    (copy.package / "cli/commands/hello.py").write_text(COMMAND)
    assert copy.anyrt("hello", "world") == "hello world\n"
    assert ["hello", "greet"] in [line.split() for line in copy.anyrt("--help").splitlines()]
