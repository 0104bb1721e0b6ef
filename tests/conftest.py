"""Configuration of all tests: one hypothesis profile with fixed seeds, no deadline and no database; one
shared cache of kernels, compiled as for users; no fsync; fewer garbage collections.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

# NumPy's BLAS threads busy-wait for each other, and tests run in parallel. Set this before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests import messages
from tests.emulated import emulated
from tests.sampling import COLLECTED, everyday

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=20)
settings.load_profile("fixed")

# Tests start several hundred Python processes. If the environment disables bytecode files, each process
# compiles the whole package again, which takes longer than most of these processes run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Graphs, kernels and texts are many objects with few cycles. Collecting at Python's default thresholds takes
# a fifteenth of the time. Collecting only at the end of a module takes gigabytes for modules with many cases.
gc.set_threshold(500_000, 20, 1_000)
LITTLE = 100_000  # objects


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--emulated` runs tests as on an AArch64 (tests/emulated.py), as `make neon` does."""
    parser.addoption("--emulated", action="store_true", help="compile and run for AArch64, by Unicorn")
    parser.addoption("--renew-messages", action="store_true", help="rewrite tests/e2e/messages.txt")


@pytest.fixture(autouse=True, scope="session")
def _processor(request: pytest.FixtureRequest) -> Iterator[None]:
    """Use this machine's processor, or an emulated one."""
    with emulated() if request.config.getoption("emulated") else nullcontext():
        yield


def pytest_itemcollected(item: pytest.Item) -> None:
    """Record all tests before any are deselected: a test of the samples reads them."""
    item.config.stash.setdefault(COLLECTED, []).append(item)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select some cases of each sampled test; all cases of a test named on the command line."""
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
    """Freeze the ten thousand test items, which live until the end, so that no collection visits them."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kernel cache of all tests and of the processes that they start. All workers of a run share it.
    Tests never write to the user's cache."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(autouse=True, scope="module")
def _no_looking_at_what_stays() -> Iterator[None]:
    """Freeze the objects that survive a module: visiting all of them takes a second per collection. Small
    modules leave little to collect."""
    yield
    if gc.get_count()[0] > LITTLE:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Skip fsync: tests write thousands of small files to temporary folders, and each fsync takes
    milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_process_compiles() -> Iterator[None]:
    """Compile in one process: other tests use the other processors. `codegen/test_workers.py` and the
    processes that tests start use workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anyrt.codegen.workers.processors", lambda: 1)
        yield


@pytest.fixture
def golden_text(request: pytest.FixtureRequest) -> Callable[..., None]:
    """golden_text(error) compares a message with the line of this test in tests/e2e/messages.txt; a second
    call compares with its second line. It serves messages that differ from others by words alone. With a
    case, as in golden_text(error, "text"), all cases of the test that name it share a line."""
    node, numbers = request.node, count(1)
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None

    def compare(error: object, case: str = "") -> None:
        test = f"{node.nodeid.partition('[')[0]}[{case}]" if case else node.nodeid
        key = test if (n := next(numbers)) == 1 else f"{test} #{n}"
        message = messages.steady(str(error), folder)
        if request.config.getoption("renew_messages"):
            messages.renew(key, message)
        assert message == messages.golden().get(key)

    return compare


@pytest.fixture(autouse=True)
def _registry_as_before():
    """Restore the registry, so that no test finds plug-in creators, TensorRT's own included, that another
    registered."""
    before = _creators().copy()
    yield
    if (now := _creators()) != before:
        now.clear()
        now.update(before)


def _creators() -> dict[object, object]:
    """The creators of the process's registry; an empty dictionary if no code has loaded the registry."""
    module = sys.modules.get("anyrt.api.plugins.registry")
    return {} if module is None else module.the_registry()._creators
