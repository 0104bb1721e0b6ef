"""What each mechanism of the compiler gives: a case with it and without it, in turn."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

from anyrt.codegen import arithmetic, bfloat, permute, values, widen
from anyrt.core.machine import Machine
from anyrt.passes import rules
from anyrt.schedule import cost, fuse, kept, kernels, stream, wide
from anyrt.schedule.choice import Choice
from anyrt.schedule.pieces import Pieces, pieces
from benchmarks.cases import CASES, Case
from benchmarks.measure import Effort, measure
from benchmarks.peers import Way
from benchmarks.peers import anyrt as ours
from benchmarks.peers.anyrt import DYNAMIC
from benchmarks.probe import Probe
from benchmarks.record import Gain
from benchmarks.values import input_values

ENDLESS = 1 << 60
# The package has functions of these names.
FOLDING, SHORTEN = (import_module(f"anyrt.passes.{name}") for name in ("fold_constants", "shorten"))


@dataclass(frozen=True, slots=True)
class Switch:
    """A name in a module (or class), and what stands there when the mechanism is off."""

    owner: ModuleType | type
    name: str
    off: Any


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What it is called, where it lives, how to switch it off, and on which case (and engine: static or
    dynamic) it is measured. One that is not kept (attempts.py) is what the switches make."""

    name: str
    place: str
    case: str
    switches: tuple[Switch, ...]
    kept: bool = True
    engine: str = ""


def _never(*_: object) -> None:
    return None


def _as_it_is(body: object, *_: object) -> object:
    return body


def _one(*_: object) -> int:
    return 1


def _nothing(*_: object) -> int:
    return 0


def _no(*_: object) -> bool:
    return False


def always(value: int) -> Callable[..., int]:
    """What takes the place of a formula."""
    return lambda *_: value


def pieces_of(**sizes: int) -> Callable[[Machine, Choice], Pieces]:
    """What takes the place of `pieces`, with some sizes as given."""
    return lambda machine, choice: replace(pieces(machine, choice), **sizes)


MECHANISMS = (
    Mechanism(
        "positions near each other read as whole registers and permuted",
        "schedule/near.py, codegen/permute.py",
        "resize_bilinear_hp_8x64x56to112",
        (Switch(permute, "MOST", 0),),
    ),
    Mechanism(
        "where vectors of positions begin to read, from tables",
        "schedule/places.py",
        "chain_preproc_1080p_rst",
        (Switch(fuse, "with_places", _as_it_is),),
    ),
    Mechanism(
        "a row kept while taps along an outer axis read it again",
        "schedule/kernels.py, schedule/kept.py",
        "resize_bicubic_hp_8x64x56to112",
        (Switch(kernels, "HEAVY", ENDLESS), Switch(kept, "HEAVY", ENDLESS), Switch(fuse, "HEAVY", ENDLESS)),
    ),
    Mechanism(
        "pixels of few channels as one flat row",
        "schedule/flat.py",
        "resize_bilinear_hp_1080p_to640_u8_nhwc",
        (Switch(kernels, "flattened", _never),),
    ),
    Mechanism(
        "planes of a photograph from rows that are kept together",
        "schedule/kernels.py",
        "chain_preproc_1080p_trs",
        (Switch(kernels, "_beside", _never),),
    ),
    Mechanism(
        "channels taken apart piece by piece",
        "schedule/kernels.py",
        "shuffle_u8_hwc2chw_1080p",
        (Switch(kernels, "_taken_apart", lambda nest: nest),),
    ),
    Mechanism(
        "strides up to 4 read as whole vectors",
        "codegen/values.py",
        "shuffle_nhwc2nchw_1x224x224x3",
        (Switch(values, "STRIDED", 1),),
    ),
    Mechanism(
        "few channels interleaved when stored",
        "schedule/nest.py, codegen/transpose.py",
        "shuffle_nchw2nhwc_1x3x224x224",
        (Switch(kernels, "interleaves", _never),),
    ),
    Mechanism(
        "tiles transposed in registers",
        "schedule/kernels.py, codegen/transpose.py",
        "shuffle_t2d_L3_1024",
        (Switch(kernels.Builder, "_read_across", _never),),
    ),
    Mechanism(
        "transposing before a resize that grows",
        "passes/rules.py, schedule/fuse.py",
        "chain_gn_scale_silu_resize2x_nhwc_bf16_1x320x64x64",
        (Switch(rules, "grows", _no), Switch(fuse, "grows", _no)),
    ),
    Mechanism(
        "factors of channels stored where tiles would compute them again",
        "schedule/kernels.py",
        "chain_gn_scale_silu_resize2x_nhwc_1x320x64x64",
        (Switch(kernels.Builder, "_refuse_repeated", _never),),
    ),
    Mechanism(
        "taps along an outer axis computed again instead of kept",
        "schedule/cost.py",
        "resize_bilinear_hp_nhwc_8x56x56x64to112",
        (Switch(cost, "ALONG", cost.ACROSS),),
    ),
    Mechanism(
        "squares around the mean of long rows in one pass",
        "schedule/chunks.py",
        "norm_gn32_2x320x64x64",
        (Switch(kernels, "LONG", ENDLESS),),
    ),
    Mechanism(
        "bfloat16 narrowed by the processor's instruction",
        "codegen/bfloat.py",
        "norm_gn32_bf16_2x320x64x64",
        (Switch(bfloat, "NARROWED", ()), Switch(widen, "AT_ONCE", 1)),
    ),
    Mechanism(
        "two registers of bfloat16 at a time",
        "codegen/widen.py",
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
        "rows of half types divided by a product",
        "passes/shorten.py, prims/scalar/",
        "norm_rms_f16_1x512x4096",
        (Switch(SHORTEN, "HALVES", frozenset()),),
    ),
    Mechanism(
        "rows of half types converted once",
        "schedule/wide.py",
        "norm_ln_bf16_8x512x768",
        (Switch(wide, "PASSES", ENDLESS),),
    ),
    Mechanism(
        "short rows in batches",
        "schedule/batches.py",
        "norm_ln_short_8x4096x64",
        (Switch(kernels, "rows_of_batch", _one),),
    ),
    Mechanism(
        "two rows at a time",
        "schedule/pairs.py",
        "norm_ln_8x512x768",
        (Switch(fuse, "pieces", pieces_of(rows=ENDLESS)),),
    ),
    Mechanism(
        "the next rows on their way",
        "schedule/ahead.py",
        "norm_ln_8x512x768",
        (Switch(kernels, "asking_ahead", _as_it_is),),
    ),
    Mechanism(
        "outputs written past the caches",
        "schedule/stream.py",
        "scale_u_8x64x112x112",
        (Switch(stream, "in_order", always(ENDLESS)), Switch(stream, "across", always(ENDLESS))),
    ),
    Mechanism(
        "tiles written past the caches",
        "schedule/stream.py",
        "shuffle_t2d_4096",
        (Switch(stream, "in_order", always(ENDLESS)), Switch(stream, "across", always(ENDLESS))),
    ),
    Mechanism(
        "sizes that are open decide while running what is written past the caches",
        "schedule/stream.py",
        "shuffle_nchw2nhwc_dyn_8x64x112x112",
        (Switch(stream, "_reaches", _nothing),),
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
    probe, cases = Probe(threads, effort.patience_s), {c.name: c for c in CASES}
    for mechanism in wanted:
        case = cases[mechanism.case]
        x = input_values(case.input, case.low, case.high)
        with _off(mechanism.switches):
            without = _built(case, x, threads, mechanism.engine)
        ways = [without, _built(case, x, threads, mechanism.engine)]
        off, on = measure(ways, effort, probe)
        yield Gain(
            *(mechanism.name, mechanism.place, mechanism.case, threads),
            *(off.median, off.minimum, on.median, on.minimum),
            kept=mechanism.kept,
        )


def _built(case: Case, x: Any, threads: int, engine: str) -> Way:
    """AnyRT's engine from a cache of its own: the cache does not know of switches."""
    with tempfile.TemporaryDirectory() as cache:
        before = os.environ.get("ANYRT_CACHE_DIR")
        os.environ["ANYRT_CACHE_DIR"] = cache
        ours.forget()
        try:
            return next(w for w in ours.prepare(case, x, threads) if w.label == engine)
        finally:
            os.environ.pop("ANYRT_CACHE_DIR")
            if before is not None:
                os.environ["ANYRT_CACHE_DIR"] = before


@contextmanager
def _off(switches: tuple[Switch, ...]) -> Iterator[None]:
    saved = [getattr(s.owner, s.name) for s in switches]
    for s in switches:
        setattr(s.owner, s.name, s.off)
    try:
        yield
    finally:
        for s, value in zip(switches, saved, strict=True):
            setattr(s.owner, s.name, value)
