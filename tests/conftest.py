"""For all tests: one hypothesis profile, with fixed seeds, no deadline and nothing kept between runs; no
waiting for the disk; and less of what Python does beside the tests."""

import gc
import os
import sys

import pytest
from hypothesis import settings

from tests.sampling import everyday

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("fixed")

# Tests start some hundred Pythons. Where the environment forbids to keep what was compiled, each compiles the
# whole package again, which takes longer than what most of them are started for.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Graphs, kernels and texts are many and have few cycles: to look for these as often as Python does by itself
# takes a fifteenth of the time.
gc.set_threshold(50_000, 50, 100)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of sampled tests some cases; all of one that is asked for by name."""
    if any("::" in argument for argument in config.args):
        return
    kept = list(everyday(items))
    left_out = set(items).difference(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept


def pytest_collection_finish() -> None:
    """Ten thousand tests live until the end: nobody need look at them again."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk():
    """Thousands of small files are written to folders that are thrown away; each wait takes milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True)
def _registry_as_before():
    """Creators of plug-ins that a test registers, TensorRT's own among them, are found by no other one."""
    before = _creators().copy()
    yield
    if (now := _creators()) != before:
        now.clear()
        now.update(before)


def _creators() -> dict[object, object]:
    """Those of the process, where anything has asked for the registry."""
    module = sys.modules.get("anyrt.api.registry")
    return {} if module is None else module.the_registry()._creators
