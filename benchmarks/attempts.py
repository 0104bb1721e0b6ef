"""What was tried on cases that miss their goals and is not kept: other choices, each measured beside the one
that stands.

An attempt is a mechanism turned round: its switches make what was tried.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.enums import DataType
from anyrt.schedule import batches, chunks, fuse, kernels, places, stream, wide
from anyrt.schedule.choice import Choice
from benchmarks.mechanisms import ENDLESS, SHORTEN, Mechanism, Switch, always, pieces_of
from benchmarks.peers.anyrt import DYNAMIC

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


def _tried(name: str, place: str, case: str, *switches: Switch) -> Mechanism:
    return Mechanism(name, place, case, switches, kept=False)


def _cut(name: str, case: str, choice: Choice) -> Mechanism:
    return _tried(name, "schedule/choice.py", case, Switch(fuse, "MODEL", choice))


def _chunks(case: str) -> tuple[Mechanism, ...]:
    place = "schedule/chunks.py"
    return (
        _tried("chunks half as long", place, case, Switch(chunks, "CHUNK", 2048)),
        _tried("chunks twice as long", place, case, Switch(chunks, "CHUNK", 8192)),
        _tried("two passes instead of one", place, case, Switch(kernels, "LONG", ENDLESS)),
    )


def _together(case: str) -> tuple[Mechanism, ...]:
    return (
        _tried("converted once for two loops", "schedule/wide.py", case, Switch(wide, "PASSES", 2)),
        _tried(
            "one row at a time", "schedule/kernels.py", case, Switch(fuse, "pieces", pieces_of(rows=ENDLESS))
        ),
        _tried("batches of longer rows", "schedule/batches.py", case, Switch(batches, "SHORT", 8192)),
    )


def _dynamic(mechanism: Mechanism) -> Mechanism:
    return replace(mechanism, name=f"{mechanism.name} (dynamic)", engine=DYNAMIC)


ATTEMPTS = (
    _cut("tiles of two cache lines", GN_RESIZE, Choice(line=128)),
    _cut("shorter runs of tiles", GN_RESIZE, Choice(run=16)),
    _cut("fewer strips in a row", GN_RESIZE, Choice(chunk=8)),
    _tried("stores past the caches", "schedule/stream.py", GN_RESIZE, Switch(stream, "in_order", always(1))),
    _tried(
        "shorter polynomials for float32", "passes/shorten.py", GN_SILU, Switch(SHORTEN, "HALVES", FLOATS)
    ),
    *_chunks(GN_SILU),
    *_chunks(GN_SILU_BF16),
    _cut("narrow bands", RESIZE_SILU, Choice(band=8)),
    _cut("smaller items", RESIZE_SILU, Choice(item=1024)),
    _cut("larger items", RESIZE_SILU, Choice(item=65536)),
    _tried(
        "stores past the caches", "schedule/stream.py", RESIZE_SILU, Switch(stream, "in_order", always(1))
    ),
    _cut("narrow bands", PHOTO, Choice(band=8)),
    _cut("wide bands", PHOTO, Choice(band=128, items=4)),
    _tried("a start for each tap", "schedule/places.py", PHOTO, Switch(places, "BYTE", 0)),
    _cut("narrow bands", SMALL_PHOTO, Choice(band=8)),
    _cut("wide bands", SMALL_PHOTO, Choice(band=128, items=4)),
    _cut("smaller pieces", SMALL_PHOTO, Choice(block=1024)),
    _dynamic(_cut("narrow bands", SMALL_PHOTO, Choice(band=8))),
    _dynamic(_cut("wide bands", SMALL_PHOTO, Choice(band=128, items=4))),
    _dynamic(_cut("more bands", SMALL_PHOTO, Choice(items=64))),
    _dynamic(_cut("narrow bands", DYNAMIC_PLANES, Choice(band=8))),
    _dynamic(_cut("smaller items", DYNAMIC_PLANES, Choice(item=1024))),
    _dynamic(_cut("larger items", DYNAMIC_PLANES, Choice(item=65536))),
    _dynamic(_cut("tiles of two cache lines", DYNAMIC_NHWC, Choice(line=128))),
    _dynamic(_cut("shorter runs of tiles", DYNAMIC_NHWC, Choice(run=16))),
    _tried("normal stores", "schedule/stream.py", TWICE, Switch(stream, "in_order", always(ENDLESS))),
    _cut("smaller pieces", TWICE, Choice(block=1024)),
    _cut("larger pieces", TWICE, Choice(block=65536)),
    _tried("normal stores", "schedule/stream.py", POWER, Switch(stream, "in_order", always(ENDLESS))),
    _cut("smaller pieces", POWER, Choice(block=1024)),
    _cut("larger pieces", POWER, Choice(block=65536)),
    _cut("shorter runs of tiles", SMALL_TILES, Choice(run=16)),
    _cut("tiles of half a cache line", SMALL_TILES, Choice(line=32)),
    _cut("fewer strips in a row", SMALL_TILES, Choice(chunk=8)),
    _cut("smaller pieces", PLANES_OF_BYTES, Choice(block=1024)),
    _cut("larger pieces", PLANES_OF_BYTES, Choice(block=65536)),
    _cut("smaller items", PLANES_OF_BYTES, Choice(item=1024)),
    _tried("stores past the caches", "schedule/stream.py", NHWC_HALVES, Switch(stream, "across", always(1))),
    _cut("shorter runs of tiles", NHWC_HALVES, Choice(run=16)),
    _cut("tiles of a whole cache line", NHWC_HALVES, Choice(line=128)),
    _tried("batches of 4", "schedule/batches.py", SHORT_ROWS, Switch(batches, "MOST", 4)),
    _tried("batches of 16", "schedule/batches.py", SHORT_ROWS, Switch(batches, "MOST", 16)),
    _tried("batches of 4", "schedule/batches.py", HALF_ROWS, Switch(batches, "MOST", 4)),
    _tried("converted for each loop", "schedule/wide.py", HALF_ROWS, Switch(wide, "PASSES", ENDLESS)),
    _tried("larger batches", "schedule/batches.py", BF16_ROWS, Switch(batches, "BATCH", 40960)),
    _tried("batches of 2", "schedule/batches.py", BF16_ROWS, Switch(batches, "MOST", 2)),
    _tried("batches of longer rows", "schedule/batches.py", ROWS, Switch(batches, "SHORT", 4096)),
    _tried("one row at a time", "schedule/kernels.py", ROWS, Switch(fuse, "pieces", pieces_of(rows=ENDLESS))),
    _tried("stores past the caches", "schedule/stream.py", PLANES, Switch(stream, "in_order", always(1))),
    *(attempt for case in (PLANES, HALF_PLANES, LONG_ROWS, GN_BF16) for attempt in _chunks(case)),
    *(attempt for case in RMS_HALVES for attempt in _together(case)),
)
