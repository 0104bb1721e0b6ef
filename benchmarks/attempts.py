"""Alternatives that were measured on cases that miss their goals, and are not used. Each runs in turn with
the current choice.

An attempt is a mechanism whose strategies or passes are the alternative.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.backends.cpu.strategies.reduction import together
from anyrt.core.enums import DataType
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.loops.cache_read import cache_read
from anyrt.loops.distribute import distribute
from anyrt.loops.fuse_folds import fuse_folds
from anyrt.loops.nontemporal import nontemporal
from anyrt.loops.precompute_addresses import precompute_addresses
from anyrt.passes.shorten import shorten
from anyrt.schedule.step import Apply, Context, Step, Strategies
from anyrt.schedule.tuning import Tuning
from benchmarks.command import QUICK, THREADS, Command, file, ready
from benchmarks.layers import report
from benchmarks.mechanisms import MECHANISMS, Mechanism, Passes, gains, instead_of_pass, place_of
from benchmarks.peers import DYNAMIC
from benchmarks.record import Gain, append, line_of
from benchmarks.table import show

GN_RESIZE = "chain_gn_scale_silu_resize2x_nhwc_1x320x64x64"
GN_SILU = "chain_gn_silu_2x320x64x64"
GN_SILU_BF16 = "chain_gn_silu_bf16_2x320x64x64"
RESIZE_SILU = "chain_resize2x_scale_silu_nhwc_8x64x56x56"
PHOTO = "chain_preproc_1080p_rst"
SMALL_PHOTO = "chain_preproc_dyn_rst_1x480x640x3"
TWICE = "chain_scale_reshape_scale_8x64x112x112"
POWER = "scale_c_pow1.7_8x64x112x112"
NHWC_HALVES = "shuffle_nchw2nhwc_f16_8x64x112x112"
SMALL_TILES = "shuffle_t2d_L1_64"
PLANES_OF_BYTES = "shuffle_u8_hwc2chw_1080p"
SHORT_ROWS = "norm_ln_short_8x4096x64"
ROWS = "norm_ln_8x512x768"
HALF_ROWS = "norm_ln_f16_8x512x768"
BF16_ROWS = "norm_ln_bf16_8x512x768"
HALF_PLANES = "norm_in_f16_4x64x128x128"
LONG_ROWS = "norm_ln_long_4x262144"
GN_BF16 = "norm_gn32_bf16_2x320x64x64"
RMS_HALVES = ("norm_rms_f16_1x512x4096", "norm_rms_bf16_1x512x4096")
PLANES = "norm_in_4x64x128x128"
DYNAMIC_PLANES = "resize_bilinear_hp_dyn_2x_8x64x56x56"
DYNAMIC_NHWC = "shuffle_nchw2nhwc_dyn_8x64x112x112"
FLOATS = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16})
NORMAL_STORES = STRATEGIES.without("non-temporal stores")
ONE_BY_ONE = STRATEGIES.without("distribute", "unroll and jam")


def _tried(name: str, place: str, case: str, off: Strategies | Passes) -> Mechanism:
    return Mechanism(name, place, case, off, kept=False)


def _cut(name: str, case: str, tuning: Tuning) -> Mechanism:
    return _tried(name, "schedule/tuning.py", case, replace(STRATEGIES, tuning=tuning))


def _instead(step: str, name: str, case: str, apply: Apply) -> Mechanism:
    """A step of the strategies is replaced."""
    return _tried(name, place_of(step), case, STRATEGIES.instead(step, Step(f"{step}: {name}", apply)))


def _batches(name: str, case: str, sizes: dict[str, int]) -> Mechanism:
    def apply(kernel: Kernel, c: Context) -> Kernel | Fail:
        return distribute(kernel, c.names, c.estimate, replace(c.pieces.short_rows, **sizes))

    return _instead("distribute", name, case, together(apply))


def _in_chunks(size: int) -> Apply:
    return lambda kernel, c: fuse_folds(kernel, c.names, c.estimate, size)


def _chunks(case: str) -> tuple[Mechanism, ...]:
    return (
        _instead("fuse folds", "chunks half as long", case, _in_chunks(2048)),
        _instead("fuse folds", "chunks twice as long", case, _in_chunks(8192)),
        _tried("two passes instead of one", "loops/fuse_folds.py", case, STRATEGIES.without("fuse folds")),
    )


def _all_past(kernel: Kernel, c: Context) -> Kernel | Fail:
    return nontemporal(kernel, dict.fromkeys(c.past, 1))


def _together(case: str) -> tuple[Mechanism, ...]:
    def for_two(kernel: Kernel, c: Context) -> Kernel | Fail:
        return cache_read(kernel, c.names, c.pieces.cached, replace(c.machine.costs, store=1))

    return (
        _instead("cache read", "converted once for two loops", case, for_two),
        _tried("one row at a time", "backends/cpu/strategies/reduction.py", case, ONE_BY_ONE),
        _batches("batches of longer rows", case, {"short": 8192}),
    )


def _apart(kernel: Kernel, c: Context) -> Kernel:
    return precompute_addresses(kernel, c.tables, common=False)


def _dynamic(mechanism: Mechanism) -> Mechanism:
    return replace(mechanism, name=f"{mechanism.name} (dynamic)", engine=DYNAMIC)


SHORTENED = instead_of_pass("shorten", lambda graph: shorten(graph, FLOATS))
ATTEMPTS = (
    _cut("tiles of two cache lines", GN_RESIZE, Tuning(line=128)),
    _cut("shorter runs of tiles", GN_RESIZE, Tuning(run=16)),
    _cut("fewer strips in a row", GN_RESIZE, Tuning(chunk=8)),
    _instead("non-temporal stores", "wherever an output is written", GN_RESIZE, _all_past),
    _tried("shorter polynomials for float32", "passes/shorten.py", GN_SILU, SHORTENED),
    *_chunks(GN_SILU),
    *_chunks(GN_SILU_BF16),
    _cut("narrow bands", RESIZE_SILU, Tuning(band=8)),
    _cut("narrow bands", PHOTO, Tuning(band=8)),
    _cut("wide bands", PHOTO, Tuning(band=128, items=4)),
    _instead("precompute addresses", "a start for each tap", PHOTO, _apart),
    _dynamic(_cut("narrow bands", SMALL_PHOTO, Tuning(band=8))),
    _dynamic(_cut("wide bands", SMALL_PHOTO, Tuning(band=128, items=4))),
    _dynamic(_cut("more bands", SMALL_PHOTO, Tuning(items=64))),
    _dynamic(_cut("narrow bands", DYNAMIC_PLANES, Tuning(band=8))),
    _dynamic(_cut("tiles of two cache lines", DYNAMIC_NHWC, Tuning(line=128))),
    _tried("normal stores", "loops/nontemporal.py", TWICE, NORMAL_STORES),
    _cut("smaller pieces", TWICE, Tuning(block=1024)),
    _cut("larger pieces", TWICE, Tuning(block=65536)),
    _tried("normal stores", "loops/nontemporal.py", POWER, NORMAL_STORES),
    _cut("smaller pieces", POWER, Tuning(block=1024)),
    _cut("larger pieces", POWER, Tuning(block=65536)),
    _cut("shorter runs of tiles", SMALL_TILES, Tuning(run=16)),
    _cut("tiles of half a cache line", SMALL_TILES, Tuning(line=32)),
    _cut("smaller pieces", PLANES_OF_BYTES, Tuning(block=1024)),
    _cut("larger pieces", PLANES_OF_BYTES, Tuning(block=65536)),
    _instead("non-temporal stores", "wherever an output is written", NHWC_HALVES, _all_past),
    _cut("tiles of a whole cache line", NHWC_HALVES, Tuning(line=128)),
    _batches("batches of 4", SHORT_ROWS, {"rows": 4}),
    _batches("batches of 16", SHORT_ROWS, {"rows": 16}),
    _batches("batches of 2", HALF_ROWS, {"rows": 2}),
    _tried("converted for each loop", "loops/cache_read.py", HALF_ROWS, STRATEGIES.without("cache read")),
    _batches("larger batches", BF16_ROWS, {"bytes": 40960}),
    _batches("batches of 2", BF16_ROWS, {"rows": 2}),
    _batches("batches of longer rows", ROWS, {"short": 4096}),
    _tried("one row at a time", "backends/cpu/strategies/reduction.py", ROWS, ONE_BY_ONE),
    _instead("non-temporal stores", "wherever an output is written", PLANES, _all_past),
    *(attempt for case in (PLANES, HALF_PLANES, LONG_ROWS, GN_BF16) for attempt in _chunks(case)),
    *(attempt for case in RMS_HALVES for attempt in _together(case)),
)
EVERY = (*MECHANISMS, *ATTEMPTS)


def _run(options: argparse.Namespace, names: list[str]) -> None:
    (threads, effort), rows = ready(options), list[Gain]()
    for gain in gains(threads, effort, [m for m in EVERY if m.name in names]):
        rows.append(gain)
        append(options.json, line_of("gain", gain))
    show(report.mechanisms(rows))


COMMAND = Command(
    "mechanisms",
    "measure the gain of each mechanism of the compiler",
    _run,
    (THREADS, QUICK, file("--json", "append JSON lines to those of `ops`")),
    rows=lambda: (m.name for m in EVERY),
    what="mechanisms",
)
