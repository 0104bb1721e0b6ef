"""The modules of the generator, a temporary cache, and a registry that forgets the creators of each
program."""

import sys
from pathlib import Path

import pytest

import anyrt as trt

collect_ignore = ["programs"]  # for type checkers, not for pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def docgen(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])


@pytest.fixture(autouse=True)
def registry():
    """Restore the registry after a program registered plug-in creators."""
    result = trt.get_plugin_registry()
    before = result.all_creators
    yield
    for creator in result.all_creators:
        if creator not in before:
            result.deregister_creator(creator)
