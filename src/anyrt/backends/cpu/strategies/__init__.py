"""How kernels are made for the CPU: strategies, each a readable list of transformations (loops/).

A group's kernel begins with serial loops (schedule/naive.py). What it holds decides about its strategy:
rows that taps read again (stencil), sums of products (contraction), those of the windows of an image
(window), folds (reduction), what is there already (update), or has to be looked at (mend), statements of a
primitive's own (extern), or neither (map). Each
step is tried on what the steps before have left; where it does not apply it says why, and the next one is
tried. A step is switched off by leaving it out of the list, `STRATEGIES.without("tile")`, and done otherwise
by another step in its place, `STRATEGIES.instead("cache read", Step("cache read for two loops", …))`.
"""

from __future__ import annotations

from typing import Final

from anyrt.backends.cpu.codes import is_step
from anyrt.backends.cpu.strategies.contraction import CONTRACTION
from anyrt.backends.cpu.strategies.extern import EXTERN
from anyrt.backends.cpu.strategies.map import MAP
from anyrt.backends.cpu.strategies.mend import MEND
from anyrt.backends.cpu.strategies.reduction import REDUCTION
from anyrt.backends.cpu.strategies.stages import gain
from anyrt.backends.cpu.strategies.stencil import STENCIL
from anyrt.backends.cpu.strategies.tile_choice import is_tileable
from anyrt.backends.cpu.strategies.update import UPDATE
from anyrt.backends.cpu.strategies.window import WINDOW, is_windowed
from anyrt.core.machine import Machine
from anyrt.ir.kernel import Kernel
from anyrt.schedule.step import Strategies


def _choice(kind: str, kernel: Kernel, machine: Machine) -> str:
    """Sums of products have a strategy for windows, one for all that registers hold, and that of folds."""
    if kind != "contraction":
        return kind
    return "window" if is_windowed(kernel) else kind if is_tileable(kernel, machine) else "reduction"


STRATEGIES: Final = Strategies(
    {
        "map": MAP,
        "reduction": REDUCTION,
        "contraction": CONTRACTION,
        "window": WINDOW,
        "stencil": STENCIL,
        "update": UPDATE,
        "extern": EXTERN,
        "mend": MEND,
    },
    _choice,
    stages=gain,
    is_step=is_step,
)
