"""Regression check for changes of the compiler: digests of the kernels of many networks for five machines.

python -m tools.replay                 compare the quick set with tests/replay.txt, as `make check` does
python -m tools.replay --renew         rewrite tests/replay.txt
python -m tools.replay --old HEAD~1    compare with another commit, or a folder: a diff of each kernel
python -m tools.replay --old ../older --full --only '^contractions/' --machines amx,here
python -m tools.replay --list --full   list the names of networks

Machines are values: nothing is compiled or run, so kernels for AMX and NEON are lowered on any machine;
`here` is this machine. Loops and LLVM text are compared in canonical form (tools/replays/canonical.py): names
do not matter.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.replays import rows, trees, work
from tools.replays.lowering import HERE, MACHINES
from tools.replays.networks import every, quick

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "replay.txt"
HELP = """
  To see how: python -m tools.replay --old HEAD~1 --only NAME    (any commit, or a folder)
  If it is meant: python -m tools.replay --renew; the commit carries times (see docs/architecture.md)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if kernels differ."""
    options = _parser().parse_args(arguments)
    names, machines = _names(options.only, options.full), options.machines.split(",")
    if not {*machines} <= {*MACHINES, HERE}:
        raise SystemExit(f"got {options.machines!r}, wanted some of {', '.join(MACHINES)}, {HERE}")
    if options.list:
        print("\n".join(names))
        return 0
    began = time.monotonic()
    compare = _compare_trees if options.old else _compare_with_file
    result = compare(options, names, machines)
    print(f"{len(names)} networks for {len(machines)} machines in {time.monotonic() - began:.0f} s")
    return result


def _names(pattern: str, full: bool) -> list[str]:
    """The networks with matching names, of all or of the quick set."""
    networks = every()
    try:
        results = [n.name for n in (networks if full else quick(networks)) if re.search(pattern, n.name)]
    except re.error as error:
        raise SystemExit(f"got {pattern!r}, wanted a regular expression ({error})") from None
    if not results:
        raise SystemExit(
            f"got {pattern!r}, wanted a pattern that a network's name matches; --list shows them"
        )
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.replay", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--full", action="store_true", help="all networks instead of the quick set")
    parser.add_argument("--only", default="", metavar="REGEX", help="networks with a matching name")
    parser.add_argument("--machines", default=",".join(MACHINES), help="default: %(default)s; also: here")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--renew", action="store_true", help="rewrite tests/replay.txt")
    parser.add_argument("--old", metavar="TREE", help="show the differences from a folder or a commit")
    parser.add_argument("--llvm", action="store_true", help="with --old: show LLVM text also if loops differ")
    parser.add_argument("--names", action="store_true", help="with --old: only list the kernels that differ")
    parser.add_argument("--list", action="store_true", help="list the names of networks")
    return parser


def _compare_with_file(options: argparse.Namespace, names: Sequence[str], machines: Sequence[str]) -> int:
    """Compare the digests of this tree with those of the file."""
    results = {a.row.key: a.row for a in work.answers(ROOT, names, machines, options.jobs)}
    known = rows.read(FILE.read_text(), FILE.name) if FILE.exists() else {}
    whole = not options.only and not options.full and set(machines) == set(MACHINES)
    if options.renew:
        rows.write(FILE, results.values() if whole else {**known, **results}.values())
    lines = rows.changes({k: row for k, row in known.items() if whole or k in results}, results)
    if not lines:
        print("every kernel is as the file says")
        return 0
    print(rows.summary(lines) + ("" if options.renew else HELP))
    return 0 if options.renew else 1


def _compare_trees(options: argparse.Namespace, names: Sequence[str], machines: Sequence[str]) -> int:
    """Compare this tree with another one, and print the differences."""
    with trees.source_tree(options.old) as old:
        before, after = (
            {a.row.key: a.row for a in work.answers(tree, names, machines, options.jobs)}
            for tree in (old, ROOT)
        )
        other = sorted({key[0] for key in before if before[key] != after[key]})
        if other and not options.names:
            _show(old, other, machines, options.llvm)
    lines = rows.changes(before, after)
    print("\n" + rows.summary(lines) if lines else "every kernel is the same in both trees")
    return 1 if lines else 0


def _show(old: Path, names: Sequence[str], machines: Sequence[str], llvm: bool) -> None:
    """Print how the kernels of networks differ."""
    both = (work.answers(tree, names, machines, 1, texts=True) for tree in (old, ROOT))
    for before, after in zip(*both, strict=True):
        difference = rows.difference(before.row, after.row)
        if difference:
            print(f"\n=== {before.network}, {before.machine}: {difference}")
            print("\n".join(trees.diff(before, after, llvm)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
