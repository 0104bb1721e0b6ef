"""Verification finds a wrong kernel, reports its location, and the build continues without fusing it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from anyrt.codegen import llvm
from anyrt.compiler import driver
from anyrt.compiler.request import BuildRequest, Settings, Verify
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.compiler.verify import groups_failed, random_inputs
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, Severity
from anyrt.ir.graph import Graph, Symbol, apply_all
from anyrt.ir.kernel import Op, alu, select
from anyrt.plan.file import read_plan
from anyrt.plan.plan import Range
from anyrt.plan.report import parse_report
from anyrt.prims import build as b
from anyrt.prims.repeated import Repeated
from anyrt.prims.scalar import SCALARS
from anyrt.schedule import groups
from anyrt.schedule.cost import Sizes
from tests import native
from tests.messages import diagnostic
from tests.native import build, verify
from tests.targets import host

N, M = Sym("x.0", 1, 64), Sym("y.0", 1, 64)


def chain() -> Graph:
    """relu(x) + y, then the mean of each row: two dynamic dimensions that must agree."""
    x, y = b.param("x", (N.dim, 40), DataType.FLOAT), b.param("y", (M.dim, 40), DataType.FLOAT)
    total = b.map_("add", b.map_("abs", x), y)
    row = b.reduce_("sum", total, (1,))
    symbols = (Symbol(N, "x", 0), Symbol(M, "y", 0))
    return Graph((("x", x), ("y", y)), (("z", row),), {total: "sum", row: "mean"}, symbols)


def lowered(graph: Graph, alone: frozenset = frozenset()) -> native.Lowered:
    return native.lower(graph, constant_offsets(graph), Sizes({"x.0": 5, "y.0": 5}), alone)


@pytest.fixture
def wrong_abs(monkeypatch):
    """An absolute value that is negative for numbers above 1."""
    right = SCALARS["abs"]
    monkeypatch.setitem(SCALARS, "abs", replace(right, expand=lambda x: select(x > 1.0, -x, right.expand(x))))


def test_right_kernels_pass_at_all_sizes():
    sizes = [{"x.0": n, "y.0": m} for n, m in ((1, 1), (7, 7), (1, 9))]
    assert verify(lowered(chain()), host(), sizes) == ()


@pytest.mark.usefixtures("wrong_abs")
def test_a_wrong_kernel_is_reported_with_its_inputs_and_first_element():
    (result,) = verify(lowered(chain()), host(), [{"x.0": 3, "y.0": 3}])
    assert result.kernel == "sum+mean"
    x = random_inputs(chain(), {"x.0": 3, "y.0": 3})["x"]
    assert [text.split(" = ")[0] for text in result.inputs] == ["x float32[3, 40]", "y float32[3, 40]"]
    assert float(result.inputs[0].split("[[")[1].split(",")[0]) == pytest.approx(x[0, 0], rel=1e-6)
    assert "inputs (seed 20):\nx float32[3, 40] = [[" in str(result)
    assert result.finding == "3 of 3 elements differ"
    assert result.element is not None
    assert result.element.index == (0, 0)
    values = ("kernel sum+mean (", "x.0 = 3", "y.0 = 3", 3, 3, [0, 0])
    assert re.match(diagnostic("AR805", *values), str(result))


@pytest.mark.usefixtures("wrong_abs")
@pytest.mark.parametrize("rows", [(3, 3), (1, 3)], ids=["equal", "broadcast"])
def test_a_failed_kernel_is_built_unfused_in_every_version(rows):
    graph, sizes = chain(), dict(zip(("x.0", "y.0"), rows, strict=True))
    alone = groups_failed(verify(lowered(graph), host(), [sizes]))
    assert [len(s.launches) for s in lowered(graph, alone).schedules] == [3, 3]


@pytest.mark.usefixtures("wrong_abs")
def test_a_build_reports_the_mismatch_and_keeps_its_kernels_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    ranges = tuple(Range(name, False, (2, 40), (4, 40), (8, 40)) for name in ("x", "y"))
    messages: dict[Severity, list[str]] = {severity: [] for severity in Severity}
    request = BuildRequest("net", chain(), (ranges,), Settings(verify=Verify.SAMPLE))
    request = replace(request, log=lambda severity, text: messages[severity].append(text))
    report = parse_report(read_plan(build(request)).plan.report)
    assert [m[:25] for m in messages[Severity.WARNING]] == ["[AR805] kernel sum+mean ("]
    assert len(report.kernels) == 3
    assert report.notes[0].startswith("[AR805] kernel sum+mean")


def turns() -> Graph:
    """The chain, applied three times to its own rows."""
    flag, turn = b.param("go", (), DataType.BOOL), b.param("turn", (), DataType.INT64)
    x, y = (b.param(name, (N.dim, 40), DataType.FLOAT) for name in "xy")
    total = b.map_("add", b.map_("abs", x), y)
    row = b.reduce_("sum", total, (1,))
    count = b.map_("add", turn, b.scalar(1, turn))
    ends = (("go", b.map_("lt", count, b.scalar(3, turn))), ("turn", count), ("x", b.expand(row, x.shape)))
    body = Graph((("go", flag), ("turn", turn), ("x", x), ("y", y)), ends, {total: "sum", row: "mean"})
    built = apply_all(Repeated(body), b.const(True, DataType.BOOL), b.const(0, DataType.INT64), x, y)
    return Graph((("x", x), ("y", y)), (("z", built[2]),), {}, (Symbol(N, "x", 0),))


@pytest.mark.usefixtures("wrong_abs")
def test_a_kernel_that_failed_in_a_loop_is_built_unfused(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    limits = tuple(Range(t, False, (1, 40), (5, 40), (9, 40)) for t in ("x", "y"))
    request = BuildRequest("turns", turns(), (limits,), Settings(verify=Verify.FULL))
    file = read_plan(build(request))
    assert any(note.startswith("[AR805] kernel sum+mean") for note in parse_report(file.plan.report).notes)
    names = [x.name for x in native.lower_plan(file).schedule.everywhere]
    assert "sum+mean" not in names
    assert names.count("sum") == 1


def test_verified_kernels_are_not_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    texts, compile_text = list[str](), llvm.compile_text
    monkeypatch.setattr(
        llvm, "compile_text", lambda *values: texts.append(values[0]) or compile_text(*values)
    )
    ranges = tuple(Range(name, False, (2, 40), (4, 40), (8, 40)) for name in ("x", "y"))
    build(BuildRequest("net", chain(), (ranges,), Settings(verify=Verify.SAMPLE)))
    assert len(texts) == len(set(texts)) > 0


@pytest.mark.parametrize(
    ("how", "expected"), [(Verify.OFF, []), (Verify.SAMPLE, [2]), (Verify.FULL, [2, 4, 8])], ids=str
)
def test_kernels_are_tried_at_the_required_sizes(tmp_path, monkeypatch, how, expected):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    tried: list[int] = []

    def noted(result, target, device, sizes, progress, **kept):
        tried.extend(s["x.0"] for s in sizes)
        return verify(result, target, sizes, progress)

    monkeypatch.setattr(driver, "verify", noted)
    ranges = tuple(Range(name, False, (2, 40), (4, 40), (8, 40)) for name in ("x", "y"))
    build(BuildRequest("net", chain(), (ranges,), Settings(verify=how)))
    assert tried == expected


@pytest.mark.parametrize(("most", "line"), [(4, "verified at 2 shapes"), (5, "nothing was verified: ")])
def test_kernels_are_tried_only_where_the_network_can_run(tmp_path, monkeypatch, most, line):
    """8 x 2 elements of a square: the minimum of 1 to 4 rows has fewer elements."""
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    n = Sym("x.0", 1, most)
    x = b.param("x", (n.dim, n.dim), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", b.map_("neg", b.reshape(x, (8, 2)))),), symbols=(Symbol(n, "x", 0),))
    ranges = (Range("x", False, (1, 1), (most, most), (most, most)),)
    plan = read_plan(build(BuildRequest("net", graph, (ranges,), Settings(verify=Verify.FULL)))).plan
    assert line in plan.report


def test_a_kernel_that_writes_behind_its_output_is_reported(monkeypatch):
    monkeypatch.setattr(Trial, "overrun", lambda self: ("tensor z",))
    result = verify(lowered(chain()), host(), [{"x.0": 3, "y.0": 3}])
    assert [m.finding for m in result] == ["it writes behind tensor z"]


def test_a_constant_without_elements_takes_no_other_ones_place():
    """It may have the same offset in the memory of constants as another one."""
    x, some = b.param("x", (N.dim,), DataType.FLOAT), b.const(np.float32([1, 2]), DataType.FLOAT)
    y = b.concat([x, some, b.const(np.zeros(0), DataType.FLOAT)], 0)
    graph = Graph((("x", x),), (("y", y),), symbols=(Symbol(N, "x", 0),))
    lowering = native.lower(graph, {v.op.blob: 0 for v in y.args[1:]}, Sizes({"x.0": 5}))
    assert verify(lowering, host(), [{"x.0": 5}]) == ()


def test_a_constant_that_is_two_outputs_is_right():
    c = b.const(np.float32([1, 2, 3, 4]), DataType.FLOAT)
    graph = Graph((("x", b.param("x", (3,), DataType.FLOAT)),), (("one", c), ("other", c)))
    low = native.lower(graph, constant_offsets(graph), Sizes({}))
    assert [str(m) for m in verify(low, host(), [{}])] == []


@pytest.mark.usefixtures("wrong_abs")
def test_a_wrong_part_of_a_concatenation_is_identified_next_to_an_empty_one():
    x = b.param("x", (40,), DataType.FLOAT)
    y = b.concat([b.const(np.zeros(0), DataType.FLOAT), b.map_("abs", x), b.map_("neg", x)], 0)
    graph = Graph((("x", x),), (("y", y),))
    result = verify(native.lower(graph, constant_offsets(graph), Sizes()), host(), [{}])
    assert "abs(" in result[0].text


def test_verification_draws_what_is_no_number():
    """A wrong kernel returns 1 for absolute values of NaN; all others are right."""
    x = b.param("x", (40,), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", b.map_("abs", x)),))
    right = SCALARS["abs"]
    wrong = replace(right, expand=lambda v: select(alu(Op.NE, v, v), 1.0, right.expand(v)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCALARS, "abs", wrong)
        (actual,) = verify(lowered(graph), host(), [{}])
    assert (actual.element.got, actual.element.expected[:3]) == ("1.0", "nan")


def test_verification_finds_nan_that_a_mask_should_hide(monkeypatch):
    v, weights = b.param("v", (9, 40), DataType.FLOAT), b.const(np.eye(3, 9), DataType.FLOAT)
    graph = Graph((("v", v),), (("y", b.contract("mk,kn->mn", weights, v, hides=True)),))
    assert verify(lowered(graph), host(), [{}]) == ()
    monkeypatch.setattr(groups, "searched", lambda root, stored: None)
    assert len(verify(lowered(graph), host(), [{}])) == 1
