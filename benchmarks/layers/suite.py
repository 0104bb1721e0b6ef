"""Layers and chains of layers as a table: `python -m benchmarks ops`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.layers import report
from benchmarks.layers.cases import TINY, Layer, traffic
from benchmarks.layers.language import LANGUAGE
from benchmarks.peers import NAMES
from benchmarks.suite import Suite, Work

# Measured beside a busy process, too: one of each layer.
CROWDED = (
    "scale_c_8x64x112x112",
    "resize_bilinear_hp_8x64x56to112",
    "shuffle_nchw2nhwc_8x64x112x112",
    "norm_ln_8x512x768",
    "chain_preproc_1080p_rst",
)
SUITE = Suite(
    "ops",
    "layers and chains of layers",
    LANGUAGE,
    frozenset(x.value for x in Layer),
    group=lambda case: str(case.layer.value),
    work=lambda task: Work(*traffic(task.case), known=task.case.known),
    tables=report.tables,
    page=report.PAGE,
    document=Path("docs/tables/layers.md"),
    peers=NAMES,
    copies=True,
    call=TINY,
    crowded=CROWDED,
)
