"""The generator's modules, and a cache that is thrown away."""

import sys
from pathlib import Path

import pytest

collect_ignore = ["programs"]  # read by type checkers, not by pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def docgen(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
