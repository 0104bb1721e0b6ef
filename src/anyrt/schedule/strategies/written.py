"""Written: a kernel of statements that a primitive has written, inside loops over what is independent."""

from __future__ import annotations

from anyrt.schedule.strategies.common import PARALLELISE, VERSION
from anyrt.schedule.strategies.step import Strategy

WRITTEN: Strategy = (PARALLELISE, VERSION)
