"""The Resize of ONNX models, whose coordinates follow the scales, compared with its reference."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from anyrt.core.enums import ResizeCoordinateTransformation, ResizeRoundMode, ResizeSelector
from anyrt.ir.interpret import interpret
from anyrt.ops._cases import case_run, differences
from anyrt.ops._record import Case
from anyrt.ops._resize import CUBIC, FORMULA, HALF_PIXEL, LINEAR, NEAREST, UPPER, ScaledAttrs, Variant
from anyrt.ops.resize import SCALED

SCALES = (0.640625, 1.40625, 0.5)  # exact; of 7, 9 and 4 elements the first two cut some off
KINDS = [
    *product(ResizeCoordinateTransformation, ResizeSelector, [Variant.PLAIN]),
    *product([HALF_PIXEL], [FORMULA, UPPER], [Variant.SYMMETRIC, Variant.UNSHIFTED]),
]
MODES = [
    *({"resize_mode": NEAREST, "nearest_rounding": rounding} for rounding in ResizeRoundMode),
    {"resize_mode": LINEAR},
    {"resize_mode": CUBIC},
    {"resize_mode": CUBIC, "exclude_outside": True},
    {"resize_mode": LINEAR, "antialias": True},
    {"resize_mode": CUBIC, "antialias": True, "exclude_outside": True},
]
DYNAMIC = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


def wrong(case, dynamic):
    run = case_run(SCALED, case, dynamic)
    with np.errstate(all="ignore"):
        return differences(run, interpret(run.graph, run.feeds, run.sizes))


@DYNAMIC
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(map(str, mode.values())))
def test_coordinates_follow_scales_that_are_no_ratios(mode, dynamic):
    for how, single, variant in KINDS:
        attrs = ScaledAttrs(
            scales=SCALES,
            coordinate_transformation=how,
            selector_for_single_pixel=single,
            variant=variant,
            **mode,
        )
        assert not wrong(Case(attrs, ((7, 9, 4),), rtol=1e-5, atol=1e-5), dynamic)
        one = replace(attrs, scales=(0.25, 1.40625, 1.0))
        assert not wrong(Case(one, ((5, 1, 4),), rtol=1e-5, atol=1e-5), dynamic)
