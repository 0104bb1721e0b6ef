"""`anyrt inspect PLAN`: show the content of a plan or an ONNX model, as tables or as JSON (`--json`)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from anyrt.cli.command import Command
from anyrt.cli.show import print_heading, print_json, print_table, print_text
from anyrt.compiler.cached import build_seconds
from anyrt.core.dimtext import print_dim
from anyrt.core.dtype import short_name
from anyrt.core.enums import TensorFormat
from anyrt.core.requirement import Requirement
from anyrt.core.units import byte_count
from anyrt.plan.file import PlanFile
from anyrt.plan.json import Json
from anyrt.plan.plan import Binding, Plan, Range, SymbolRecord
from anyrt.plan.report import full_text, parse_report, short_text


def options(parser: ArgumentParser) -> None:
    """The network, and the output format."""
    parser.add_argument("network", help="a plan, an ONNX model, or FILE.py:FUNCTION")
    parser.add_argument(
        "--full", action="store_true", help="print the full build report instead of a summary"
    )


def run(args: Namespace) -> None:
    """Read the plan with all its checks, and print it."""
    from anyrt.cli.script import plan_file, plan_source

    if Path(args.network).suffix == ".onnx":
        _print_model(Path(args.network), args.json)
        return
    source = plan_source(args.network)
    file = plan_file(source)
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    if args.json:
        print_json(describe(file, size))
    else:
        _print_plan(file, args.network, size, args.full)


def _print_model(path: Path, as_json: bool) -> None:
    from anyrt.onnx.facts import facts_of

    facts = facts_of(path)
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        if isinstance(value, dict):
            print_heading(key)
            print_table(("name", ""), [(str(k), str(v)) for k, v in value.items()])
        else:
            print_text(f"{key}: {value}")


def describe(file: PlanFile, size: int) -> dict[str, Json]:
    """The plan as plain values; without the constants' elements and the graph."""
    plan = file.plan
    return {
        "name": plan.name,
        "bytes": size,
        "digest": file.digest.hex(),
        "constant_bytes": plan.blob_bytes,
        "bindings": [_binding(b) for b in plan.bindings],
        "profiles": [[_range(r) for r in profile] for profile in plan.profiles],
        "symbols": [_symbol(s) for s in plan.symbols],
        "conditions": [
            {"code": r.code, "where": r.where, "condition": _condition(r)} for r in plan.requirements
        ],
        "settings": dict(plan.settings),
        "layers": [
            {
                "name": x.name,
                "kind": x.kind,
                "inputs": list(x.inputs),
                "outputs": list(x.outputs),
                "details": dict(x.details),
            }
            for x in plan.layers
        ],
        "constants": [
            {"name": b.name, "dtype": short_name(b.dtype), "count": b.count, "bytes": b.nbytes}
            for b in plan.blobs
        ],
        "report": parse_report(plan.report).as_json(),
        "build_seconds": dict(build_seconds(plan)),
    }  # fmt: skip


def _symbol(s: SymbolRecord) -> dict[str, Json]:
    return {
        "name": s.name,
        "tensor": s.tensor,
        "axis": s.axis,
        "is_value": s.is_value,
        "min": s.lo,
        "max": s.hi,
    }


def _binding(b: Binding) -> dict[str, Json]:
    return {
        "name": b.name,
        "is_input": b.is_input,
        "dtype": short_name(b.dtype),
        "shape": [d if isinstance(d, int) else print_dim(d) for d in b.shape],
        "is_shape": b.is_shape,
        "is_host": b.is_host,
        "format": b.format.name,
    }


def _condition(r: Requirement) -> str:
    return f"{print_dim(r.left)} {r.relation.value} {print_dim(r.right)}"


def _range(r: Range) -> dict[str, Json]:
    return {
        "tensor": r.tensor,
        "is_values": r.is_values,
        "min": list(r.min),
        "opt": list(r.opt),
        "max": list(r.max),
    }


def _print_plan(file: PlanFile, path: str, nbytes: int, full: bool) -> None:
    plan = file.plan
    size, constants = byte_count(nbytes), byte_count(plan.blob_bytes)
    print_text(f"{path}: {plan.name!r}, {size}, of these {constants} constants")
    print(f"digest {file.digest.hex()}")
    print_heading("bindings")
    rows = [(b.name, _role(b), _kind(b), _shape(b)) for b in plan.bindings]
    print_table(("name", "role", "type", "shape"), rows)
    _print_profiles(plan)
    for title, columns, lines in _sections(plan):
        if lines:
            print_heading(title)
            print_table(columns, lines)
    if plan.report:
        print_heading("report")
        write = full_text if full else short_text
        print_text(write(parse_report(plan.report), build_seconds(plan)))
        if not full:
            print_text(f"`anyrt inspect {path} --full` prints the full build report")


def _sections(plan: Plan) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    return [
        ("conditions on sizes", ("code", "where", "condition"), [
            (r.code, r.where, _condition(r)) for r in plan.requirements
        ]),
        ("settings", ("setting", "value"), list(plan.settings)),
        ("layers", ("name", "kind", "inputs", "outputs"), [
            (x.name, x.kind, ", ".join(x.inputs), ", ".join(x.outputs)) for x in plan.layers
        ]),
        ("constants", ("name", "type", "elements", "size"), [
            (b.name, short_name(b.dtype), str(b.count), byte_count(b.nbytes)) for b in plan.blobs
        ]),
    ]  # fmt: skip


def _print_profiles(plan: Plan) -> None:
    for number, profile in enumerate(plan.profiles):
        print_heading(f"profile {number}")
        rows = [
            (r.tensor, "values" if r.is_values else "shape", *(_sizes(x) for x in (r.min, r.opt, r.max)))
            for r in profile
        ]
        print_table(("tensor", "of its", "minimum", "optimum", "maximum"), rows)


def _role(b: Binding) -> str:
    return ("input" if b.is_input else "output") + (", shape tensor" if b.is_shape else "")


def _kind(b: Binding) -> str:
    linear = b.format is TensorFormat.LINEAR
    return short_name(b.dtype) if linear else f"{short_name(b.dtype)}, {b.format.name}"


def _shape(b: Binding) -> str:
    return f"({', '.join(map(print_dim, b.shape))})"


def _sizes(x: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, x))})"


COMMAND = Command("show the content of a plan or an ONNX model", options, run)
