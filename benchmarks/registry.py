"""All tables of cases by peers: cases, peers, limits, tables and documents.

`python -m benchmarks ops`, `contractions` and `families`.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.contractions import forms
from benchmarks.contractions import reference as contractions
from benchmarks.contractions import report as contraction_tables
from benchmarks.families import case as families_case
from benchmarks.families import reference as families
from benchmarks.families import report as family_tables
from benchmarks.layers import cases, report
from benchmarks.layers import reference as layers
from benchmarks.peers import NAMES
from benchmarks.suite import Suite, Work

# A case of each layer, which also runs beside a busy process.
CROWDED = (
    "scale_c_8x64x112x112",
    "resize_bilinear_hp_8x64x56to112",
    "shuffle_nchw2nhwc_8x64x112x112",
    "norm_ln_8x512x768",
    "chain_preproc_1080p_rst",
)
LAYERS = Suite(
    "ops",
    "measure layers and chains of layers",
    layers.LANGUAGE,
    cases.Layer,
    group=lambda case: case.layer,
    work=lambda task: Work(*cases.traffic(task.case), known=task.case.known),
    tables=report.tables,
    page=report.PAGE,
    document=Path("docs/tables/layers.md"),
    peers=NAMES,
    copies=True,
    call=cases.TINY,
    crowded=CROWDED,
)
CONTRACTIONS = Suite(
    "contractions",
    "measure products, convolutions, attention",
    contractions.LANGUAGE,
    forms.Group,
    group=lambda case: case.group,
    work=lambda task: Work(*forms.traffic(task.case), task.case.form.flops, task.case.dtype),
    tables=contraction_tables.tables,
    page=contraction_tables.PAGE,
    document=Path("docs/tables/contractions.md"),
)
FAMILIES = Suite(
    "families",
    "measure gathers, scatters, top k, sums, samples, fills, codes and more",
    families.LANGUAGE,
    families_case.Family,
    group=lambda case: case.family,
    work=lambda task: Work(*families_case.traffic(task.case, task.inputs, task.outputs)),
    tables=family_tables.tables,
    page=family_tables.PAGE,
    document=Path("docs/tables/families.md"),
    unit="by {:.3g}",
    least=True,
)
SUITES = (LAYERS, CONTRACTIONS, FAMILIES)
