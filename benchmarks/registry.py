"""All tables of cases by peers."""

from benchmarks.contractions.suite import SUITE as CONTRACTIONS
from benchmarks.families.suite import SUITE as FAMILIES
from benchmarks.layers.suite import SUITE as LAYERS

SUITES = (LAYERS, CONTRACTIONS, FAMILIES)
