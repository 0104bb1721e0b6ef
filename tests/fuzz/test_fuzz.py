"""Changed plans and models, and calls in any order: only errors with codes, no crash, no hang.

ANYRT_FUZZ=1000 python -m pytest tests/fuzz    a long run: this many cases of each kind
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tools.fuzz.__main__ as runner
from tests.sampling import FUZZ, tries

HERE = Path(__file__).parent
BATCHES = 2 if FUZZ else 1
PROGRAMS = {"mutate_plans.py": 40, "mutate_calls.py": 30, "mutate_models.py": 200}  # daily cases


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of the fuzzers: a separate cache, two threads, a trace at a crash."""
    switches = {"ANYRT_NUM_THREADS": "2", "PYTHONFAULTHANDLER": "1", "PYTHONWARNINGS": "error"}
    path = os.pathsep.join((str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")))
    switches["PYTHONPATH"] = path.rstrip(os.pathsep)
    return {**os.environ, "ANYRT_CACHE_DIR": str(tmp_path_factory.mktemp("cache")), **switches}


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("program", PROGRAMS)
def test_anything_gives_named_errors_only(program, batch, environment):
    first, last = (tries(PROGRAMS[program]) * k // BATCHES for k in (batch, batch + 1))
    command = [sys.executable, HERE / program, str(first), str(last)]
    limit = 60 + 2 * (last - first)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-3000:]


@pytest.mark.parametrize("part", ["plans", "files"])
def test_make_fuzz_runs_the_same_programs(part, monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "FOLDER", tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert runner.failures(part, 0, 1) == []


def test_failures_with_a_known_cause_are_not_counted(monkeypatch, tmp_path, capsys):
    rows = [{"seed": s, "kind": "refused", "op": "MaxPool", "message": f"[AR{s}]"} for s in (126, 301)]
    rows = [{**row, "nodes": ["MaxPool"]} for row in rows]
    monkeypatch.setattr(runner, "FOLDER", tmp_path)
    monkeypatch.setattr(runner.models, "run", lambda seeds, file: len(seeds))
    monkeypatch.setattr(runner.models, "rows", lambda file: rows)
    monkeypatch.setitem(runner.TURN, "models", 10**9)
    assert runner.fuzz(["models"], 0.001) == 1
    output = capsys.readouterr().out
    assert "1 found, and 1 of known causes" in output
    assert "[AR301]" in output
    assert "[AR126]" not in output
    assert len((tmp_path / "found.jsonl").read_text().splitlines()) == 2
