"""Repeated builds: the plan of the first build is reused without any pass; other requests never match."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from anyrt.backends import loader
from anyrt.backends.cpu import executor
from anyrt.codegen import llvm
from anyrt.compiler import driver, recall
from anyrt.compiler.cached import kernel_cache
from anyrt.compiler.recall import IDLE, NAMED, Recall
from anyrt.compiler.request import BuildRequest, Settings, Verify
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, Severity
from anyrt.ir.graph import Graph, Symbol, apply
from anyrt.plan.plan import Range
from anyrt.prims import build
from anyrt.prims.const import Blob, Const
from tests import native
from tests.targets import host

F = DataType.FLOAT
DEVICE = loader.device()
ROWS = Sym("x.0", 1, 8)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "cache"))


def numbers(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def held(array):
    """A constant that keeps the array's memory."""
    return apply(Const(Blob(array.reshape(-1), F), array.shape))


def product(weights, name="net", **rest):
    """x · w + 1, with a dynamic number of rows."""
    w = held(weights) if isinstance(weights, np.ndarray) else weights
    x = build.param("x", (ROWS.dim, w.shape[0]), F)
    y = build.map_("add", build.contract("mk,kn->mn", x, w), build.const(np.ones((1, 1)), F))
    graph = Graph((("x", x),), (("y", y),), {y: "layer"}, (Symbol(ROWS, "x", 0),))
    sizes = tuple((n, w.shape[0]) for n in (1, 4, 8))
    return BuildRequest(name, graph, ((Range("x", False, *sizes),),), **rest)


def computed():
    """x · (v · w); the product of the weights is a constant that does not occur in the network."""
    return product(build.map_("mul", held(numbers((70, 64))), held(numbers((70, 64), 1))))


def refuse(*args):
    raise AssertionError("a graph was changed")


# ---- equal requests ------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 3, 64, 100, 4000])
def test_a_build_of_the_same_changes_no_graph_and_gives_the_same_plan(columns, monkeypatch):
    first = native.build(product(numbers((70, columns))))
    monkeypatch.setattr(driver._Build, "_optimised", refuse)
    assert native.build(product(numbers((70, columns)))) == first


def test_computed_constants_are_kept(monkeypatch):
    first = native.build(computed())
    monkeypatch.setattr(driver._Build, "_optimised", refuse)
    assert native.build(computed()) == first


def test_weights_that_overlap_are_found_where_they_lie(monkeypatch):
    memory = numbers(200 * 64)
    request = product(memory[: 150 * 64].reshape(150, 64))
    ((_, y),) = request.graph.outputs
    other = build.map_("mul", y, build.reduce_("sum", held(memory[64 : 151 * 64].reshape(150, 64)), (0,)))
    request = replace(request, graph=replace(request.graph, outputs=(("y", other),)))
    first = native.build(request)
    monkeypatch.setattr(driver._Build, "_optimised", refuse)
    assert native.build(request) == first


def test_a_repeated_build_reports_its_origin():
    lines, request = [], product(numbers((70, 64)))
    native.build(request)
    native.build(replace(request, log=lambda severity, text: lines.append((severity, text))))
    assert [severity for severity, _ in lines] == [Severity.INFO, Severity.VERBOSE, Severity.INFO]
    assert ", from the cache: 1 kernel for 1 layer" in lines[-1][1]


# ---- other requests ------------------------------------------------------------------------------


OTHERS = {
    "weights": product(numbers((70, 64), 1)),
    "one weight": product(numbers((70, 64)) + (np.arange(70 * 64).reshape(70, 64) == 4000)),
    "shape": product(numbers((70, 64)).reshape(35, 128)),
    "name": product(numbers((70, 64)), "another"),
    "settings": product(numbers((70, 64)), settings=Settings(num_threads=3)),
    "aside": product(numbers((70, 64)), aside=frozenset({"y"})),
    "passes": product(numbers((70, 64)), passes=()),
    "profile": replace(
        product(numbers((70, 64))), profiles=((Range("x", False, (1, 70), (2, 70), (8, 70)),),)
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", OTHERS)
def test_another_request_is_built_for_itself(what):
    native.build(product(numbers((70, 64))))
    plan = native.build(OTHERS[what])
    kernel_cache().directory.rename(kernel_cache().directory.with_name("old"))
    assert plan == native.build(OTHERS[what])


def test_names_distinguish_requests():
    every = [product(numbers((70, 64))), *(r for what, r in OTHERS.items() if what != "passes")]
    keys = [Recall.of(r, DEVICE).key for r in every]
    assert all(a != b for a, b in itertools.combinations(keys, 2))
    assert Recall.of(OTHERS["passes"], DEVICE) is None


def test_every_field_of_a_request_is_named_or_idle_or_absent():
    usual = {f.name: f.default for f in fields(BuildRequest)}
    apart = {"passes", "strategies", "selector", "weights", "refit", "needs", "implied"}
    assert {name for name in usual if name not in NAMED | IDLE} == apart
    assert usual["passes"] is usual["strategies"] is usual["selector"] is None


@pytest.mark.parametrize("settings", [Settings(optimization_level=5), Settings(verify=Verify.SAMPLE)])
def test_tuned_or_verified_builds_are_not_reused(settings, monkeypatch):
    request = product(numbers((70, 64)), settings=settings)
    native.build(request)
    monkeypatch.setattr(driver._Build, "_optimised", refuse)
    with pytest.raises(AssertionError, match="a graph was changed"):
        native.build(request)


# ---- missing and damaged entries -----------------------------------------------------------------


def test_much_that_was_computed_is_not_kept(monkeypatch):
    monkeypatch.setattr(recall, "MOST_BYTES", 1000)
    first = native.build(computed())
    with monkeypatch.context() as patch:
        patch.setattr(driver._Build, "_optimised", refuse)
        with pytest.raises(AssertionError, match="a graph was changed"):
            native.build(computed())
    assert native.build(computed()) == first


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.9])
def test_plans_are_built_where_entries_are_gone(kept):
    """If any of the entries is missing."""
    first = native.build(computed())
    files = sorted(kernel_cache().directory.iterdir(), key=lambda path: path.stat().st_size)
    for file in files[int(kept * len(files)) :]:
        file.unlink()
    assert native.build(computed()) == first


@pytest.mark.parametrize(
    "entry",
    [b"", b"12345678" * 2, bytes(16), recall._LENGTHS.pack(6, 0) + b'["aa"]', b"\xff" * 40],
)
def test_an_entry_that_makes_no_sense_is_ignored(entry):
    request = product(numbers((70, 64)))
    first = native.build(request)
    assert kernel_cache().put_bytes(Recall.of(request, DEVICE).key, [entry])
    assert native.build(request) == first


@pytest.mark.parametrize(
    "record", [[0, 4, 4, 70 * 64, 4], [9, 0, 4, 1, 4], [0, 0, 3, 1, 4], [0, 0, 4, 1], [0, 0, 4, 2, 1 << 40]]
)
def test_no_element_is_read_outside_of_the_networks_constants(record):
    (source,) = Recall.of(product(numbers((70, 64))), DEVICE).sources[:1]
    with pytest.raises(recall.PlanError, match="AR605"):
        recall._view(record, (source,))


def test_a_process_compiles_what_runs_kernels_once_whichever_folder_code_is_kept_in(tmp_path, monkeypatch):
    network, texts, compile_text = product(numbers((5, 3))), list[str](), llvm.compile_text
    native.build(network)
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "another"))
    monkeypatch.setattr(
        llvm, "compile_text", lambda *values: texts.append(values[0]) or compile_text(*values)
    )
    native.build(network)
    assert texts
    assert executor.text(host().processor) not in texts
