"""The page of a report: data as JSON, the drawing as SVG, and a script that displays both (page.js)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from anyrt.core.units import byte_count
from anyrt.plan.json import Json

BARS: Final = 24  # of the histogram


def page(title: str, facts: Mapping[str, Json], drawing: str, notes: Sequence[str]) -> str:
    """The page: `facts` has problems, kernels, layers, latencies, errors, stored, memory and constants."""
    held = json.dumps(facts, ensure_ascii=True, separators=(",", ":")).replace("</", "<\\/")
    lines = "".join(f"<p>{escape(note)}</p>" for note in notes)
    omitted = "<p>omitted: see the kernels below</p>" if _list(facts, "kernels") else ""
    parts = [
        ("Problems", _problems(facts)),
        ("Drawing", f'<div id="drawing">{drawing}</div>' if drawing else omitted),
        ("Kernels by time", _kernels(facts)),
        ("Layers by time", _table("layer", ("name", "kind", "ms"), _rows(facts, "layers", "ms"))),
        ("Latency", _histogram([float(str(x)) for x in _list(facts, "latencies")])),
        ("Error of each layer", _errors(facts)),
        (
            "Stored instead of fused",
            _table("", ("value", "bytes", "reason"), _rows(facts, "stored", "bytes")),
        ),
        ("Memory of intermediate tensors over time", _memory(facts)),
        ("Constants", _table("", CONSTANTS, _rows(facts, "constants", "bytes"))),
    ]
    body = "".join(f"<section><h2>{name}</h2>{text}</section>" for name, text in parts if text)
    search = '<input id="search" type="search" placeholder="search layers and kernels">'
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_part('css')}</style></head><body><header><h1>{escape(title)}</h1>{search}</header>"
        f'<main>{lines}{body}</main><aside id="detail" hidden></aside>'
        f'<script id="facts" type="application/json">{held}</script>'
        f"<script>{_part('js')}</script></body></html>\n"
    )


CONSTANTS: Final = ("name", "type", "count", "bytes", "minimum", "mean", "maximum", "deviation", "zeros")


def _part(kind: str) -> str:
    """The script or the style sheet beside this file."""
    return files(__package__).joinpath(f"page.{kind}").read_text()


def _list(facts: Mapping[str, Json], name: str) -> list[Json]:
    value = facts.get(name)
    return value if isinstance(value, list) else []


def _rows(facts: Mapping[str, Json], name: str, by: str) -> list[dict[str, Json]]:
    rows = [row for row in _list(facts, name) if isinstance(row, dict)]
    return sorted(rows, key=lambda row: -float(str(row.get(by) or 0)))


def _table(kind: str, columns: Sequence[str], rows: Sequence[Mapping[str, Json]]) -> str:
    """A table with sortable rows, which can be clicked if they have a kind."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = []
    for row in rows:
        cells = "".join(_cell(row.get(c)) for c in columns)
        opened = (
            f'<tr class="row" data-kind="{kind}" data-name="{escape(str(row.get("name", "")))}">'
            if kind
            else "<tr>"
        )
        body.append(f"{opened}{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _cell(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape('' if value is None else str(value))}</td>"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return f'<td class="n" data-v="{value}">{shown}</td>'


def _kernels(facts: Mapping[str, Json]) -> str:
    columns = ("name", "ms", "share", "limit", "reads", "writes", "operations", "kind")
    return _table("kernel", columns, _rows(facts, "kernels", "ms"))


def _problems(facts: Mapping[str, Json]) -> str:
    return _table(
        "", ("node", "operator", "problem"), [r for r in _list(facts, "problems") if isinstance(r, dict)]
    )


def _errors(facts: Mapping[str, Json]) -> str:
    rows = [r for r in _list(facts, "errors") if isinstance(r, dict)]
    if not rows:
        return ""
    largest = [float(str(r["relative"])) for r in rows]
    against = escape(str(facts.get("against", "")))
    return f"<p>against {against}</p>{_bars(largest)}" + _table(
        "", ("name", "shape", "largest", "relative", "agrees"), rows
    )


def _memory(facts: Mapping[str, Json]) -> str:
    rows = [r for r in _list(facts, "memory") if isinstance(r, dict)]
    sizes = [float(str(r["bytes"])) for r in rows]
    if not sizes:
        return ""
    most = f"<p>memory after each step; maximum {byte_count(int(max(sizes)))}</p>"
    return most + _bars(sizes, [str(r["step"]) for r in rows])


def _histogram(times: Sequence[float]) -> str:
    if not times:
        return ""
    low, high = min(times), max(times)
    width = (high - low) / BARS or 1.0
    counts = [0] * BARS
    for t in times:
        counts[min(BARS - 1, int((t - low) / width))] += 1
    middle = sorted(times)[len(times) // 2]
    summary = f"{len(times)} inferences: minimum {low:.4g} ms, median {middle:.4g} ms, maximum {high:.4g} ms"
    return f"<p>{summary}</p>{_bars(counts, [f'{low + n * width:.4g} ms' for n in range(BARS)])}"


def _bars(values: Sequence[float], titles: Sequence[str] = ()) -> str:
    """A bar chart; the largest value has the full height."""
    most, wide = max((v for v in values if v < float("inf")), default=0.0) or 1.0, 640 / max(len(values), 1)
    bars = "".join(
        f'<rect class="bar" x="{n * wide:.1f}" width="{max(wide - 0.5, 0.3):.1f}" '
        f'y="{80 * (1 - min(v / most, 1)):.1f}" height="{80 * min(v / most, 1):.1f}">'
        f"<title>{escape(titles[n] if titles else str(n))}: {v:.4g}</title></rect>"
        for n, v in enumerate(values)
    )
    return f'<svg width="640" height="80" viewBox="0 0 640 80">{bars}</svg>'
