"""The net under a change of the compiler: the kernels of many networks for five machines, and their digests.

python -m tools.replay                 the quick set beside tests/replay.txt: what `make check` runs
python -m tools.replay --renew         write tests/replay.txt anew
python -m tools.replay --old HEAD~1    this tree beside another commit, or a folder: a diff of each kernel
python -m tools.replay --old ../older --full --only '^contractions/' --machines amx,here
python -m tools.replay --list --full   names of networks

Machines are values: nothing is compiled or run, so AMX and NEON are lowered anywhere; `here` is the machine
that we are on. Loops and LLVM text are compared in canonical form (tools/replays/canonical.py): names do not
matter.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.replays import rows, trees, work
from tools.replays.lowering import HERE, MACHINES
from tools.replays.networks import Network, every, matching, quick

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "replay.txt"
HELP = """
  To see how: python -m tools.replay --old HEAD~1 --only NAME    (any commit, or a folder)
  If it is meant: python -m tools.replay --renew; the commit carries times (see docs/architecture.md)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 where kernels differ."""
    options = _parser().parse_args(arguments)
    chosen = _chosen(options)
    machines = options.machines.split(",")
    unknown = set(machines) - {*MACHINES, HERE}
    if unknown or not chosen:
        wanted = (
            f"some of {', '.join(MACHINES)}, {HERE}" if unknown else "a pattern that a network's name matches"
        )
        raise SystemExit(f"got {options.machines if unknown else options.only!r}, wanted {wanted}")
    if options.list:
        print("\n".join(n.name for n in chosen))
        return 0
    began = time.monotonic()
    names = [n.name for n in chosen]
    found = _beside(options, names, machines) if options.old else _held(options, names, machines)
    print(f"{len(chosen)} networks for {len(machines)} machines in {time.monotonic() - began:.0f} s")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.replay", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--full", action="store_true", help="all networks, not the quick set alone")
    parser.add_argument("--only", default="", metavar="REGEX", help="networks whose name matches")
    parser.add_argument("--machines", default=",".join(MACHINES), help="default: %(default)s; also: here")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--renew", action="store_true", help=f"write {FILE.relative_to(ROOT)} anew")
    parser.add_argument("--old", metavar="TREE", help="a folder or a commit: show how its kernels differ")
    parser.add_argument("--llvm", action="store_true", help="with --old: LLVM text also where loops differ")
    parser.add_argument("--names", action="store_true", help="with --old: only say which differ")
    parser.add_argument("--list", action="store_true", help="names of networks")
    return parser


def _chosen(options: argparse.Namespace) -> list[Network]:
    networks = every()
    return matching(networks if options.full else quick(networks), options.only)


def _held(options: argparse.Namespace, names: Sequence[str], machines: Sequence[str]) -> int:
    """The digests of this tree beside those of the file."""
    found = {a.row.key: a.row for a in work.answers(ROOT, names, machines, options.jobs)}
    known = rows.read(FILE.read_text(), str(FILE.relative_to(ROOT))) if FILE.exists() else {}
    whole = not options.only and not options.full and set(machines) == set(MACHINES)
    if options.renew:
        rows.write(FILE, found.values() if whole else {**known, **found}.values())
    lines = rows.changes({k: row for k, row in known.items() if whole or k in found}, found)
    if not lines:
        print("every kernel is as the file says")
        return 0
    print(rows.summary(lines) + ("" if options.renew else HELP))
    return 0 if options.renew else 1


def _beside(options: argparse.Namespace, names: Sequence[str], machines: Sequence[str]) -> int:
    """This tree beside another one: what differs, and how."""
    with trees.source_tree(options.old) as old:
        before, after = (
            {a.row.key: a.row for a in work.answers(tree, names, machines, options.jobs)}
            for tree in (old, ROOT)
        )
        changed = sorted(
            {network for network, machine in before if before[network, machine] != after[network, machine]}
        )
        for name in () if options.names else changed:
            _show(old, name, machines, options.llvm)
    lines = rows.changes(before, after)
    print("\n" + rows.summary(lines) if lines else "every kernel is the same in both trees")
    return 1 if lines else 0


def _show(old: Path, name: str, machines: Sequence[str], llvm: bool) -> None:
    """How the kernels of a network differ."""
    found = (
        {a.machine: a for a in work.answers(tree, [name], machines, 1, texts=True)} for tree in (old, ROOT)
    )
    before, after = found
    for machine in machines:
        said = rows.difference(before[machine].row, after[machine].row)
        if said:
            print(f"\n=== {name}, {machine}: {said}")
            print("\n".join(trees.diff(before[machine], after[machine], llvm)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
