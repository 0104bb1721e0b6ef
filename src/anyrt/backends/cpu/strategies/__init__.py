"""The strategies of the CPU: each is a readable list of transformations (loops/).

A group's kernel begins with serial loops (schedule/naive.py). Its content selects the strategy: rows that
taps read again (stencil), sums of products (contraction), sums over the windows of an image (window), folds
(reduction), updates in place (update), rows with NaN to recompute (mend), a primitive's own statements
(extern), or none of these (map). Each step is applied to the result of the steps before; if it does not
apply, it returns the reason, and the next one is tried. `STRATEGIES.without("tile")` removes a step, and
`STRATEGIES.instead("cache read", Step("cache read for two loops", …))` replaces one.
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
    """Sums of products use the strategy for windows, that for sums in registers, or that of folds."""
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
