"""The comparison of two source trees: ratios, tables and processes."""

import doctest
import json
import subprocess
import sys

import pytest

from benchmarks import __main__ as cli
from benchmarks import trees
from benchmarks.layers.cases import CASES
from benchmarks.trees import ROOT, EndedError, Pair, Process, compared, joined, tables


def pair(ratio, noise=0.0, case="norm_ln_8x512x768"):
    return Pair(case, "", 10.0, 10.0 * ratio, ratio, noise)


def test_neighbours_are_compared_so_that_drift_does_not_count():
    old = [10.0, 20.0, 40.0, 80.0]
    comparison = compared("case", "dynamic", old, [1.1 * x for x in old])
    assert comparison.ratio == pytest.approx(1.1)
    assert comparison.noise == pytest.approx(0)
    assert (comparison.old_us, comparison.name) == (30.0, "case (dynamic)")


def test_noise_is_how_far_the_median_may_be_off():
    comparison = compared("case", "", [10.0] * 16, [9.0, 10.0, 11.0, 12.0] * 4)
    assert comparison.noise == pytest.approx(1.57 * 0.25 / 4)


def test_verdicts_count_what_is_beyond_noise():
    assert [pair(r).verdict for r in (1.0, 1.031, 0.969)] == ["", "slower", "faster"]
    assert [pair(r, 0.02).verdict for r in (1.04, 1.06)] == ["", "slower"]
    assert pair(1.06, 0.04).verdict == "unclear"
    assert Pair("case", "", error="old: no").verdict == "old: no"


def test_a_case_that_is_slower_in_one_process_only_is_not_slower():
    assert joined([pair(1.2), pair(1.0), pair(1.01)]) == pair(1.01, pytest.approx(0.1))
    assert joined([pair(1.2), pair(1.22), pair(1.21)]).verdict == "slower"


@pytest.mark.parametrize("first", [1.2, 0.8])
def test_apparent_differences_are_measured_again_in_new_processes(first, monkeypatch):
    ratios = iter([first, 1.0, 1.01])
    monkeypatch.setattr(trees, "_batch", lambda names, order: [pair(next(ratios))])
    (result,) = trees.pairs(["norm_ln_8x512x768"], trees.Order(ROOT, ROOT, 1, trees.Effort()))
    assert result.ratio in (1.0, 1.01)
    assert list(ratios) == []


def test_a_file_of_a_run_that_was_stopped_is_read_but_for_its_last_case(tmp_path):
    pairs = [pair(1.1), pair(1.2, case="a"), pair(0.9, case="b"), Pair("b", "dynamic", error="old: no")]
    lines = [trees.line_of(p) for p in pairs]
    (tmp_path / "lines").write_text("\n".join(['{"kind": "machine"}', *lines, lines[0][:20]]))
    assert trees.read(tmp_path / "lines") == pairs[:2]


def test_a_line_of_a_commit_has_no_spaces_in_its_case():
    assert trees.said(Pair("residual 1", "", 12.0, 11.0, 0.92, 0.01)) == (
        "times: residual_1 12.0 → 11.0 µs, 0.920 ± 0.010"
    )


def test_tables_show_the_slower_ones_first_and_count_by_layer():
    pairs = [pair(0.5), pair(1.2), pair(1.0, case="scale_u_8x64x112x112"), Pair("list", "", error="old: no")]
    cases, layers = tables(pairs)
    assert [r[3] for r in cases.rows] == ["", "1.200", "1.000", "0.500"]
    assert layers.rows == (
        ("Scale", "1", "1.000", "0", "0", "0"),
        ("Normalization", "2", "0.775", "1", "1", "0"),
        ("all", "3", "0.843", "1", "1", "0"),
    )


def test_a_layer_that_is_slower_on_the_mean_is_bold():
    means = [tables([pair(r), pair(1.0)])[1].rows[0][2] for r in (1.03, 1.06)]
    assert means == ["1.015", "**1.030**"]


def test_a_process_needs_nothing_of_the_compiler_beside_the_api():
    ask = "import sys, benchmarks.tree; print(*(m for m in sys.modules if m.startswith('benchmarks.')))"
    done = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True)
    names = {n.partition(".")[2] for n in done.stdout.split()}
    few = {"engines", "language", "layers", "layers.formula", "measure", "networks", "peers", "peers.anyrt"}
    assert names <= few | {"random_networks", "steps", "tree", "values"}


def test_a_process_reports_why_a_build_fails_and_its_end_is_noticed():
    with Process(ROOT, threads=1) as process:
        assert process.prepare("nothing 1").startswith("AttributeError")
        ways = [*process.prepare("scale_c_L1_1x4x32x32"), *process.prepare("normalizations 1")]
        assert [(w.number, w.label) for w in ways] == [(0, ""), (1, "")]
        assert process.run(1, 3) > 0
        with pytest.raises(EndedError, match="ended with status 1"):
            process.run(2, 3)


def test_a_tree_without_the_library_is_named(tmp_path):
    order = trees.Order(tmp_path, ROOT, 1, trees.Effort())
    (result,) = trees.pairs([CASES[0].name], order)
    assert result.error == f"the process of {tmp_path} ended with status 1"


@pytest.mark.rare
def test_one_case_from_end_to_end(tmp_path, capsys):
    path = tmp_path / "lines"
    arguments = ["--old", str(ROOT), "--only", "^shuffle_t2d_L1_64$", "--threads", "1", "--json", str(path)]
    cli.main(["trees", "--quick", *arguments])
    machine, line = map(json.loads, path.read_text().splitlines())
    assert (machine["kind"], line["kind"], line["error"]) == ("machine", "pair", "")
    assert 0.3 < line["ratio"] < 3
    assert "shuffle_t2d_L1_64" in capsys.readouterr().out


def test_examples_in_docstrings_hold():
    assert doctest.testmod(trees).failed == 0
