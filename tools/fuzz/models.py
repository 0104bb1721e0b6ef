"""Generated ONNX models with AnyRT, onnx's reference and ONNX Runtime, in a process that may crash.

python -m tools.fuzz.models models.jsonl 0 5000    these seeds, in twenty minutes; continues where it ended
run(range(5000), Path("models.jsonl"), seconds=3600)

Each model is a line of a file; its seeds are not tried again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyrt.plan.disk import write_text

BATCH = 200  # seeds of one process


def run(seeds: Iterable[int], file: Path, seconds: float = float("inf")) -> int:
    """Judge all seeds that are not in the file until the time is up; returns how many are left."""
    end = time.monotonic() + seconds
    left = [seed for seed in seeds if seed not in {row["seed"] for row in rows(file)}]
    while left and time.monotonic() < end:
        some = left[:BATCH]
        words = [
            sys.executable,
            "-m",
            "tools.fuzz.models",
            "--worker",
            str(file),
            str(end - time.monotonic()),
        ]
        done = subprocess.run(words, input=" ".join(map(str, some)), text=True, stderr=subprocess.PIPE)
        begun = {row["seed"]: row for row in rows(file)}
        if (row := next((r for r in begun.values() if r["kind"] == "begun"), None)) is not None:
            lines = done.stderr.strip().splitlines()
            row |= {
                "kind": "ended",
                "op": row["form"],
                "message": f"{done.returncode}: {lines[-1] if lines else ''}"[:300],
            }
            write_text(file, "".join(json.dumps(r) + "\n" for r in begun.values()))
        left = [seed for seed in left if seed not in begun]
    return len(left)


def rows(file: Path) -> list[dict[str, Any]]:
    """The last line of each seed."""
    results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return list({row["seed"]: row for row in results}.values())


def _worker(file: Path, seconds: float, seeds: Iterable[int]) -> None:
    from tools.fuzz import forms, judge, weighed  # noqa: F401
    from tools.fuzz.grow import grow

    end = time.monotonic() + seconds
    warnings.simplefilter("ignore")
    with file.open("a", buffering=1) as out:
        for seed in seeds:
            if time.monotonic() > end:
                return
            case = grow(seed)
            begun = {
                "seed": seed,
                "form": case.form,
                "kind": "begun",
                "nodes": [n.op_type for n in case.model.graph.node],
            }
            out.write(json.dumps(begun) + "\n")
            try:
                row = asdict(judge.judged(case))
            except Exception as error:
                message = (
                    f"{type(error).__name__}: {error} {traceback.format_exc().strip().splitlines()[-3:-1]}"
                )
                row = {**begun, "kind": "error", "op": case.form, "message": message[:400]}
            out.write(json.dumps(row) + "\n")


def main() -> int:
    """Judge the seeds that the command line names."""
    file, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    run(range(first, last), file)
    results = [row for row in rows(file) if first <= row["seed"] < last]
    print(f"{len(results)} models, {sum(row['kind'] != 'same' for row in results)} differ: {file}")
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        _worker(Path(sys.argv[2]), float(sys.argv[3]), map(int, sys.stdin.read().split()))
    else:
        sys.exit(main())
