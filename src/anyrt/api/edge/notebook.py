"""Networks and engines as small tables, which notebooks show in place of the one line.

>>> table("a & b", ("name",), [("<x>",)], 0)
'<table><caption>a &amp; b</caption><tr><th>name</th></tr><tr><td>&lt;x&gt;</td></tr></table>'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from anyrt.api.edge.oneline import cut, listed, range_text, sizes, tensor_text
from anyrt.core.dtype import short_name
from anyrt.core.units import counted

if TYPE_CHECKING:
    from anyrt.api.model.layer import ILayer
    from anyrt.api.model.network import INetworkDefinition
    from anyrt.api.run.engine import ICudaEngine

MOST_ROWS = 20
# As html.escape does; importing that takes 5 ms of every start.
ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})

Row = tuple[str, ...]


def escape(text: str) -> str:
    """`text` as HTML shows it."""
    return text.translate(ESCAPED)


def table(caption: str, columns: Row, rows: Sequence[Row], left_out: int) -> str:
    """HTML of a table; `left_out`: rows that are only counted, below the others."""
    lines = [("th", columns), *(("td", row) for row in rows)]
    text = "".join(
        f"<tr>{''.join(f'<{tag}>{escape(cut(cell))}</{tag}>' for cell in cells)}</tr>" for tag, cells in lines
    )
    if left_out:
        text += f'<tr><td colspan="{len(columns)}">… {left_out} more</td></tr>'
    return f"<table><caption>{escape(cut(caption))}</caption>{text}</table>"


def network_table(network: INetworkDefinition) -> str:
    """Inputs and layers of a network, with the types and shapes of what they give."""
    with suppress(Exception):
        total = network.num_inputs + network.num_layers
        rows = list(islice(_network_rows(network), MOST_ROWS))
        caption = f"{network._title or network.name}: {counted(network.num_layers, 'layer')}"
        return table(caption, ("layer", "name", "reads", "gives"), rows, total - len(rows))
    return escape(repr(network))


def _network_rows(network: INetworkDefinition) -> Iterator[Row]:
    for tensor in network._inputs:
        yield "input", tensor._name, "", tensor_text(tensor)
    outputs = set(network._marked)
    for layer in network._layers:
        gives = [f"{tensor_text(t)}{' (output)' * (t in outputs)}" for t in layer._outputs]
        yield layer.__class__.__name__, layer._name, listed(_operands(layer)), listed(gives)


def _operands(layer: ILayer) -> list[str]:
    """The names of what a layer reads: of layers, where tensors have no names of their own."""
    made = [t for t in layer._inputs if t is not None]
    return [t._name if t._layer is None else t._layer._name for t in made]


def engine_table(engine: ICudaEngine) -> str:
    """Inputs and outputs of an engine, with the range of shapes in its first profile."""
    with suppress(Exception):
        ranges = {r.tensor: range_text(r) for r in (*engine._plan.profiles, ())[0] if not r.is_values}
        rows = [
            (io, b.name, short_name(b.dtype), sizes(b.shape), ranges.get(b.name, ""))
            for b in engine._io[:MOST_ROWS]
            for io in ("input" if b.is_input else "output",)
        ]
        loaded = engine._loaded
        parts = counted(len(loaded.plan.layers), "layer"), counted(len(loaded.program.kernels), "kernel")
        caption = f"{engine.name}: {', '.join(parts)}, {counted(engine.num_optimization_profiles, 'profile')}"
        columns = ("tensor", "name", "type", "shape", "first profile")
        return table(caption, columns, rows, len(engine._io) - len(rows))
    return escape(repr(engine))
