"""What each mechanism of the compiler gives: a case with it and without it, in turn."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

from anyrt.api.freeze import freeze
from anyrt.backends.cpu import bfloat, permute, vectors, widen
from anyrt.codegen import arithmetic
from anyrt.compiler import driver
from anyrt.compiler.cached import kernel_cache, plan_key
from anyrt.compiler.request import BuildRequest
from anyrt.core.machine import REFERENCE
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.passes import rules
from anyrt.plan.file import read_plan
from anyrt.schedule import cost, naive, partition, window
from anyrt.schedule.strategies import STRATEGIES, Strategies
from anyrt.schedule.strategies.common import tiled
from anyrt.schedule.strategies.step import Context, Step
from benchmarks.cases import CASES, Case
from benchmarks.measure import Effort, measure
from benchmarks.peers import Way
from benchmarks.peers import anyrt as ours
from benchmarks.peers.anyrt import DYNAMIC
from benchmarks.probe import Probe
from benchmarks.record import Gain
from benchmarks.values import Array, input_values

ENDLESS = 1 << 60
# The package has functions of these names.
FOLDING, SHORTEN = (import_module(f"anyrt.passes.{name}") for name in ("fold_constants", "shorten"))


@dataclass(frozen=True, slots=True)
class Switch:
    """A name in a module, and what stands there when the mechanism is off."""

    owner: ModuleType
    name: str
    off: Any


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What it is called, where it lives, on which case (and engine: static or dynamic) it is measured, and
    what there is without it: strategies for a step of theirs or its parameters, switches for what is neither.
    One that is not kept (attempts.py) is what takes its place."""

    name: str
    place: str
    case: str
    off: Strategies | tuple[Switch, ...]
    kept: bool = True
    engine: str = ""

    @property
    def strategies(self) -> Strategies | None:
        """Those without it; None where it is no step of any."""
        return self.off if isinstance(self.off, Strategies) else None

    @property
    def switches(self) -> tuple[Switch, ...]:
        """What to change besides."""
        return () if isinstance(self.off, Strategies) else self.off


def _never(*_: object) -> None:
    return None


def endless(*_: object) -> int:
    """No size reaches it."""
    return ENDLESS


def one(*_: object) -> int:
    """Every size reaches it."""
    return 1


def _no(*_: object) -> bool:
    return False


def _normal_stores(kernel: Kernel, context: Context) -> Fail:
    return Fail("whether the caches hold what it stores is not asked while it runs")


def _tiled_too(kernel: Kernel, context: Context) -> Kernel | Fail:
    return tiled(kernel, context, few=True)


MECHANISMS = (
    Mechanism(
        "positions near each other read as whole registers and permuted",
        "loops/version.py, backends/cpu/permute.py",
        "resize_bilinear_hp_8x64x56to112",
        (Switch(permute, "MOST", 0),),
    ),
    Mechanism(
        "where vectors of positions begin to read, from tables",
        "loops/precompute_addresses.py",
        "chain_preproc_1080p_rst",
        STRATEGIES.without("precompute addresses"),
    ),
    Mechanism(
        "a row kept while taps along an outer axis read it again",
        "schedule/naive.py, schedule/window.py",
        "resize_bicubic_hp_8x64x56to112",
        (
            Switch(naive, "heavy", endless),
            Switch(window, "heavy", endless),
            Switch(partition, "heavy", endless),
        ),
    ),
    Mechanism(
        "pixels of few channels as one flat row",
        "loops/interleave.py",
        "resize_bilinear_hp_1080p_to640_u8_nhwc",
        STRATEGIES.without("interleave"),
    ),
    Mechanism(
        "planes of a photograph from rows that are kept together",
        "schedule/naive.py",
        "chain_preproc_1080p_trs",
        (Switch(naive, "_beside", _never),),
    ),
    Mechanism(
        "channels taken apart piece by piece",
        "loops/reorder.py",
        "shuffle_u8_hwc2chw_1080p",
        STRATEGIES.without("reorder"),
    ),
    Mechanism(
        "strides up to 4 read as whole vectors",
        "backends/cpu/vectors.py",
        "shuffle_nhwc2nchw_1x224x224x3",
        (Switch(vectors, "strided", one),),
    ),
    Mechanism(
        "few channels interleaved when stored",
        "loops/vectorise.py, backends/cpu/transpose.py",
        "shuffle_nchw2nhwc_1x3x224x224",
        STRATEGIES.instead("tile", Step("tile few, too", _tiled_too)),
    ),
    Mechanism(
        "tiles transposed in registers",
        "loops/tile.py, backends/cpu/transpose.py",
        "shuffle_t2d_L3_1024",
        STRATEGIES.without("tile"),
    ),
    Mechanism(
        "transposing before a resize that grows",
        "passes/rules.py, schedule/partition.py",
        "chain_gn_scale_silu_resize2x_nhwc_bf16_1x320x64x64",
        (Switch(rules, "grows", _no), Switch(partition, "_reads_rows_again", _no)),
    ),
    Mechanism(
        "factors of channels stored where tiles would compute them again",
        "schedule/strategies/map.py",
        "chain_gn_scale_silu_resize2x_nhwc_1x320x64x64",
        STRATEGIES.without("store repeated"),
    ),
    Mechanism(
        "taps along an outer axis computed again instead of kept",
        "schedule/cost.py",
        "resize_bilinear_hp_nhwc_8x56x56x64to112",
        (Switch(cost, "ALONG", REFERENCE.costs.gather),),
    ),
    Mechanism(
        "squares around the mean of long rows in one pass",
        "loops/fuse_folds.py",
        "norm_gn32_2x320x64x64",
        STRATEGIES.without("fuse folds"),
    ),
    Mechanism(
        "bfloat16 narrowed by the processor's instruction",
        "backends/cpu/bfloat.py",
        "norm_gn32_bf16_2x320x64x64",
        (Switch(bfloat, "NARROWED", ()), Switch(widen, "AT_ONCE", 1)),
    ),
    Mechanism(
        "two registers of bfloat16 at a time",
        "backends/cpu/widen.py",
        "chain_gn_silu_bf16_2x320x64x64",
        (Switch(widen, "AT_ONCE", 1),),
    ),
    Mechanism(
        "shorter polynomials for results of half types",
        "passes/shorten.py, prims/scalar/",
        "chain_gn_silu_bf16_2x320x64x64",
        (Switch(SHORTEN, "HALVES", frozenset()),),
    ),
    Mechanism(
        "rows of half types converted once",
        "loops/cache_read.py",
        "norm_ln_bf16_8x512x768",
        STRATEGIES.without("cache read"),
    ),
    Mechanism(
        "short rows in batches",
        "loops/distribute.py",
        "norm_ln_short_8x4096x64",
        STRATEGIES.without("distribute"),
    ),
    Mechanism(
        "two rows at a time",
        "loops/unroll_and_jam.py",
        "norm_ln_8x512x768",
        STRATEGIES.without("unroll and jam"),
    ),
    Mechanism(
        "the next rows on their way",
        "loops/prefetch.py",
        "norm_ln_8x512x768",
        STRATEGIES.without("prefetch"),
    ),
    Mechanism(
        "outputs written past the caches",
        "loops/nontemporal.py",
        "scale_u_8x64x112x112",
        STRATEGIES.without("non-temporal stores"),
    ),
    Mechanism(
        "tiles written past the caches",
        "loops/nontemporal.py",
        "shuffle_t2d_4096",
        STRATEGIES.without("non-temporal stores"),
    ),
    Mechanism(
        "sizes that are open decide while running what is written past the caches",
        "schedule/nontemporal.py",
        "shuffle_nchw2nhwc_dyn_8x64x112x112",
        STRATEGIES.instead("non-temporal stores", Step("non-temporal stores: none", _normal_stores)),
        engine=DYNAMIC,
    ),
    Mechanism(
        "constants of equal numbers known to the compiler",
        "passes/fold_constants.py, prims/scalar/power.py",
        "scale_c_pow1.7_8x64x112x112",
        (Switch(FOLDING, "_one", _never),),
    ),
    Mechanism(
        "values in range converted without care",
        "ir/intervals.py",
        "scale_c_i8qdq_8x64x112x112",
        (Switch(arithmetic, "interval", _never),),
    ),
)


def gains(threads: int, effort: Effort, wanted: Iterable[Mechanism]) -> Iterator[Gain]:
    """Each mechanism's gain."""
    probe = Probe(threads, effort.patience_s)
    for mechanism in wanted:
        case, asked = request(mechanism, threads)
        x = input_values(case.input, case.low, case.high)
        with switched(mechanism.switches):
            without = _built(case, x, replace(asked, strategies=mechanism.strategies), mechanism.engine)
        ways = [without, _built(case, x, asked, mechanism.engine)]
        off, on = measure(ways, effort, probe)
        yield Gain(
            *(mechanism.name, mechanism.place, mechanism.case, threads),
            *(off.median, off.minimum, on.median, on.minimum),
            kept=mechanism.kept,
        )


def request(mechanism: Mechanism, threads: int) -> tuple[Case, BuildRequest]:
    """The case, and what the compiler is asked for its engine."""
    case = next(c for c in CASES if c.name == mechanism.case)
    _, network, config = ours.described(case, mechanism.engine, threads)
    return case, freeze(network, config._profiles, config._build_settings())


def _built(case: Case, x: Array, asked: BuildRequest, engine: str) -> Way:
    """AnyRT's engine from a cache of its own, as no cache knows of switches; it runs what was built, since a
    plan whose code is there is not lowered again."""
    with _own_cache():
        plan = driver.build(asked)
        file = read_plan(plan)
        found = kernel_cache().get(plan_key(file.digest), file.plan.sym_by_name)
        assert found is not None, f"{case.name}: what was built is not in the cache"
        return ours.bound(case, x, plan, engine)


@contextmanager
def _own_cache() -> Iterator[None]:
    before = os.environ.get("ANYRT_CACHE_DIR")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ANYRT_CACHE_DIR"] = cache
        try:
            yield
        finally:
            os.environ.pop("ANYRT_CACHE_DIR")
            if before is not None:
                os.environ["ANYRT_CACHE_DIR"] = before


@contextmanager
def switched(switches: tuple[Switch, ...]) -> Iterator[None]:
    """With all switches off."""
    saved = [getattr(s.owner, s.name) for s in switches]
    for s in switches:
        setattr(s.owner, s.name, s.off)
    try:
        yield
    finally:
        for s, value in zip(switches, saved, strict=True):
            setattr(s.owner, s.name, value)
