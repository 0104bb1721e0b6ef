"""The measuring code: AnyRT and NumPy agree with the reference, limits move all bytes, tables, comparison."""

import errno
import os
from dataclasses import replace

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import ResourceError
from benchmarks import __main__ as cli
from benchmarks import engines, limit, measure, record, table
from benchmarks.compare import comparison
from benchmarks.layers import goals, report
from benchmarks.layers.cases import CASES, SPELLED, TINY, Case, Layer
from benchmarks.layers.reference import LANGUAGE
from benchmarks.machine import Machine
from benchmarks.peers import NAMES, Way, load_peers
from benchmarks.probe import Probe
from benchmarks.record import Crowd, Entry, Results, Row
from benchmarks.registry import LAYERS as SUITE
from benchmarks.steps import (
    Cast,
    Dequantize,
    Element,
    Grid,
    Mode,
    Norm,
    Quantize,
    Reach,
    Reshape,
    Resize,
    Scale,
    Silu,
    Statistics,
    Tensor,
    Transpose,
)
from tests.messages import values_in_order

F32, BF16, U8, I8 = Element.F32, Element.BF16, Element.U8, Element.I8
TWICE = (1.0, 1.0, 2.0, 2.0)
SMALL = [
    ((Scale(Reach.CHANNEL),), F32),
    ((Scale(Reach.ELEMENTWISE, shift=False),), BF16),
    ((Scale(Reach.UNIFORM, power=1.7),), F32),
    ((Dequantize(1 / 32), Scale(Reach.CHANNEL), Quantize(1 / 16)), I8),
    ((Resize(Mode.NEAREST, scales=TWICE, grid=Grid.ASYMMETRIC),), F32),
    ((Resize(Mode.LINEAR, (1, 4, 7, 9)),), U8),
    ((Resize(Mode.CUBIC, (1, 4, 9, 11)),), F32),
    ((Transpose((0, 2, 3, 1)), Reshape((0, -1))), U8),
    ((Norm(Statistics.LAYER),), F32),
    ((Norm(Statistics.RMS),), BF16),
    ((Norm(Statistics.GROUP, groups=2), Silu()), F32),
    ((Norm(Statistics.INSTANCE),), F32),
    ((Cast(F32), Resize(Mode.LINEAR, scales=TWICE), Scale(Reach.CHANNEL), Transpose((0, 2, 3, 1))), U8),
]


def prepared(case, name):
    return load_peers((name,))[0][name].prepare(LANGUAGE.task(case, 1)[0])


def is_right(case, way):
    way.run()
    return LANGUAGE.distance(case, LANGUAGE.task(case, 1)[1], way.result())[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["anyrt", "numpy"])
@pytest.mark.parametrize(("steps", "dtype"), SMALL, ids=lambda x: str(x)[:30])
def test_results_agree_with_the_reference(steps, dtype, name):
    low = 0.25 if any(isinstance(s, Scale) and s.power == 1.7 for s in steps) else -2.0
    case = Case("small", Layer.CHAIN, Tensor((1, 4, 5, 6), dtype), steps, low=low)
    ways = prepared(case, name)
    assert ways
    assert all(is_right(case, way) for way in ways)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["anyrt", "numpy"])
@pytest.mark.parametrize("case", SPELLED, ids=lambda c: c.name)
def test_other_spellings_agree_with_the_reference(case, name):
    case = replace(case, input=Tensor((1, 3, case.input.shape[-1]), case.input.dtype))
    (way,) = prepared(case, name)
    assert is_right(case, way)


def test_a_dynamic_engine_serves_every_shape():
    shapes = ((1, 4, 5, 6), (2, 4, 5, 6), (3, 4, 9, 6))
    for shape in shapes:
        step = Resize(Mode.LINEAR, scales=TWICE)
        case = Case("small", Layer.CHAIN, Tensor(shape, F32), (step,), dynamic=shapes)
        ways = prepared(case, "anyrt")
        assert [w.label for w in ways] == ["", "dynamic"]
        assert is_right(case, ways[1])


def test_plain_calls_give_the_result():
    (way,) = load_peers(("anyrt",))[0]["anyrt"].plain(LANGUAGE.task(TINY, 1)[0])
    assert is_right(TINY, way)


def test_a_peer_that_is_not_installed_is_named_with_the_reason():
    here, missing = load_peers(("numpy", "nobody"))
    assert list(here) == ["numpy"]
    assert "nobody" in missing["nobody"]


def test_engines_of_bfloat16_have_memory():
    builder, network, config = engines.empty(1)
    layer = network.add_activation(network.add_input("x", trt.bfloat16, (2, 3)), trt.ActivationType.RELU)
    network.mark_output(layer.get_output(0))
    way = engines.bound(bytes(engines.built((builder, network, config))))
    way.run()
    assert {x.dtype for x in way.result()} == {BF16.numpy}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("read", "written"), [(4096, 4096), (1 << 16, 5000), (640, 1 << 17), (192, 100)])
def test_limits_write_every_whole_cache_line(read, written, threads):
    for way in limit.ways(read, written, threads):
        (copied,) = way.result()
        copied[:] = 0
        way.run()
        most = max(read, written) if way.label == limit.MEMCPY else written // 64 * 64
        assert np.count_nonzero(copied) == most
        assert copied[:most].all()


def test_measure_runs_all_entries_alternately_forwards_and_backwards():
    calls = []
    ways = [Way(n, lambda n=n: calls.append(n)) for n in "abc"]
    effort = measure.Effort(runs=2, least_burst=1, most_burst=1, pause_s=0, patience_s=0)
    times = measure.measure(ways, effort, Probe(1, 0))
    assert [t.runs for t in times] == [2, 2, 2]
    assert "".join(calls[-18:]) == "aaabbbcccccc" + "bbbaaa"


MACHINE = Machine("a processor", 2, "L1", "avx2", "Linux", "Python", "0.1.0", {"AnyRT": "1"}, {"jax": "no"})


def row(case="scale_a", ours=10.0, other=20.0, known=None, threads=2):
    entries = (
        Entry("anyrt", "", ours, ours, 30, 0.5),
        Entry("anyrt", "dynamic", 2 * ours, ours, 30, 0.5),
        Entry("torch", "", other, other, 30, 1.0),
        Entry("torch", "channels last", 3 * other, other, 30, 1.0),
    )
    facts = {"build_s": 0.1, "load_s": 0.001}
    left = {"opencv": "cannot: no", "jax (x)": "wrong: 9 ulp"}
    return Row(case, "Scale", threads, 25.0, 25.0, 25.0, known, entries, left, facts, 0, 60)


def test_verdicts_name_what_is_missing():
    assert goals.verdict(row()) == ""
    assert goals.verdict(row(ours=20.5)) == ""
    assert goals.verdict(row(ours=30.0)) == "slower than torch"
    assert goals.verdict(row(ours=19.0, known=0.5)) == "above 1.2 × C (0.50)"
    assert goals.verdict(replace(row(), limit=30.0)) == "limit is slower than memcpy"
    assert goals.verdict(replace(row(), entries=(), left_out={"anyrt": "wrong: 9 ulp"})) == "wrong: 9 ulp"


def test_tables_compare_with_the_best_peer_and_the_limit():
    rows = (row(), row("scale_b_f16", 40.0), row("scale_b", 100.0))
    results = Results(MACHINE, rows, (row("call"),), (Crowd("scale_a", 2, 10.0, 15.0),))
    layers, cases, peers, halves, dynamic, building, crowds, calls = report.tables(results)
    assert layers.rows[0][:4] == ("Scale", "3", "1 of 3", "0.585")
    assert cases.rows[0][:8] == ("scale_a", "25.0", "10.0", "10.0", "0.400", "20.0", "torch", "2.00")
    assert peers.columns == ("case", "torch", "jax", "opencv")
    assert peers.rows[0] == ("scale_a", "2.00", "wrong", "–")
    assert halves.rows == (("scale_b_f16", "40.0", "100", "0.400"),)
    assert dynamic.rows[0] == ("scale_a", "20.0", "10.0", "2.00")
    assert building.rows[1][:3] == ("load, warm cache", "1.00", "1.00")
    assert crowds.rows == (("scale_a", "2", "10.0", "15.0", "1.50"),)
    assert calls.rows[0] == ("anyrt", "bound", "10.0", "10.0", "1.5")


def test_other_spellings_have_tables_of_their_own():
    name = Layer.SPELLED.value
    spelled = (replace(row("spelled_a"), layer=name), replace(row("spelled_b", 40.0), layer=name))
    plain = report.tables(Results(MACHINE, (row(),), ()))
    both = report.tables(Results(MACHINE, (row(), *spelled), ()))
    assert both[: len(plain)] == plain
    goal, cases, peers = both[len(plain) :]
    assert goal.title == "Normalisation in other spellings, 2 threads"
    assert goal.rows == ((name, "2", "1 of 2", "1.00", "0.500", "1", "0.800", "", "no"),)
    assert [r[0] for r in cases.rows] == [r[0] for r in peers.rows] == ["spelled_a", "spelled_b"]
    assert [t.title for t in report.tables(Results(MACHINE, spelled, ()))] == [t.title for t in both[-3:]]


def test_results_survive_a_file(tmp_path):
    results = Results(MACHINE, (row(), row(threads=1)), (row("call"),), (Crowd("scale_a", 2, 10.0, 15.0),))
    record.write(tmp_path / "lines", results)
    assert record.read(tmp_path / "lines") == results


def test_comparison_shows_what_became_slower_first():
    old = Results(MACHINE, (row("a"), row("b"), row("only old")), ())
    new = Results(MACHINE, (row("a", 5.0), row("b", 20.0), row("only new")), ())
    rows = comparison(old, new).rows
    assert rows[0] == ("b", "2", "10.0", "20.0", "2.00", "2.00", "slower")
    assert rows[1] == ("a", "2", "10.0", "5.00", "0.500", "0.500", "faster")
    assert rows[2][4:6] == ("1.00", "1.00")


def test_the_document_holds_the_machine_and_the_tables_of_one_run(tmp_path):
    path = tmp_path / "docs" / "layers.md"
    SUITE.write(path, Results(MACHINE, (row("earlier"),), ()))
    SUITE.write(path, Results(MACHINE, (row(),), ()))
    text = path.read_text()
    assert "earlier" not in text
    assert "- a processor, 2 cores" in text
    assert "- Missing: jax (no)" in text
    assert "| scale_a | 25.0 | 10.0 |" in text


def test_tables_are_shown_on_a_terminal(capsys):
    table.show([table.Table("Sums", ("a", "b"), (("1", "2"),), "A note.")])
    shown = capsys.readouterr().out
    assert "Sums" in shown
    assert "A note." in shown


def test_the_command_lists_cases_and_rejects_unknown_ones(capsys, tmp_path):
    cli.main(["list", "--only", "spelled_ln_pow_avg_sqrt_8"])
    assert capsys.readouterr().out == "spelled_ln_pow_avg_sqrt_8x512x768\n"
    cli.main(["list", "--only", "norm_ln_8x512x768"])
    assert capsys.readouterr().out == "norm_ln_8x512x768\n"
    with pytest.raises(SystemExit, match=values_in_order("--only", "'nothing like this'")):
        cli.main(["ops", "--only", "nothing like this"])
    with pytest.raises(SystemExit, match=values_in_order("--only", "'('", "unterminated subpattern")):
        cli.main(["list", "--only", "("])
    path = tmp_path / "lines"
    record.write(path, Results(MACHINE, (row(),), ()))
    cli.main(["compare", str(path), str(path)])
    cli.main(["report", str(path), "--markdown", str(tmp_path / "p.md")])
    assert "1.00" in capsys.readouterr().out


def test_one_case_from_end_to_end(tmp_path):
    path = tmp_path / "lines"
    arguments = ["--only", "^scale_c_L1_", "--peers", "anyrt,numpy", "--threads", "1", "--json", str(path)]
    cli.main(["ops", "--quick", *arguments])
    results = record.read(path)
    (result,) = results.rows
    assert {e.peer for e in result.entries} == {"anyrt", "numpy"}
    assert result.limit > 0
    assert results.calls[0].entry("anyrt", "plain").runs > 0


def test_every_peer_has_a_file():
    assert NAMES[0] == "anyrt"
    assert len(CASES) > 100


@pytest.mark.parametrize("write", [record.write, SUITE.write], ids=["record", "document"])
def test_results_are_written_whole_or_not_at_all(write, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "results"
    path.write_text("those before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError, match=r"AR803.*results"):
        write(path, Results(MACHINE, (row(),), ()))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("results", "those before")]
