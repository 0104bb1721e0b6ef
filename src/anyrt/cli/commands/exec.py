"""`anyrt exec --onnx=model.onnx`: build and measure a model, with the options and output of trtexec.

anyrt exec --onnx=model.onnx --saveEngine=model.plan --shapes=x:1x3x224x224
anyrt exec --loadEngine=model.plan --loadInputs=x:photo.npy --dumpOutput
"""

from __future__ import annotations

from argparse import REMAINDER, ArgumentParser, Namespace

from anyrt.cli.command import Command


def options(parser: ArgumentParser) -> None:
    """The options are those of trtexec, which `exec/flags.py` parses."""
    parser.description = __doc__
    parser.add_argument("words", nargs=REMAINDER, metavar="--option=value", help="options; --help lists them")
    parser.prefix_chars = "\0"  # so that options of trtexec are words here


def run(args: Namespace) -> None:
    """Execute the options; exit with status 1 on failure, as trtexec does."""
    from anyrt.cli.exec.main import execute

    status = execute(args.words, "anyrt exec")
    if status:
        raise SystemExit(status)


COMMAND = Command("build and measure a model, with the options of trtexec", options, run, json=False)
