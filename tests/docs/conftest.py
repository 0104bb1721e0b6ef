"""The generator's modules, a cache that is thrown away, and a registry without what programs register."""

import sys
from pathlib import Path

import pytest

import anyrt as trt

collect_ignore = ["programs"]  # read by type checkers, not by pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def docgen(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])


@pytest.fixture(autouse=True)
def registry():
    """Creators of plug-ins that a program registers go with it."""
    result = trt.get_plugin_registry()
    before = result.all_creators
    yield
    for creator in result.all_creators:
        if creator not in before:
            result.deregister_creator(creator)
