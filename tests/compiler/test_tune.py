"""Tuning builds: the fastest tactic of a kernel wins, is cached, and limits stop the measurements.

The tests replace the clock."""

from dataclasses import replace
from itertools import cycle

import pytest

from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.compiler import driver, tune
from anyrt.compiler.request import BuildRequest, Settings, Verify
from anyrt.compiler.trial import GUARD, Trial, constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import BuilderFlag, DataType, ResizeCoordinateTransformation, ResizeSelector
from anyrt.core.errors import BuildCancelled, ResourceError
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.plan import abi
from anyrt.plan.file import read_plan
from anyrt.plan.plan import Range
from anyrt.plan.report import parse_report
from anyrt.prims import build as b
from anyrt.prims.taps import Linear
from anyrt.schedule.cost import Sizes
from anyrt.schedule.tuning import (
    MODEL,
    POINTS,
    ROWS,
    SLIDING,
    TILES,
    UNTILED,
    Tuning,
    candidates,
    parse_tunings,
)
from tests import native
from tests.messages import diagnostic
from tests.native import load, verify
from tests.sampling import sample
from tests.targets import host

BILINEAR = Linear(ResizeCoordinateTransformation.HALF_PIXEL, ResizeSelector.FORMULA)


def of(y, *inputs) -> Graph:
    return Graph(tuple((x.op.name, x) for x in inputs), (("y", y),), {y: "y"})


def points() -> Graph:
    x = b.param("x", (70001,), DataType.FLOAT)
    return of(b.map_("neg", x), x)


def tiles() -> Graph:
    x = b.param("x", (333, 517), DataType.FLOAT)
    return of(b.transpose(x, (1, 0)), x)


def rows() -> Graph:
    x = b.param("x", (67, 130), DataType.FLOAT)
    return of(b.map_("sub", x, b.reduce_("sum", x, (1,))), x)


def long_rows() -> Graph:
    """Rows folded twice, with more bytes than the caches of a core hold."""
    x = b.param("x", (330, 800), DataType.FLOAT)
    off = b.map_("sub", x, b.reduce_("max", x, (1,)))
    return of(b.map_("sub", off, b.reduce_("sum", off, (1,))), x)


def columns() -> Graph:
    x = b.param("x", (11, 1300), DataType.FLOAT)
    return of(b.map_("sub", x, b.reduce_("sum", x, (0,))), x)


def window() -> Graph:
    x = b.param("x", (2, 40, 30), DataType.FLOAT)
    return of(b.taps(b.taps(x, 2, 61, BILINEAR), 1, 700, BILINEAR), x)


SHAPES = (points, tiles, rows, long_rows, columns, window)
# Some candidates, and the index of each among the tactics that level 4 measures.
WINNERS = (
    (points, Tuning(block=16384), 2, 4),
    (tiles, Tuning(without=("tile",)), 1, 6),
    (tiles, Tuning(run=128), 4, 6),
    (rows, Tuning(without=("distribute",)), 1, 3),
    (long_rows, Tuning(without=("unroll and jam",)), 1, 3),
    (long_rows, Tuning(without=("prefetch",)), 2, 3),
    (columns, Tuning(column=64), 1, 3),
    (window, Tuning(band=8), 1, 5),
)


def clock(*seconds: float):
    """A clock by which the tactics of a kernel take these times, in order."""

    def ticks():
        now = 0.0
        for passed in cycle(seconds):
            yield now
            now += passed
            yield now

    return ticks().__next__


def no_clock() -> float:
    raise AssertionError("nothing is to be measured")


def winning(graph: Graph, variant: int, count: int, **settings) -> BuildRequest:
    """A request whose clock makes one of the tactics twice as fast as the others."""
    seconds = [2 / 1024 if n != variant else 1 / 1024 for n in range(count)]
    return BuildRequest(
        "net", graph, settings=Settings(**{"optimization_level": 4, **settings}), clock=clock(*seconds)
    )


def kernels(graph: Graph, tuning: Tuning = MODEL, alone: frozenset = frozenset()) -> str:
    (_, root), *_ = graph.outputs
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}), alone, {root: tuning})
    return print_kernels(lowered.module.kernels)


def loaded(plan: bytes) -> str:
    """The kernels of a loaded plan."""
    return print_kernels(native.lower_plan(read_plan(plan)).module.kernels)


def notes_of(plan: bytes) -> tuple[str, ...]:
    """The content of the build report other than kernels and tensors."""
    return parse_report(read_plan(plan).plan.report).notes


@pytest.fixture(autouse=True, scope="module")
def _own_cache_and_the_usual_machine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    (folder / "machine.json").write_text(str(REFERENCE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_MACHINE", str(folder / "machine.json"))
        patch.setenv("ANYRT_CACHE_DIR", str(folder))
        yield


# ---- selected tactics ------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("shape", "tuning", "variant", "count"), WINNERS)
def test_the_fastest_variant_is_verified_and_comes_back_when_the_plan_is_loaded(
    shape, tuning, variant, count
):
    plan = native.build(winning(shape(), variant, count, verify=Verify.FULL))
    assert loaded(plan) == kernels(shape(), tuning) != kernels(shape())
    notes = notes_of(plan)
    assert notes[0] == "measured on 1 threads, at most 0.2 s for a kernel:"
    assert notes[1].startswith(f"  y: {tuning}, of model 1.953 ms (tactic {MODEL.tactic}); ")
    assert f"{tuning} 0.9766 ms (tactic {tuning.tactic})" in notes[1]
    assert notes[2] == "verified at 1 shapes"
    assert notes[1].count("tactic") == count


def test_level_5_measures_more_variants():
    plan = native.build(winning(columns(), 4, 6, optimization_level=5))
    assert loaded(plan) == kernels(columns(), Tuning(column=512))


@pytest.mark.parametrize(("seconds", "expected"), [(0.98e-3, MODEL), (0.96e-3, Tuning(column=64))], ids=str)
def test_a_variant_that_is_faster_by_noise_only_is_not_taken(seconds, expected):
    request = replace(winning(columns(), 1, 2, max_tactics=2), clock=clock(1e-3, seconds))
    assert loaded(native.build(request)) == kernels(columns(), expected)


def test_at_the_default_level_nothing_is_measured_read_or_remembered():
    known = winning(rows(), 1, 2)
    native.build(known)
    plain = BuildRequest("net", rows(), clock=no_clock, timings=dict(known.timings))
    plan = native.build(plain)
    assert plan == native.build(BuildRequest("net", rows()))
    assert "tunings" not in dict(read_plan(plan).plan.settings)
    assert plain.timings == known.timings


def test_no_more_variants_are_measured_than_the_settings_allow():
    request = winning(columns(), 1, 2, max_tactics=2)
    assert loaded(native.build(request)) == kernels(columns(), Tuning(column=64))
    assert native.build(
        replace(request, clock=no_clock, timings={}, settings=replace(request.settings, max_tactics=1))
    )


def test_kernels_that_fail_verification_are_tiled_by_the_cost_model(monkeypatch):
    wrong = frozenset({rows().outputs[0][1]})
    monkeypatch.setattr(driver, "verify", lambda *_, **__: ("wrong",))
    monkeypatch.setattr(driver, "groups_failed", lambda _: wrong)
    plan = native.build(winning(rows(), 1, 2, verify=Verify.FULL))
    assert "tunings" not in dict(read_plan(plan).plan.settings)
    assert loaded(plan) == kernels(rows(), alone=wrong)


def test_versions_for_equal_and_other_sizes_are_cut_alike():
    n, m = Sym("x.0", 1, 8), Sym("y.0", 1, 8)
    x, y = b.param("x", (n.dim, 20000), DataType.FLOAT), b.param("y", (m.dim, 20000), DataType.FLOAT)
    symbols = (Symbol(n, "x", 0), Symbol(m, "y", 0))
    graph = Graph((("x", x), ("y", y)), (("z", b.map_("add", x, y)),), {}, symbols)
    ranges = tuple(Range(name, False, (1, 20000), (4, 20000), (8, 20000)) for name in ("x", "y"))
    request = replace(winning(graph, 2, 4, verify=Verify.FULL), profiles=(ranges,))
    plan = native.build(request)
    assert "map (any sizes)" in loaded(plan)
    usual, chosen = (
        print_kernels(
            native.lower(
                graph, {}, Sizes({"x.0": 4, "y.0": 4}), tunings={graph.outputs[0][1]: c}
            ).module.kernels
        )
        for c in (MODEL, Tuning(block=16384))
    )
    assert loaded(plan) == chosen
    assert [a != b for a, b in zip(usual.split("kernel"), chosen.split("kernel"), strict=True)] == [
        False,
        True,
        True,
    ]


# ---- timing caches ---------------------------------------------------------------------------------------


def test_tactics_in_the_timing_cache_are_not_measured():
    request = winning(columns(), 2, 3)
    measured = native.build(request)
    assert list(request.timings.values()) == [(Tuning(column=1024).tactic, 1000 / 1024)]
    known = [native.build(replace(request, clock=no_clock)) for _ in range(2)]
    assert known[0] == known[1]
    assert loaded(known[0]) == loaded(measured)
    assert "  y: column=1024, as the timing cache says" in notes_of(known[0])


def test_an_entry_that_somebody_wrote_is_obeyed():
    request = winning(columns(), 2, 3)
    native.build(request)
    (key,) = request.timings
    edited = replace(request, clock=no_clock, timings={key: (Tuning(column=512).tactic, 99.0)})
    assert loaded(native.build(edited)) == kernels(columns(), Tuning(column=512))


def test_a_tactic_that_nobody_knows_is_measured_again():
    request = winning(columns(), 2, 3)
    native.build(request)
    (key,) = request.timings
    again = replace(winning(columns(), 1, 3), timings={key: (12345, 0.001)})
    assert loaded(native.build(again)) == kernels(columns(), Tuning(column=64))
    assert again.timings == {key: (Tuning(column=64).tactic, 1000 / 1024)}


def test_other_sizes_threads_and_processors_have_names_of_their_own(monkeypatch):
    class Two:
        threads, address = 2, 0

    wide = b.param("x", (67, 131), DataType.FLOAT)
    timings: dict[str, tuple[int, float]] = {}
    small = replace(winning(rows(), 1, 2), timings=timings)
    native.build(small)
    native.build(replace(small, graph=of(b.map_("sub", wide, b.reduce_("sum", wide, (1,))), wide)))
    monkeypatch.setattr(tune._Search, "_calls", lambda self, variants: [lambda: None] * len(variants))
    native.build(replace(small, pool=Two))
    assert len(timings) == 3
    monkeypatch.setenv("ANYRT_CPU", "sse2")
    native.build(small)
    assert len(timings) == 4


def test_dynamic_sizes_are_measured_for_each_optimum():
    n = Sym("x.0", 1, 64)
    x = b.param("x", (n.dim, 20000), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", b.map_("neg", x)),), {}, (Symbol(n, "x", 0),))
    request = winning(graph, 1, 2, max_tactics=2)
    for rows in (4, 5):
        profile = (Range("x", False, (1, 20000), (rows, 20000), (64, 20000)),)
        native.build(replace(request, profiles=(profile,)))
    assert len(request.timings) == 2


def test_a_build_without_timing_cache_neither_reads_nor_writes_it():
    request = winning(columns(), 2, 3, flags=1 << BuilderFlag.DISABLE_TIMING_CACHE)
    known = winning(columns(), 1, 3)
    native.build(known)
    apart = replace(request, timings=dict(known.timings))
    assert loaded(native.build(apart)) == kernels(columns(), Tuning(column=1024))
    assert apart.timings == known.timings


# ---- plans -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";;",
        "2",
        "2 column=1",
        "2 column=1000000",
        "2  column=1024",
        "2 column=1024 x",
        "² column=1024",
        "77 column=1024",
        "-1 column=1024",
    ],
)
def test_tunings_that_no_build_writes_leave_the_kernel_as_the_model_cuts_it(text):
    file = read_plan(native.build(winning(columns(), 2, 3)))
    assert ("tunings", "2 column=1024") in file.plan.settings
    settings = tuple((k, text if k == "tunings" else v) for k, v in file.plan.settings)
    result = native.lower_plan(replace(file, plan=replace(file.plan, settings=settings)))
    assert print_kernels(result.module.kernels) == kernels(columns())


def test_of_two_tunings_for_one_place_the_last_is_taken():
    assert parse_tunings("0 run=128;0 band=8", {"0": points().outputs[0][1]}) == {
        points().outputs[0][1]: Tuning(band=8)
    }


def test_tunings_print_to_text_and_numbers_of_their_own():
    shapes = (POINTS, ROWS, TILES, UNTILED, SLIDING)
    every = [MODEL, *(c for shape in shapes for some in shape for c in some)]
    assert [Tuning.parse(str(c)) for c in every] == every
    assert [Tuning.of_tactic(c.tactic) for c in every] == every
    assert (str(MODEL), MODEL.tactic) == ("model", 41503009610313173)


def test_tunings_leave_out_steps_that_there_are():
    every = {name for shape in (ROWS, UNTILED) for some in shape for c in some for name in c.without}
    assert every == {"distribute", "prefetch", "tile", "unroll and jam"}
    assert every <= STRATEGIES.names


# ---- every candidate is right ----------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_candidate_computes_the_same_in_the_same_memory(shape):
    graph = shape()
    (_, root), *_ = graph.outputs
    usual = native.lower(graph, {}, Sizes({}))
    (kernel,) = usual.module.kernels
    for tuning in sample(candidates(kernel, more=True), 3):
        lowered = native.lower(graph, {}, Sizes({}), tunings={root: tuning})
        assert verify(lowered, host(), [{}]) == (), str(tuning)
        assert [k.scratch for k in lowered.module.kernels] in ([kernel.scratch], [0])  # 0: one row at a time
        assert lowered.schedule.tables.needed == usual.schedule.tables.needed


def test_a_kernel_without_tiles_reads_what_tiles_have_stored():
    x, f = b.param("x", (333, 517), DataType.FLOAT), b.param("f", (1, 517), DataType.FLOAT)
    graph = of(b.transpose(b.map_("mul", x, b.map_("neg", f)), (1, 0)), x, f)
    (_, root), *_ = graph.outputs
    usual, result = (native.lower(graph, {}, Sizes({}), tunings=c) for c in (None, {root: UNTILED[0][0]}))
    assert [x.root for x in usual.schedule.launches] == [x.root for x in result.schedule.launches]
    assert usual.module.kernels[0] == result.module.kernels[0]
    assert verify(result, host(), [{}]) == ()


def test_each_thread_of_a_trial_has_scratch_of_its_own():
    class Three:
        threads, address = 3, 0

    result = load(native.lower(window(), {}, Sizes({})), host())
    trial = Trial(result, {}, Three())
    stride = int(trial.args[abi.SCRATCH_STRIDE])
    assert stride >= native.scratch_bytes(result.lowered) > 0
    assert trial.blocks["scratch"].nbytes == 3 * stride + GUARD


def test_a_trial_takes_memory_of_an_earlier_one_where_that_is_large_enough():
    first = Trial(load(native.lower(tiles(), {}, Sizes({})), host()), {})
    kept = dict(first.blocks)
    second = Trial(load(native.lower(points(), {}, Sizes({})), host()), {}, None, first.blocks)
    third = Trial(load(native.lower(window(), {}, Sizes({})), host()), {}, None, second.blocks)
    assert [third.blocks[n] is kept[n] for n in ("tensor x", "tensor y", "scratch")] == [True, True, False]


# ---- limits and cancellation -----------------------------------------------------------------------------


def test_a_build_is_cancelled_between_two_measurements():
    runs: list[float] = []
    request = winning(columns(), 2, 3)

    def counted() -> float:
        runs.append(request.clock())
        return runs[-1]

    with pytest.raises(BuildCancelled, match="AR804"):
        native.build(replace(request, clock=counted, cancelled=lambda: len(runs) >= 6))
    assert (len(runs), request.timings) == (6, {})


def test_a_monitor_gets_steps_of_measuring_and_can_cancel_it():
    heard: list[tuple] = []

    class Monitor:
        def start(self, phase, parent, steps):
            heard.append((phase, parent, steps))

        def step(self, phase, step):
            heard.append((phase, step))
            return phase != "Measure kernels"

        def finish(self, phase):
            heard.append((phase,))

    with pytest.raises(BuildCancelled, match=diagnostic("AR804", "net", "'Measure kernels'")):
        native.build(replace(winning(columns(), 2, 3), monitor=Monitor()))
    assert heard[1:] == [
        ("Building engine", 0),
        ("Schedule kernels", "Building engine", 1),
        ("Schedule kernels", 0),
        ("Schedule kernels",),
        ("Measure kernels", "Building engine", 1),
        ("Measure kernels", 0),
        ("Measure kernels",),
        ("Building engine",),
    ]


def test_networks_with_too_many_bytes_are_not_measured(monkeypatch):
    monkeypatch.setattr(tune, "ROOM", 2 * 11 * 1300 * 4 - 1)
    plan = native.build(replace(winning(columns(), 2, 3), clock=no_clock))
    assert loaded(plan) == kernels(columns())
    assert "no kernel was measured: 114400 bytes of tensors are too many" in notes_of(plan)


def test_an_optimum_that_the_network_rejects_is_not_measured():
    """Reading 16 MB from a tensor of four bytes would crash the process."""
    n = Sym("x.0", 1, 2048)
    x = b.param("x", (n.dim, n.dim), DataType.FLOAT)
    graph = replace(of(b.map_("neg", b.reshape(x, (1024, 4096))), x), symbols=(Symbol(n, "x", 0),))
    ranges = (Range("x", False, (1, 1), (1, 1), (2048, 2048)),)
    plan = native.build(replace(winning(graph, 2, 4), profiles=(ranges,), clock=no_clock))
    assert "no kernel was measured: the network cannot run at the optimum" in read_plan(plan).plan.report


def test_without_memory_for_a_trial_the_model_decides(monkeypatch):
    def none(*_: object) -> None:
        raise ResourceError("AR802", "host memory")

    monkeypatch.setattr(tune, "Trial", none)
    request = replace(winning(columns(), 2, 3), clock=no_clock)
    plan = native.build(request)
    assert (loaded(plan), request.timings) == (kernels(columns()), {})
    assert "y: not measured: [AR802] host memory" in read_plan(plan).plan.report


def test_a_memory_limit_is_looked_at_before_measuring():
    request = winning(window(), 1, 5, memory_limit=10)
    with pytest.raises(ResourceError, match="AR801"):
        native.build(replace(request, clock=no_clock))


def test_a_kernel_that_takes_too_long_is_not_measured_to_the_end():
    request = replace(winning(columns(), 2, 3), clock=clock(0.09))
    plan = native.build(request)
    assert (loaded(plan), request.timings) == (kernels(columns()), {})
    assert "y: not measured: it takes too long" in read_plan(plan).plan.report
