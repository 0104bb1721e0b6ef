"""The benchmark of builds: rows, goals, tables; processes that build and fail."""

import doctest
import json
import math
import random
import subprocess
import sys
from dataclasses import replace

import llvmlite.binding as llvm
import pytest

import anyrt as trt
from anyrt.compiler import report as compiler_report
from benchmarks import __main__ as cli
from benchmarks import build_session, building, builds, clock, networks, random_graphs, random_networks
from benchmarks.build_session import Order
from benchmarks.building import FORMS, Job
from benchmarks.builds import ROWS, Built, Kind, Row, faults, requirement, tables
from benchmarks.child import call
from benchmarks.clock import Outcome
from benchmarks.networks import Part
from benchmarks.random_graphs import Seeded

LAYERS = ["IActivationLayer", "INormalizationLayer", "IElementWiseLayer", "IResizeLayer", "IShuffleLayer"]


def described(network, size):
    """A network with its output marked, and its builder."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    net = builder.create_network()
    net.mark_output(network(net, size))
    return builder, net


def computing(network):
    """The layers other than constants."""
    layers = [network.get_layer(k) for k in range(network.num_layers)]
    return [x for x in layers if not isinstance(x, trt.IConstantLayer)]


def test_rows_have_the_required_sizes():
    sizes = {}
    for row in ROWS:
        sizes.setdefault((row.network, row.kind), []).append(row.size)
    cold = {network: counts for (network, kind), counts in sizes.items() if kind is Kind.COLD}
    assert cold == {
        "residual": [1, 3, 12, 48],
        "gelu": [1, 2, 6, 12, 48],
        "linear": [9],
        "cubic": [4],
        "normalizations": [10, 50, 200],
        "mixed": [10, 50, 200, 1000, 3000],
        "varied": [200, 1000],
    }
    assert sizes["mixed", Kind.AGAIN] == [200, 1000]
    assert len({r.name for r in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", [r for r in ROWS if r.network], ids=lambda r: r.name)
def test_networks_of_rows_and_of_their_parts_are_legal(row):
    for name, size in {(row.network, min(row.size, 12)), *((p.network, p.size) for p in row.parts)}:
        builder, network = described(getattr(networks, name), size)
        assert builder.is_network_supported(network, builder.create_builder_config())
    assert not row.form or row.form in FORMS


def test_resizes_in_a_row_are_measured_beside_each_of_them_alone():
    row = next(r for r in ROWS if r.network == "cubic")
    assert row.parts == tuple(Part("one_cubic", k) for k in (1, 2, 3, 4))
    _, whole = described(networks.cubic, 4)
    alone = [described(networks.one_cubic, k)[1].get_layer(0) for k in (1, 2, 3, 4)]
    assert [tuple(x.shape) for x in alone] == [tuple(x.shape) for x in computing(whole)]


def test_blocks_are_measured_beside_one_of_them():
    row = next(r for r in ROWS if r.name == "gelu 12, cold")
    assert (row.parts, row.times) == ((Part("gelu", 1, 12),), 1.15)


def test_the_mixed_chain_has_as_many_layers_as_it_says():
    _, network = described(networks.mixed, 13)
    assert [x.__class__.__name__ for x in computing(network)] == (LAYERS * 3)[:13]


def test_every_unit_of_the_varied_chain_is_different():
    _, network = described(networks.varied, 1000)
    layers = computing(network)
    assert len({(x.type, x.alpha) for x in layers[0::5]}) == 200
    assert len({tuple(x.shape) for x in layers[3::5]}) == 200


@pytest.mark.parametrize("seed", range(0, 100, 5))
def test_random_networks_are_legal_and_follow_from_the_seed(seed):
    builder, network = described(random_networks.random_network, seed)
    config, shape = builder.create_builder_config(), tuple(network.get_input(0).shape)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", *(tuple(n if d < 0 else d for d in shape) for n in (1, 4, 8)))
    config.add_optimization_profile(profile)
    assert builder.is_network_supported(network, config)
    _, second = described(random_networks.random_network, seed)
    names = [[type(n.get_layer(k)) for k in range(n.num_layers)] for n in (network, second)]
    assert names[0] == names[1]


def test_random_graphs_follow_from_the_seed_and_have_profiles_for_open_sizes():
    one, same, other = (repr(random_graphs.random_case(Seeded(random.Random(k)))) for k in (7, 7, 8))
    assert one == same != other
    for seed in range(30):
        request = random_graphs.request(seed, 20, 1, 4, 8)
        assert len(request.profiles) == bool(request.graph.symbols)


LIMITED = Row(Kind.COLD, "mixed", 10, cpu_s=0.5, peak_mb=600, times=1.15)
GOOD = Outcome(cpu_s=0.4, wall_s=9.0, peak_mb=200.0, run_us=11.0, parts_us=10.0)


def test_faults_name_what_is_missing():
    assert faults(Built(LIMITED, GOOD)) == ""
    assert faults(Built(LIMITED, replace(GOOD, cpu_s=0.7))) == "0.700 s"
    assert faults(Built(LIMITED, replace(GOOD, peak_mb=700.0, run_us=12.0))) == "700 MB, 1.20 × the parts"
    assert faults(Built(LIMITED, replace(GOOD, run_us=None))) == "no inference was measured"
    assert faults(Built(LIMITED, Outcome(error="not done after 9 s"))) == "not done after 9 s"
    again = Row(Kind.AGAIN, "mixed", 10, cpu_s=0.5)
    assert faults(Built(again, Outcome(cpu_s=0.1, modules=2))) == "LLVM ran 2 times"
    some = Row(Kind.RANDOM_LAYERS, "", 10, cpu_s=2.0, usual_s=0.7)
    assert faults(Built(some, Outcome(cpu_s=1.0), usual_s=0.8)) == "0.800 s for 99%"


def test_goals_are_shown():
    assert requirement(LIMITED) == "≤ 0.500 s, 600 MB, 1.15 × the parts"
    assert requirement(Row(Kind.AGAIN, "mixed", 10, cpu_s=0.5)) == "≤ 0.500 s, no LLVM"
    assert requirement(Row(Kind.WEIGHTS, "weights", 1, wall_s=0.01)) == "≤ 0.0100 s of wall"


def test_of_random_networks_the_worst_counts_and_the_slow_ones_are_named():
    row = Row(Kind.RANDOM_LAYERS, "", 200, cpu_s=2.0, usual_s=0.7)
    outcomes = [Outcome(cpu_s=0.1)] * 197 + [Outcome(cpu_s=x) for x in (0.6, 0.9, 0.8)]
    built = build_session.worst(row, outcomes)
    assert (built.outcome.cpu_s, built.usual_s, built.slow) == (0.9, 0.6, (198, 199))


def test_growth_is_judged_where_it_shows():
    def line(slope):
        outcomes = {n: Outcome(cpu_s=n**slope) for n in (10, 200, 1000, 3000)}
        built = [Built(Row(Kind.COLD, "mixed", n), x) for n, x in outcomes.items()]
        return tables(built)[0].rows[-1]

    assert line(1.05)[:2] == ("mixed, exponent from 200 to 3000", "1.05")
    assert [line(1.05)[-1], line(1.15)[-1]] == ["yes", "no"]


def test_tables_show_builds_and_loads():
    built = Built(LIMITED, replace(GOOD, kernels=3, text_kb=500.0, largest_kb=250.0))
    loaded = Built(
        Row(Kind.WEIGHTS, "weights", 1, wall_s=0.01, form="mapped file"), Outcome(wall_s=0.02, copies=1.0)
    )
    one, two = tables([built, loaded])
    assert one.rows[0][:6] == ("mixed 10, cold", "0.400", "9.00", "200", "3", "500")
    assert one.rows[1][0] == "largest kernel, in mixed 10, cold"
    assert (one.rows[1][6], one.rows[1][-1]) == ("250", "no")
    assert two.rows == (("mapped file", "20.0", "1.00", "≤ 0.0100 s of wall", "no: 0.0200 s of wall"),)


def test_a_large_kernel_holds_if_the_build_report_says_why():
    outcome = replace(GOOD, largest_kb=250.0, reason="40 vector loops; 3 tiles")
    assert tables([Built(LIMITED, outcome)])[0].rows[1][-1] == "yes: 40 vector loops; 3 tiles"
    assert tables([Built(LIMITED, replace(outcome, largest_kb=150.0))])[0].rows[1][-1] == "yes"
    assert tables([Built(LIMITED, replace(outcome, reason=""))])[0].rows[1][-1] == "no"


def test_the_reason_for_the_largest_kernel_comes_from_the_build_report(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    *_, outcome = building.build(Job("residual", 1))
    assert outcome.reason == ""
    monkeypatch.setattr(compiler_report, "MUCH", 0)
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "other"))
    *_, outcome = building.build(Job("residual", 1))
    assert "vector loops, the largest of" in outcome.reason


def test_a_report_without_a_reason_gives_none():
    lines = [
        "  k1: layer; touches 8 bytes",
        "9 KB of LLVM text in 2 different kernels, 8 KB in the largest, k1",
    ]
    assert building.reason_of_largest("\n".join([*lines, "  k2: 9 vector loops"])) == ""
    assert building.reason_of_largest("\n".join([*lines, "  k2: 9 tiles", "  k1: 7 tiles"])) == "7 tiles"
    assert building.reason_of_largest("") == ""


def test_every_kind_of_row_has_actions():
    assert {*build_session.ACTIONS, *build_session.SEEDED} == set(Kind)


def test_values_of_a_process_survive_and_the_last_one_counts():
    assert call(divmod, (7, 2)).value == (3, 1)
    job = Job("residual", 3, parts=(Part("residual", 1, 3),))
    assert call(iter, ((1, job),)).value == job


def test_a_process_that_has_no_time_is_stopped(tmp_path):
    order = Order(runs=1, threads=1, timeout_s=0.01)
    assert (
        build_session.child(building.build, Job("residual", 1), order, tmp_path).error
        == "not done after 0.01 s"
    )


def test_an_exception_of_a_build_is_its_outcome(tmp_path):
    order = Order(runs=1, threads=1, timeout_s=60)
    outcome = build_session.child(building.load, Job(plan=str(tmp_path / "none")), order, tmp_path)
    assert outcome.error.startswith("FileNotFoundError")


def test_another_tree_is_the_one_that_builds(tmp_path):
    order = Order(runs=1, threads=1, timeout_s=60, tree=tmp_path)
    (tmp_path / "src" / "anyrt").mkdir(parents=True)
    (tmp_path / "src" / "anyrt" / "__init__.py").write_text("raise ImportError('the other tree')")
    assert "the other tree" in build_session.child(building.build, Job("residual", 1), order, tmp_path).error


def test_seconds_of_other_processes_count_while_they_live_and_after():
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = clock.cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", busy], stdin=-1, stdout=-1) as child:
        child.stdout.readline()
        living = clock.cpu_seconds() - before
    assert 0.25 < living < clock.cpu_seconds() - before + 0.05


def test_texts_that_llvm_gets_are_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    with clock.measured() as measurements:
        llvm.parse_assembly("define void @f() { ret void }").close()
    assert measurements[0].modules == 1
    assert measurements[0].peak_mb > 10


def test_one_row_from_end_to_end(tmp_path, capsys):
    path = tmp_path / "lines"
    cli.main(["build", "--only", "^residual 1,", "--threads", "1", "--json", str(path)])
    machine, line = map(json.loads, path.read_text().splitlines())
    assert (machine["kind"], line["name"], line["error"]) == ("machine", "residual 1, cold", "")
    assert line["modules"] >= 1
    assert line["kernels"] >= 1
    assert 0.3 < line["run_us"] / line["parts_us"] < 3
    assert "| residual 1, cold |" in capsys.readouterr().out


def test_examples_in_docstrings_hold():
    assert doctest.testmod(builds).failed == 0
    assert doctest.testmod(building).failed == 0
    assert math.isclose(builds.exponent([(1, 1), (10, 100)]), 2)
