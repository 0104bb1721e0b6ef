"""The goals of layers, and how far each case is from them.

Medians count; differences up to 3 % are a tie. Ratios to the limit count from 20 µs on: below that, the
overhead of the call dominates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.layers.cases import Layer
from benchmarks.peers import OURS
from benchmarks.record import MISSING, SAME_AS_BEST, Row, disturbance

LEAST_LIMIT_US = 20.0
OVER_C = 1.2  # a plain C kernel reached `known` times the limit: we may need so much more
MEMCPY_SLACK = 1.05
ALL_FASTER = 2.0
HALF_TYPE = 0.6
DYNAMIC = 1.1
CROWD = 1.6  # beside one busy process
BUILD_SECONDS, LOAD_SECONDS = 1.0, 0.005
BOUND_CALL_US, PLAIN_CALL_US = 1.5, 4.0


@dataclass(frozen=True, slots=True)
class Goal:
    """Times faster than the best peer in every case; the limit of the geometric mean of times / limit."""

    faster: float
    limit: float = math.inf


GOALS = {
    Layer.SCALE.value: Goal(1.0, 1.2),
    Layer.SHUFFLE.value: Goal(1.0, 1.5),
    Layer.NORMALIZATION.value: Goal(1.0, 1.5),
    Layer.RESIZE.value: Goal(1.0, 3.5),
    Layer.CHAIN.value: Goal(3.0, 3.5),
    Layer.SPELLED.value: Goal(1.0),
}
# Photographs with the resize first, and with the transpose first.
SPECIAL = {"chain_preproc_1080p_rst": 4.0, "chain_preproc_1080p_trs": 2.0}


def lead(row: Row) -> float:
    """The best peer's time divided by ours; NaN if either is missing, as below."""
    return row.best.median / row.ours.median


def above_limit(row: Row) -> float:
    """Our time divided by the limit, if the limit counts."""
    return math.nan if row.limit < LEAST_LIMIT_US else row.ours.median / row.limit


def required_lead(row: Row) -> float:
    """The lead that the case must have."""
    return SPECIAL.get(row.case, GOALS[row.layer].faster)


def is_fast(row: Row) -> bool:
    """Whether AnyRT computes the case, as many times faster than the best peer as is required."""
    return row.ours is not MISSING and not lead(row) < required_lead(row) * (1 - SAME_AS_BEST)


def verdict(row: Row) -> str:
    """The goals that a case misses; empty if there are none."""
    if row.ours is MISSING:
        return row.left_out.get(OURS, "AnyRT is missing")
    faults = []
    if not is_fast(row):
        behind = f"slower than {row.best.name}" if lead(row) < 1 else f"not {required_lead(row):g}× faster"
        faults.append(behind)
    if row.known is not None and above_limit(row) > OVER_C * row.known:
        faults.append(f"above {OVER_C:g} × C ({row.known:.2f})")
    if row.memcpy and row.limit > MEMCPY_SLACK * row.memcpy:
        faults.append("limit is slower than memcpy")
    return ", ".join([*faults, *disturbance(row)])
