"""The command line.

python -m benchmarks ops                          everything, into docs/tables/layers.md; an hour or two
python -m benchmarks ops --only 'norm_ln' --quick --peers anyrt,torch
python -m benchmarks ops --only '^spelled'        normalisation of elementary layers, in tables of its own
python -m benchmarks ops --json new.jsonl --compare old.jsonl
python -m benchmarks contractions                 products, convolutions, attention; an hour or two
python -m benchmarks contractions --only '^product_512' --quick --threads 1
python -m benchmarks contractions --list          names of its cases; other commands have --list, too
python -m benchmarks families                     gathers, scatters, top k, sums, samples, fills, codes
python -m benchmarks bits --quick                 fewer bits: bfloat16, half, int8, weights of a few bits
python -m benchmarks bits --only '^i4_1x' --json new.jsonl
python -m benchmarks mechanisms --json new.jsonl  the gain of each mechanism of the compiler
python -m benchmarks rounding                     half types rounded to their type, and with excess precision
python -m benchmarks stages                       contractions in stages of a later one, and without
python -m benchmarks build                        the costs of building networks
python -m benchmarks build --only '^mixed' --runs 3 --tree ../older
python -m benchmarks trees --old ../older         two source trees in turn
python -m benchmarks trees --old HEAD --changed   only cases whose kernels differ
python -m benchmarks load                         100 MB of weights, from a file and from memory
python -m benchmarks serve                        requests to a server beside a bare loop; needs anyrt[serve]
python -m benchmarks collectives                  exchanges between processes beside mpi4py
python -m benchmarks list
python -m benchmarks compare old.jsonl new.jsonl
python -m benchmarks report results.jsonl         tables of earlier results
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks import attempts, build_session, collectives, load, rounding, serving, stages, sweep, trees
from benchmarks.bits import command as bits
from benchmarks.contractions import opened
from benchmarks.models import command as models

COMMANDS = (
    *sweep.COMMANDS,
    *(models.COMMAND, bits.COMMAND, opened.COMMAND, attempts.COMMAND, rounding.COMMAND, stages.COMMAND),
    *(build_session.COMMAND, trees.COMMAND, load.COMMAND, collectives.COMMAND, serving.COMMAND),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="AnyRT beside other programs.")
    commands = parser.add_subparsers(required=True)
    for command in COMMANDS:
        command.add(commands)
    options = parser.parse_args(arguments)
    options.action(options)


if __name__ == "__main__":
    main()
