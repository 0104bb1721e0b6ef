"""The list of passes: each maps a graph to an equivalent one, or to the same object. A pass that depends on
the machine receives it; the passes in the list are those for the reference machine.

>>> [p.name for p in PASSES]  # doctest: +NORMALIZE_WHITESPACE
['keep codes', 'contract codes', 'contract integers', 'fold constants', 'narrow constants', 'hide values',
 'simplify', 'split sums', 'split scans', 'fill words', 'fold constants', 'hoist products',
 'loop batch', 'shorten', 'winograd', 'split codes', 'pack constants', 'turn operands', 'update states',
 'own scales']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from anyrt.core.machine import Machine
from anyrt.ir.graph import Graph
from anyrt.ir.rewrite import in_regions
from anyrt.ir.verify import assert_graph
from anyrt.passes.contract_codes import contract_codes
from anyrt.passes.contract_integers import contract_integers
from anyrt.passes.fill_words import fill_words
from anyrt.passes.fold_constants import fold_constants
from anyrt.passes.hide_values import hide_values
from anyrt.passes.hoist_products import hoist_products
from anyrt.passes.keep_codes import keep_codes
from anyrt.passes.loop_batch import loop_batch
from anyrt.passes.narrow_constants import narrow_constants
from anyrt.passes.own_scales import own_scales
from anyrt.passes.pack_constants import pack_constants
from anyrt.passes.requirements import requirements
from anyrt.passes.shorten import shorten
from anyrt.passes.simplify import simplify
from anyrt.passes.split_codes import split_codes
from anyrt.passes.split_scans import split_scans
from anyrt.passes.split_sums import split_sums
from anyrt.passes.turn_operands import turn_operands
from anyrt.passes.update_states import update_states
from anyrt.passes.winograd import KNOWN, TILES, winograd
from anyrt.prims.const import Param

__all__ = ["PASSES", "Pass", "passes_for", "requirements"]


@dataclass(frozen=True, slots=True)
class Pass:
    """A change of the graph and the regions in it."""

    name: str
    change: Callable[[Graph], Graph]

    def run(self, graph: Graph) -> Graph:
        """The graph after this pass, checked."""
        after = self.change(in_regions(graph, self.change))
        if after is not graph:
            assert_graph(after, Param, self.name, graph)
        return after


PASSES: Final[tuple[Pass, ...]] = (
    Pass("keep codes", keep_codes),
    Pass("contract codes", contract_codes),  # of weights, too, which folding would convert to numbers
    Pass("contract integers", contract_integers),
    Pass("fold constants", fold_constants),
    Pass("narrow constants", narrow_constants),
    Pass("hide values", hide_values),
    Pass("simplify", simplify),
    Pass("split sums", split_sums),
    Pass("split scans", split_scans),
    Pass("fill words", fill_words),
    Pass("fold constants", fold_constants),  # rules bring constants together
    Pass("hoist products", hoist_products),
    Pass("loop batch", loop_batch),  # which the former pass would undo
    Pass("shorten", shorten),
    Pass("winograd", winograd),
    Pass("split codes", split_codes),
    Pass("pack constants", pack_constants),
    Pass("turn operands", turn_operands),
    Pass("update states", update_states),
    Pass("own scales", own_scales),  # equal constants are shared until here
)


def passes_for(
    machine: Machine, tiles: Sequence[int] = TILES, always: bool = False, usual: Mapping[str, int] = KNOWN
) -> tuple[Pass, ...]:
    """All passes for a machine, with Winograd tiles of these sizes for sums over windows, `always` or only if
    they are less work at the `usual` sizes."""
    configured: dict[Callable[[Graph], Graph], Callable[[Graph], Graph]] = {
        loop_batch: partial(loop_batch, machine=machine),
        pack_constants: partial(pack_constants, machine=machine),
        split_sums: partial(split_sums, machine=machine),
        winograd: partial(winograd, tiles=tiles, always=always, usual=usual, machine=machine),
    }
    return tuple(replace(p, change=configured.get(p.change, p.change)) for p in PASSES)
