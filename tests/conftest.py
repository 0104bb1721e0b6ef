"""For all tests: one hypothesis profile, with fixed seeds, no deadline and nothing kept between runs; one
cache of kernels, which are made quickly where tests are about what comes before; no waiting for the disk; and
less of what Python does beside the tests."""

import gc
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

# NumPy's threads wait for each other by turning round and round, and tests run side by side: before NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from anyrt.codegen import llvm, workers
from tests.sampling import FUZZ, everyday

# Tests of these are about layers, graphs and kernels; what LLVM makes of those is run, but need not be fast,
# and to make it so takes LLVM four times as long. Other tests, and in a long run all, have what users have.
EARLY = {"api", "benchmarks", "cli", "codegen", "compiler", "docs", "examples", "loops", "onnx", "ops"}
EARLY |= {"passes", "plugins", "schedule"}
EARLY |= {f"e2e/test_{of}.py" for of in ("control", "control_sizes", "memory", "messages", "mistakes")}
EARLY |= {f"e2e/test_{of}.py" for of in ("builds", "convolution", "names", "shapes", "spellings", "types")}
EARLY |= {f"e2e/test_{of}.py" for of in ("control_debug", "hostile", "powers", "weights")}
LATE = {"codegen/test_instructions.py"}  # every instruction

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=20)
settings.load_profile("fixed")

# Tests start some hundred Pythons. Where the environment forbids to keep what was compiled, each compiles the
# whole package again, which takes longer than what most of them are started for.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Graphs, kernels and texts are many and have few cycles: to look for these as Python does by itself takes a
# fifteenth of the time. Each module's are looked for at its end.
gc.disable()


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
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of caches that the processes of a run share; nothing is ever kept where users keep theirs."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "caches"
    folder.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_CACHE_DIR", str(folder / "usual"))
        yield folder


@pytest.fixture(autouse=True, scope="module")
def cache_dir(request: pytest.FixtureRequest, caches: Path) -> Iterator[Path]:
    """Where kernels of these tests, and of processes that they start, are kept."""
    path = request.path.relative_to(Path(__file__).parent)
    early = {path.parts[0], path.as_posix()} & EARLY and path.as_posix() not in LATE
    folder = caches / ("quick" if early and not FUZZ else "usual")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_CACHE_DIR", str(folder))
        if folder.name == "quick":
            least = llvm.Effort(speed=0, instructions=0)
            patch.setattr(llvm, "compile_text", partial(llvm.compile_text, effort=least))
            patch.setattr(workers, "MOST", 0)
        yield folder


@pytest.fixture(autouse=True, scope="module")
def _no_looking_at_what_stays() -> Iterator[None]:
    """What is left of a module lives to the end, and each look at all of it would take a second."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
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
