"""The primitives by name, for texts; and the names of a graph's constants."""

from __future__ import annotations

from collections.abc import Mapping

from anyrt.core.requirement import Assertion, Requirement
from anyrt.ir.graph import Graph, nested, walk
from anyrt.ir.prim import Prim
from anyrt.ir.text import Vocabulary
from anyrt.prims.asserted import Asserted
from anyrt.prims.checked import Checked
from anyrt.prims.chosen import Chosen
from anyrt.prims.collective import Collective
from anyrt.prims.concat import Concat
from anyrt.prims.const import Blob, Const, Iota, Param, Shape
from anyrt.prims.contract import Contract
from anyrt.prims.count import Count
from anyrt.prims.foremost import Foremost
from anyrt.prims.gather import Gather
from anyrt.prims.map import Map
from anyrt.prims.mended import Mended
from anyrt.prims.nonzero import NonZero
from anyrt.prims.pad import Pad
from anyrt.prims.plugin import Plugin, Tensor
from anyrt.prims.ranked import Ranked
from anyrt.prims.reduce import Reduce
from anyrt.prims.repeated import Repeated
from anyrt.prims.reshape import Reshape
from anyrt.prims.scan import Scan
from anyrt.prims.scatter import Scatter
from anyrt.prims.suppressed import Suppressed
from anyrt.prims.taprules import Border, Cubic, Linear, Nearest
from anyrt.prims.taps import Taps
from anyrt.prims.view import Axis, View

PRIMITIVES: tuple[type[Prim], ...] = (
    Const,
    Param,
    Shape,
    Iota,
    Map,
    Reduce,
    Contract,
    Mended,
    Reshape,
    View,
    Pad,
    Concat,
    Taps,
    Gather,
    Scan,
    Scatter,
    Ranked,
    Foremost,
    NonZero,
    Suppressed,
    Repeated,
    Chosen,
    Checked,
    Asserted,
    Count,
    Plugin,
    Collective,
)
ATTRIBUTES: tuple[type, ...] = (Axis, Nearest, Linear, Cubic, Border, Requirement, Assertion, Tensor)
CLASSES: Mapping[str, type] = {c.__name__: c for c in (*PRIMITIVES, *ATTRIBUTES)}


def vocabulary(blobs: Mapping[str, Blob]) -> Vocabulary:
    """The vocabulary for the text of a graph with these constants."""
    return Vocabulary(CLASSES, Param, blobs)


def named_blobs(graph: Graph) -> dict[str, Blob]:
    """The constants of `graph`, each under its own name, or a numbered one if that is missing or taken."""
    blobs: dict[str, Blob] = {}
    named: set[Blob] = set()
    for value in (v for inner in nested(graph) for v in walk(v for _, v in (*inner.inputs, *inner.outputs))):
        blob = _blob(value.op)
        if blob is not None and blob not in named:
            named.add(blob)
            blobs[blob.name if blob.name and blob.name not in blobs else _fresh(blobs)] = blob
    return blobs


def _blob(op: Prim) -> Blob | None:
    """The data that a plan stores for a primitive beside its text."""
    match op:
        case Const(blob=blob) | Plugin(made=blob):
            return blob
    return None


def _fresh(used: Mapping[str, Blob]) -> str:
    count = len(used)
    while f"const{count}" in used:
        count += 1
    return f"const{count}"
