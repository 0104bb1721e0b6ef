"""The protocol of tables of taps for transformations, which does not depend on who creates and fills them."""

from __future__ import annotations

from typing import Protocol

from anyrt.core.dims import Dim
from anyrt.ir.buffer import Addresses, Buffer

# Classes of tables that have versions: neighbouring positions ascend by at most this much each, on average.
SLOPES = (1, 2, 4)
LEAST = 256  # elements that a buffer must have to be read in whole registers near any of them
ADDRESSED_GROUP = 16  # elements of a group up to which an entry is within 256 of its vector's first


class Table(Protocol):
    """Positions, and weights where there are some, one entry for each output position, or for each of
    `group` elements that lie side by side there; `n_in`: positions of the operand."""

    @property
    def positions(self) -> Buffer:
        """The positions."""

    @property
    def weights(self) -> Buffer | None:
        """Their weights."""

    @property
    def n_in(self) -> Dim:
        """How many positions the operand has."""

    @property
    def group(self) -> int:
        """Entries for each position."""

    @property
    def ascends(self) -> bool:
        """Neighbouring positions never descend."""

    def reach(self, slope: int) -> tuple[Dim, Dim]:
        """The table is of this class where the first size is at most the second."""

    def position(self, entry: Dim) -> Dim:
        """The content of the table."""


class Tables(Protocol):
    """All tables of a kernel."""

    def of(self, buffer: Buffer) -> Table | None:
        """The table with these positions or weights; None for buffers that are neither."""

    def grouped(self, table: Table, group: int) -> Table:
        """The same table with entries for each of `group` elements."""

    def addresses(self, table: Table, *, common: bool) -> Addresses:
        """The starts from which vectors of a table's entries are read; `common`: the same for all taps."""
