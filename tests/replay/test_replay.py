"""Replay: changes that affect digests and changes that do not, in separate trees."""

import os
import re
import shutil

import pytest

from tools.replays.work import ROOT, answers

NORM = "layers/norm_ln_8x512x768"
STRATEGY = "REDUCTION: Strategy"  # in the file that is changed


def rows_of(tree, *names, machines=("avx2",)):
    return sorted(a.row for a in answers(tree, names, machines, jobs=1))


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def changed(tree, old, new):
    (path,) = (p for p in (tree / "src").rglob("*.py") if STRATEGY in p.read_text())
    text, count = re.subn(old, new, path.read_text())
    assert count, f"{path.name} has no {old}"
    path.write_text(text)
    return tree


def test_another_factor_of_a_strategy_changes_digests(copied):
    (before,), (after,) = rows_of(ROOT, NORM), rows_of(changed(copied, "LONG = 32", "LONG = 0"), NORM)
    assert (before.count, before.refused) == (after.count, after.refused)
    assert before.loops != after.loops
    assert before.llvm != after.llvm


def test_another_name_for_a_variable_of_a_strategy_changes_none(copied):
    assert rows_of(changed(copied, r"\bweight\b", "heft"), NORM) == rows_of(ROOT, NORM)


def test_processes_that_hash_otherwise_give_equal_digests(monkeypatch):
    names = (NORM, "contractions/product_512x512x512_i8", "families/topk_1024x64_4_axis0", "random/graph_3")
    rows = []
    for seed in ("1", "2"):
        monkeypatch.setitem(os.environ, "PYTHONHASHSEED", seed)
        rows.append(rows_of(ROOT, *names, machines=("amx", "neon")))
    assert rows[0] == rows[1]
    assert len(rows[0]) == 8


@pytest.mark.parametrize(
    "name", ["contractions/product_512x512x512_bf16", "contractions/product_512x512x512_i8"]
)
def test_products_of_half_types_and_of_bytes_reach_the_tiles_of_amx(name):
    (answer,) = answers(ROOT, [name], ["amx"], jobs=1, texts=True)
    assert any("llvm.x86.tdp" in k.llvm_text for k in answer.kernels)
