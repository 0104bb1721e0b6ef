"""Networks and engines as small tables, which notebooks show instead of one line.

>>> table("a & b", ("name",), [("<x>",)], 0)
'<table><caption>a &amp; b</caption><tr><th>name</th></tr><tr><td>&lt;x&gt;</td></tr></table>'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from anyrt.api.edge.oneline import cut, listed, range_text, sizes, tensor_text
from anyrt.api.model.state import state_of
from anyrt.core.dtype import short_name
from anyrt.core.units import counted

if TYPE_CHECKING:
    from anyrt.api.model.network import INetworkDefinition
    from anyrt.api.model.state import NetworkState
    from anyrt.api.run.engine import ICudaEngine

MOST_ROWS = 20
# Like html.escape, whose import takes 5 ms of every start.
ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})

Row = tuple[str, ...]


def escape(text: str) -> str:
    """`text`, escaped for HTML."""
    return text.translate(ESCAPED)


def table(caption: str, columns: Row, rows: Sequence[Row], left_out: int) -> str:
    """The HTML of a table; `left_out`: the number of omitted rows, in a last line."""
    lines = [("th", columns), *(("td", row) for row in rows)]
    text = "".join(
        f"<tr>{''.join(f'<{tag}>{escape(cut(cell))}</{tag}>' for cell in cells)}</tr>" for tag, cells in lines
    )
    if left_out:
        text += f'<tr><td colspan="{len(columns)}">… {left_out} more</td></tr>'
    return f"<table><caption>{escape(cut(caption))}</caption>{text}</table>"


def network_table(network: INetworkDefinition) -> str:
    """The inputs and layers of a network, with the types and shapes of their results."""
    with suppress(Exception):
        state = state_of(network)
        total = len(state.inputs) + len(state.layers)
        rows = list(islice(_network_rows(state), MOST_ROWS))
        caption = f"{state.title or state.name}: {counted(len(state.layers), 'layer')}"
        return table(caption, ("layer", "name", "reads", "gives"), rows, total - len(rows))
    return escape(repr(network))


def _network_rows(network: NetworkState) -> Iterator[Row]:
    for tensor in network.inputs:
        yield "input", tensor.name, "", tensor_text(tensor)
    outputs = set(network.marked)
    for layer in network.layers:
        # Operands are named by the layers that compute them, if tensors have no names.
        reads = [t.name if t.layer is None else t.layer.name for t in layer.operands]
        gives = [f"{tensor_text(t)}{' (output)' * (t in outputs)}" for t in layer.outputs]
        yield layer.it.__class__.__name__, layer.name, listed(reads), listed(gives)


def engine_table(engine: ICudaEngine) -> str:
    """The inputs and outputs of an engine, with the range of shapes in its first profile."""
    with suppress(Exception):
        state = state_of(engine)
        ranges = {r.tensor: range_text(r) for r in (*state.plan.profiles, ())[0] if not r.is_values}
        rows = [
            (io, b.name, short_name(b.dtype), sizes(b.shape), ranges.get(b.name, ""))
            for b in state.io[:MOST_ROWS]
            for io in ("input" if b.is_input else "output",)
        ]
        parts = counted(len(state.plan.layers), "layer"), counted(engine.num_layers, "kernel")
        caption = f"{engine.name}: {', '.join(parts)}, {counted(engine.num_optimization_profiles, 'profile')}"
        columns = ("tensor", "name", "type", "shape", "first profile")
        return table(caption, columns, rows, len(state.io) - len(rows))
    return escape(repr(engine))
