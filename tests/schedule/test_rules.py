"""The kernels of every operator are valid, and their texts parse back."""

import ast
from pathlib import Path

import pytest

import anyrt
from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import CompileError
from anyrt.ir.buffer import Scalar
from anyrt.ir.graph import Graph
from anyrt.ir.interpret import infer_sizes
from anyrt.ir.kernel import Kernel, Store, const
from anyrt.ir.kerneltext import print_kernels
from anyrt.ops import OPS
from anyrt.ops._cases import case_run
from anyrt.passes.simplify import simplify
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from anyrt.schedule.naive import Builder
from tests import native
from tests.sampling import sample
from tests.targets import parsed

STRIDE = 24  # of the cases in order


def kernels(op, case) -> tuple[Kernel, ...]:
    run = case_run(op, case, dynamic=True)
    sizes, graph = Sizes(infer_sizes(run.graph, run.feeds)), simplify(run.graph)
    module = native.lower(graph, constant_offsets(graph), sizes).module
    return (*module.tables, *module.kernels)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.layer.name)
def test_kernels_are_within_the_rules_and_their_text_comes_back(op):
    for case in sample(list(op.cases()), STRIDE):
        for kernel in kernels(op, case):
            assert parsed(print_kernels([kernel])) == (kernel,), print_kernels([kernel])


@pytest.mark.parametrize("folder", ["loops", "schedule", "codegen", "backends"])
def test_code_generation_depends_on_no_class_of_primitives_and_no_setting_of_layers(folder):
    results = set()
    for path in (Path(anyrt.__file__).parent / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                results |= {f"{node.module}.{name.name}" for name in node.names if name.name[0].isupper()}
    known = {name for name in results if name.startswith(("anyrt.prims.", "anyrt.ops.", "anyrt.core.enums."))}
    assert known <= {"anyrt.prims.taprules.TapRule", "anyrt.core.enums.DataType"}


def test_backends_take_of_scheduling_the_protocol_of_steps_alone():
    results = set()
    for path in (Path(anyrt.__file__).parent / "backends").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        results |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name for name in results if name and name.startswith("anyrt.schedule")} == {"anyrt.schedule.step"}


def test_a_kernel_that_breaks_a_rule_is_not_compiled(monkeypatch):
    x = b.param("x", (4,), DataType.FLOAT)

    def build(builder):
        wrong = Store(builder.group.buffer, Sym("i", extent=4).dim, const(1.0, Scalar.F32))
        return Kernel(builder.name, Sym("p", extent=4), (wrong,))

    monkeypatch.setattr(Builder, "build", build)
    with pytest.raises(CompileError, match=r"AR807.*index of out_y uses i outside its loop"):
        native.lower(Graph((("x", x),), (("y", b.map_("neg", x)),)), {}, Sizes())
