"""For all tests: one hypothesis profile, with fixed seeds, no deadline and nothing kept between runs; one
cache of kernels, compiled as for users; no waiting for the disk; less of what Python does beside the tests.
"""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import settings

# NumPy's threads wait for each other by turning round and round, and tests run side by side: before NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.emulated import emulated
from tests.sampling import FOUND, everyday

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=20)
settings.load_profile("fixed")

# Tests start some hundred Pythons. Where the environment forbids to keep what was compiled, each compiles the
# whole package again, which takes longer than what most of them are started for.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Graphs, kernels and texts are many and have few cycles: to look for these as often as Python does by itself
# takes a fifteenth of the time. Never to look until a module ends takes gigabytes, where it has many cases.
gc.set_threshold(500_000, 20, 1_000)
LITTLE = 100_000  # objects


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--emulated` runs tests as on an AArch64 (tests/emulated.py), as `make neon` does."""
    parser.addoption("--emulated", action="store_true", help="compile and run for AArch64, by Unicorn")
    parser.addoption("--renew-messages", action="store_true", help="rewrite tests/e2e/messages.txt")


@pytest.fixture(autouse=True, scope="session")
def _processor(request: pytest.FixtureRequest) -> Iterator[None]:
    """That of this machine, or an emulated one."""
    with emulated() if request.config.getoption("emulated") else nullcontext():
        yield


def pytest_itemcollected(item: pytest.Item) -> None:
    """All tests there are, before any are left out: a test of samples looks at them."""
    item.config.stash.setdefault(FOUND, []).append(item)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of sampled tests some cases; all of one that is asked for by name."""
    if config.getoption("emulated"):
        reason = "it is about the processor of this machine"
        for item in (i for i in items if i.get_closest_marker("here") is not None):
            item.add_marker(pytest.mark.skip(reason=reason))
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
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where kernels of all tests, and of processes that they start, are kept: all of a run share it.
    Nothing is ever kept where users keep theirs."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(autouse=True, scope="module")
def _no_looking_at_what_stays() -> Iterator[None]:
    """What is left of modules lives to the end, and each look at all of it would take a second. Small modules
    leave little to look for."""
    yield
    if gc.get_count()[0] > LITTLE:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Thousands of small files are written to folders that are thrown away; each wait takes milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_process_compiles() -> Iterator[None]:
    """Other tests use the other processors, where one more process would only wait for its turn.
    `codegen/test_workers.py` and the processes that tests start have workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anyrt.codegen.workers.processors", lambda: 1)
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
    module = sys.modules.get("anyrt.api.plugins.registry")
    return {} if module is None else module.the_registry()._creators
