"""Lowering in several processes, each with the AnyRT and the networks of a source tree.

    python -m tools.replays.work amx,neon texts

An input line is the name of a network, an output line its results for all machines, in JSON; a kernel is its
name and two digests, and with `texts` also the texts:

    [{"machine": "amx", "kernels": [["add", "2a55ab0a2d", "5bd8ea94e1", "kernel …", "define …"]]},
     {"machine": "neon", "refused": "AR901"}]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tools.replays import rows

ROOT = Path(__file__).resolve().parents[2]
Lines: TypeAlias = list[dict[str, Any]]  # Any: as JSON has it


@dataclass(frozen=True, slots=True)
class Kernel:
    """Digests of a kernel's loops and LLVM text, and the texts if requested."""

    name: str
    loops: str
    llvm: str
    loops_text: str = ""
    llvm_text: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a network for a machine: its kernels, or an error."""

    network: str
    machine: str
    kernels: tuple[Kernel, ...] = ()
    refused: str = ""

    @property
    def row(self) -> rows.Row:
        """Its digests."""
        if self.refused:
            return rows.Row(self.network, self.machine, refused=self.refused)
        loops, llvm = rows.digest(k.loops for k in self.kernels), rows.digest(k.llvm for k in self.kernels)
        return rows.Row(self.network, self.machine, len(self.kernels), loops, llvm)


def answers(
    tree: Path, names: Sequence[str], machines: Sequence[str], jobs: int, texts: bool = False
) -> Iterator[Answer]:
    """The results of each network for each machine, by the AnyRT of a source tree. One process returns them
    in order, as each is computed."""
    if jobs == 1:
        with _process(tree, machines, texts) as child:
            yield from _results(child, deque(names))
        return
    todo = deque(names)

    def share() -> list[Answer]:
        with _process(tree, machines, texts) as child:
            return list(_results(child, todo))

    with ThreadPoolExecutor(jobs) as pool:
        for built in [pool.submit(share) for _ in range(jobs)]:
            yield from built.result()


def _process(tree: Path, machines: Sequence[str], texts: bool) -> subprocess.Popen[str]:
    own = tree if (tree / "tools" / "replays").is_dir() else ROOT  # depends on the compiler
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ANYRT_")}
    path = f"{tree.resolve() / 'src'}{os.pathsep}{own.resolve()}"
    return subprocess.Popen(
        [sys.executable, "-m", "tools.replays.work", ",".join(machines), *["texts"] * texts],
        env={**kept, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        cwd=own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _results(child: subprocess.Popen[str], todo: deque[str]) -> Iterator[Answer]:
    """The results of a process, until the queue is empty."""
    assert child.stdin is not None, "a pipe was asked for"
    assert child.stdout is not None, "a pipe was asked for"
    while todo:
        try:
            name = todo.popleft()
        except IndexError:  # another process took the last one
            break
        print(name, file=child.stdin, flush=True)
        line = child.stdout.readline()
        if not line:
            raise SystemExit(f"{name}: the process that lowers it ended with status {child.wait()}")
        for part in json.loads(line):
            kernels = tuple(Kernel(*k) for k in part.get("kernels", ()))
            yield Answer(name, part["machine"], kernels, part.get("refused", ""))
    child.stdin.close()


def main(machines: Sequence[str], texts: bool) -> None:
    """Process lines until the input ends."""
    import anyrt
    from tools.replays.networks import every

    answers, networks = os.fdopen(os.dup(1), "w"), {n.name: n for n in every()}
    os.dup2(2, 1)  # other output is no result
    source = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0])
    assert Path(anyrt.__file__).resolve().is_relative_to(source), f"{anyrt.__file__} is not below {source}"
    for line in sys.stdin:
        name = line.rstrip("\n")
        built = _lowered(networks[name], machines, texts) if name in networks else _none(machines, "unknown")
        print(json.dumps(built), file=answers, flush=True)


def _lowered(network: Any, machines: Sequence[str], texts: bool) -> Lines:  # Any: imported by the child alone
    from tools.replays import lowering

    try:
        lower = lowering.lowering(network.request())
    except Exception as error:  # any exception of a tree becomes its result
        return _none(machines, lowering.refusal(error))
    lines: Lines = []
    for machine in machines:
        try:
            built = [_kernel(k, texts) for k in lowering.texts(lower, machine)]
            lines.append({"machine": machine, "kernels": built})
        except Exception as error:  # as above
            lines += _none([machine], lowering.refusal(error))
    return lines


def _kernel(text: Any, texts: bool) -> list[str]:
    built = [text.name, rows.digest([text.loops]), rows.digest([text.llvm])]
    return [*built, text.loops, text.llvm] if texts else built


def _none(machines: Sequence[str], why: str) -> Lines:
    return [{"machine": machine, "refused": why} for machine in machines]


if __name__ == "__main__":
    main(sys.argv[1].split(","), "texts" in sys.argv[2:])
