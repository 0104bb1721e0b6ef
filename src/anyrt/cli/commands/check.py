"""`anyrt check MODEL`: report all problems in a model without building it.

anyrt check net.onnx         list all problems; without problems, list the
                             inputs and outputs with their shapes
anyrt check net.onnx --dla   also list which layers DLA supports, and why it
                             does not support the others
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyrt.cli.command import Command
from anyrt.cli.show import print_heading, print_json, print_table, records

if TYPE_CHECKING:
    from anyrt.api.model.network import INetworkDefinition
    from anyrt.onnx.parser import OnnxParser

DLA: Final = ("layer", "kind", "DLA")


def options(parser: ArgumentParser) -> None:
    """The model."""
    parser.description = __doc__
    parser.add_argument("model", type=Path, help="an ONNX file")
    parser.add_argument("--dla", action="store_true", help="report for each layer whether DLA supports it")


def run(args: Namespace) -> None:
    """Print all problems and exit with status 1, or else print the inputs and outputs."""
    from anyrt import init_libnvinfer_plugins
    from anyrt.api.building.builder import Builder
    from anyrt.api.edge.oneline import tensor_text
    from anyrt.api.model.network import INetworkDefinition
    from anyrt.api.model.state import state_of
    from anyrt.cli.progress import Silent
    from anyrt.onnx.parser import OnnxParser

    init_libnvinfer_plugins(Silent(), "")
    network = INetworkDefinition(Builder(Silent()), 0)
    parser = OnnxParser(network, Silent())
    if not parser.parse_from_file(str(args.model)):
        _refuse_unreadable(args.model, parser)
        problems = [parser.get_error(i) for i in range(parser.num_errors)]
        rows = [(str(p.node()) if p.node() >= 0 else "", p.node_operator(), p.desc()) for p in problems]
        columns = ("node", "operator", "problem")
        if args.json:
            print_json({"problems": records(columns, rows)})
        else:
            print_table(columns, rows)
        raise SystemExit(1)
    state = state_of(network)
    rows = [("input", t.name, tensor_text(t)) for t in state.inputs]
    rows += [("output", t.name, tensor_text(t)) for t in state.marked]
    dla = _dla(network) if args.dla else []
    if args.json:
        ports = records(("role", "name", "type"), rows)
        print_json({"problems": [], "tensors": ports, "layers": network.num_layers, "dla": records(DLA, dla)})
        return
    print_table(("", "name", "type"), rows)
    print(f"{network.num_layers} layers")
    if args.dla:
        print_heading("DLA, with float16 allowed")
        print_table(DLA, dla)


def _refuse_unreadable(path: Path, parser: OnnxParser) -> None:
    """A file that is not a model is an error of the command line, not a model with problems."""
    error = parser.get_error(0)._failure.error
    if parser.num_errors == 1 and error.code == "AR416":
        raise error.at(str(path))


def _dla(network: INetworkDefinition) -> list[tuple[str, ...]]:
    from anyrt.api.model.expansion import Expansion
    from anyrt.api.model.state import state_of
    from anyrt.core.enums import DataType
    from anyrt.ops._expand import DLA_TYPES, dla_reason

    expansion, rows = Expansion({}), list[tuple[str, ...]]()
    for layer in state_of(network).layers:
        reason = dla_reason(layer.op, expansion.record(layer), DLA_TYPES | {DataType.FLOAT})
        rows.append((layer.name, layer.op.layer.name, "yes" if reason is None else reason))
    return rows


COMMAND = Command("report all problems in an ONNX model", options, run)
