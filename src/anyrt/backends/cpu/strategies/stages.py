"""The price of a kernel that computes contractions at items of a later one (schedule/stages.py).

The values between the two are neither stored nor loaded again, but each item reads the operands that all of
them share.
"""

from __future__ import annotations

from anyrt.core.machine import Machine
from anyrt.schedule.step import AtItems

FLOAT = 4  # bytes


def gain(x: AtItems, machine: Machine) -> int:
    """Vector instructions that are saved: moves to the last-level cache and back, except for parts of windows
    that several items read, less the loads from there that items repeat."""
    if x.items < machine.cores:
        return 0  # an idle core costs more than any move
    far, move, vector = machine.l2_bytes, machine.costs.move, FLOAT * machine.lanes
    saved = (sum(n for n in x.between if n > far) - x.repeated) * move
    if sum(s.nbytes for s in x.shared) + sum(x.between) // x.items <= far:
        return saved // vector
    # While one tile is summed in registers, the next operands are on their way: of all tiles that are
    # computed with shared operands, one waits. Half of a move is the load.
    again = sum(s.nbytes // -(-max(1, s.rows) // machine.tile_rows) for s in x.shared)
    return (saved - again * x.items * (move // 2)) // vector
