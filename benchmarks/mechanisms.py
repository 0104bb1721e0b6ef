"""The gain of each mechanism of the compiler: a case with it and without it, in turn."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

from anyrt.api.building.config import profiles_in, settings_of
from anyrt.api.building.freeze import freeze
from anyrt.backends import loader
from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.backends.cpu.strategies.common import tiled
from anyrt.compiler import driver
from anyrt.compiler.cached import kernel_cache, plan_key
from anyrt.compiler.request import BuildRequest
from anyrt.ir.graph import Graph
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.passes import PASSES, Pass
from anyrt.passes.rules import RULES
from anyrt.passes.simplify import simplify
from anyrt.plan.file import CHUNK, read_plan
from anyrt.schedule.step import Context, Step, Strategies
from benchmarks.language import language_of
from benchmarks.layers.cases import CASES, Case
from benchmarks.measure import Effort, measure
from benchmarks.peers import DYNAMIC, Task, Way
from benchmarks.peers import anyrt as ours
from benchmarks.probe import Probe
from benchmarks.record import Gain

GROWS = ("transposing what taps have grown", "transposing what taps have grown and a cast has narrowed")
DEAR, CHEAP = 1 << 24, 1  # instructions to move a vector: more than any machine takes, and the least

Passes: TypeAlias = tuple[Pass, ...]
Description: TypeAlias = dict[str, object]  # of a machine, as in the file of ANYRT_MACHINE


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Its name, its files, the case and the engine (static or dynamic) that it is measured on, and how it is
    turned off: other strategies, other passes, or another description of the machine. One that is not kept
    (attempts.py) is an alternative."""

    name: str
    place: str
    case: str
    off: Strategies | Passes | Description
    kept: bool = True
    engine: str = ""

    def request(self, threads: int) -> BuildRequest:
        """The request to the compiler without the mechanism."""
        asked = request(self, threads)
        match self.off:
            case Strategies():
                return replace(asked, strategies=self.off)
            case tuple():
                return replace(asked, passes=self.off)
            case _:
                return asked

    @property
    def machine(self) -> Description:
        """The description of the machine without the mechanism."""
        return self.off if isinstance(self.off, dict) else {}


def without_pass(name: str) -> Passes:
    """All passes except those of a name."""
    return tuple(p for p in PASSES if p.name != name)


def instead_of_pass(name: str, change: Callable[[Graph], Graph]) -> Passes:
    """All passes, with another function for one of them."""
    return tuple(replace(p, change=change) if p.name == name else p for p in PASSES)


def _normal_stores(kernel: Kernel, context: Context) -> Fail:
    return Fail("whether its results fit the caches is not asked while it runs")


def place_of(step: str) -> str:
    """The file of a step of the scheduling language."""
    return f"loops/{step.replace(' stores', '').replace('-', '').replace(' ', '_')}.py"


def _step(name: str, step: str, case: str, place: str = "") -> Mechanism:
    """A step of the strategies, which its own file has unless `place` names another one."""
    return Mechanism(name, place or place_of(step), case, STRATEGIES.without(step))


MECHANISMS = (
    Mechanism(
        "positions near each other read as whole registers and permuted",
        "loops/version.py, backends/cpu/permute.py",
        "resize_bilinear_hp_8x64x56to112",
        {"permutes": []},
    ),
    _step(
        "where vectors of positions begin to read, from tables",
        "precompute addresses",
        "chain_preproc_1080p_rst",
    ),
    Mechanism(
        "a row kept while taps along an outer axis read it again",
        "schedule/naive.py, schedule/window.py",
        "resize_bicubic_hp_8x64x56to112",
        {"costs": {"move": DEAR}},
    ),
    _step("pixels of few channels as one flat row", "interleave", "resize_bilinear_hp_1080p_to640_u8_nhwc"),
    _step("channels taken apart piece by piece", "reorder", "shuffle_u8_hwc2chw_1080p"),
    Mechanism(
        "strides up to 4 read as whole vectors",
        "backends/cpu/vectors.py",
        "shuffle_nhwc2nchw_1x224x224x3",
        {"costs": {"gather": CHEAP}},
    ),
    Mechanism(
        "few channels interleaved when stored",
        "loops/vectorise.py, backends/cpu/transpose.py",
        "shuffle_nchw2nhwc_1x3x224x224",
        STRATEGIES.instead("tile", Step("tile few, too", partial(tiled, few=True))),
    ),
    _step(
        "tiles transposed in registers",
        "tile",
        "shuffle_t2d_L3_1024",
        "loops/tile.py, backends/cpu/transpose.py",
    ),
    Mechanism(
        "transposing before a resize that grows",
        "passes/rules.py, schedule/partition.py",
        "chain_gn_scale_silu_resize2x_nhwc_bf16_1x320x64x64",
        instead_of_pass("simplify", lambda graph: simplify(graph, [r for r in RULES if r.name not in GROWS])),
    ),
    _step(
        "factors of channels stored where tiles would compute them again",
        "store repeated",
        "chain_gn_scale_silu_resize2x_nhwc_1x320x64x64",
        "backends/cpu/strategies/map.py",
    ),
    Mechanism(
        "taps along an outer axis computed again instead of kept",
        "schedule/cost.py",
        "resize_bilinear_hp_nhwc_8x56x56x64to112",
        {"costs": {"move": CHEAP}},
    ),
    _step("squares around the mean of long rows in one pass", "fuse folds", "norm_gn32_2x320x64x64"),
    Mechanism(
        "bfloat16 narrowed by the processor's instruction",
        "backends/cpu/bfloat.py",
        "norm_gn32_bf16_2x320x64x64",
        {"has_bf16": False},
    ),
    Mechanism(
        "shorter polynomials for results of half types",
        "passes/shorten.py, prims/scalar/",
        "chain_gn_silu_bf16_2x320x64x64",
        without_pass("shorten"),
    ),
    _step("rows of half types converted once", "cache read", "norm_ln_bf16_8x512x768"),
    _step("short rows in batches", "distribute", "norm_ln_short_8x4096x64"),
    _step("two rows at a time", "unroll and jam", "norm_ln_8x512x768"),
    _step("the next rows on their way", "prefetch", "norm_ln_8x512x768"),
    _step("outputs written past the caches", "non-temporal stores", "scale_u_8x64x112x112"),
    _step("tiles written past the caches", "non-temporal stores", "shuffle_t2d_4096"),
    Mechanism(
        "sizes that are open decide while running what is written past the caches",
        "schedule/nontemporal.py",
        "shuffle_nchw2nhwc_dyn_8x64x112x112",
        STRATEGIES.instead("non-temporal stores", Step("non-temporal stores: none", _normal_stores)),
        engine=DYNAMIC,
    ),
    Mechanism(
        "constants of equal numbers known to the compiler",
        "passes/narrow_constants.py, prims/scalar/power.py",
        "scale_c_pow1.7_8x64x112x112",
        without_pass("narrow constants"),
    ),
)


def gains(threads: int, effort: Effort, mechanisms: Iterable[Mechanism]) -> Iterator[Gain]:
    """The gain of each mechanism."""
    probe = Probe(threads, effort.patience_s)
    for mechanism in mechanisms:
        case = case_of(mechanism)
        task, _ = language_of(case).task(case, threads)
        without = _built(task, mechanism.request(threads), mechanism.engine, mechanism.machine)
        ways = [without, _built(task, request(mechanism, threads), mechanism.engine)]
        off, on = measure(ways, effort, probe)
        yield Gain(
            *(mechanism.name, mechanism.place, mechanism.case, threads),
            *(off.median, off.minimum, on.median, on.minimum),
            kept=mechanism.kept,
        )


def case_of(mechanism: Mechanism) -> Case:
    """The case of a mechanism."""
    return next(c for c in CASES if c.name == mechanism.case)


def request(mechanism: Mechanism, threads: int) -> BuildRequest:
    """The request to the compiler for its case and engine, with the mechanism."""
    case = case_of(mechanism)
    _, network, config = ours.described(language_of(case).blank(case, threads), mechanism.engine)
    return freeze(network, profiles_in(config), settings_of(config))


def _built(task: Task, asked: BuildRequest, engine: str, machine: Description | None = None) -> Way:
    with built(asked, machine) as plan:
        return ours.bound(task, plan, engine)


@contextmanager
def built(asked: BuildRequest, machine: Description | None = None) -> Iterator[bytes]:
    """A plan, in a cache of its own. Load it inside the block: the cached code is then used, and nothing is
    lowered again."""
    with tempfile.TemporaryDirectory() as folder, _surroundings(Path(folder), machine or {}):
        plan = b"".join(driver.build_parts(asked, loader.target(), loader.device()).chunks(CHUNK))
        file = read_plan(plan)
        code = kernel_cache().get(plan_key(loader.device(), file.digest), file.plan.sym_by_name)
        assert code is not None, f"{asked.shown}: what was built is not in the cache"
        yield plan


@contextmanager
def _surroundings(folder: Path, machine: Description) -> Iterator[None]:
    """With a cache folder, and with a description of the machine if there is one."""
    variables = {"ANYRT_CACHE_DIR": str(folder)}
    if machine:
        variables["ANYRT_MACHINE"] = str(folder / "machine.json")
        Path(variables["ANYRT_MACHINE"]).write_text(json.dumps(machine))
    with patch.dict(os.environ, variables):
        yield
