"""`anyrt report NETWORK -o FILE`: write a report as one HTML page.

anyrt report model.onnx -o report.html
anyrt report net.py:tiny -o report.html

The page opens offline. It shows the problems of the model and their cures.
It draws the network, with zoom and search. It lists kernels and layers by
time, with bytes, operations and the share of the machine's limit. A click
on a kernel shows its steps down to the assembly. The page also shows the
latency and the error of each layer.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from anyrt.cli.command import Command
from anyrt.cli.show import byte_count, print_json


def options(parser: ArgumentParser) -> None:
    """The network and the file."""
    parser.description = __doc__
    parser.add_argument("network", help="an ONNX model, FILE.py:FUNCTION, or a plan")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="output file: .html")


def run(args: Namespace) -> None:
    """Write the page; exit status 1 if the model cannot be built: the page lists its problems."""
    from anyrt.cli.report.build import NOT_BUILT, report_of, write_report

    text = report_of(args.network)
    write_report(text, args.output)
    is_built = f"<p>{NOT_BUILT}</p>" not in text
    if args.json:
        print_json({"file": str(args.output), "bytes": len(text.encode()), "built": is_built})
    else:
        note = "" if is_built else ": the model was not built, the page lists its problems"
        print(f"{args.output}: {byte_count(len(text.encode()))}{note}")
    if not is_built:
        raise SystemExit(1)


COMMAND = Command("write a report of a network as one page of HTML", options, run)
