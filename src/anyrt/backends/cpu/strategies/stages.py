"""What a kernel saves that computes contractions at items of a later one (schedule/stages.py): a price.

What lies between the two is neither stored nor loaded again, but each item reads what all of them need.
"""

from __future__ import annotations

from anyrt.core.machine import Machine
from anyrt.schedule.step import AtItems

FLOAT = 4  # bytes


def gain(x: AtItems, machine: Machine) -> int:
    """Instructions on vectors that are saved: of moves to the last-level cache and back, but for what several
    items read of windows, less those of loads from there that items repeat."""
    if x.items < machine.cores:
        return 0  # what waits for a core costs more than any move
    far, move = machine.l2_bytes // FLOAT, machine.costs.move
    saved = (sum(n for n in x.between if n > far) - x.repeated) * move
    if sum(s.elements for s in x.shared) + sum(x.between) // x.items <= far:
        return saved // machine.lanes
    # While one tile is summed in registers, what is read next is on its way: of all tiles that are made with
    # what they share, one waits. Half of a move is the load.
    again = sum(s.elements // -(-max(1, s.rows) // machine.tile_rows) for s in x.shared)
    return (saved - again * x.items * (move // 2)) // machine.lanes
