"""`make fuzz`: an hour of random cases; it continues where the last run ended.

python -m tools.fuzz                             all parts in turn, for an hour
python -m tools.fuzz --seconds 600 --parts models,rules
python -m tools.fuzz --cases rules --first 17 --last 18    repeat these seeds

graphs     graphs of primitives: native code compared with the interpreter
rules      inverted rules: graphs that must be equal
bits       products with weights of 2, 4 and 8 bits, on four machines, between protected pages
models     generated ONNX models, compared with onnx's reference and ONNX Runtime
plans, calls, files   changed plans, calls in any order, changed models: errors with codes, no crash
nnsmith    models by NNSmith, if it is installed

Each part runs in separate processes, which may crash. Seeds are printed, and stored in fuzz/seeds.json; each
failure is a line in fuzz/found.jsonl, with the cause if causes.py knows it. Every failure becomes a test."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

from anyrt.plan.disk import write_text
from tools.fuzz import causes, models

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "fuzz"
TURN = {
    "graphs": 40,
    "rules": 100,
    "bits": 60,
    "models": 200,
    "plans": 200,
    "calls": 100,
    "files": 400,
    "nnsmith": 50,
}  # cases
PROGRAMS = {"plans": "mutate_plans.py", "calls": "mutate_calls.py", "files": "mutate_models.py"}
LIMIT = 5.0  # seconds for a case, on average


def one(part: str, seed: int) -> str:
    """The failure of a case; "" if there is none."""
    match part:
        case "graphs":
            from tools.fuzz import graphs

            return graphs.wrong(seed)
        case "rules":
            from tools.fuzz import rules

            return rules.wrong(seed)
        case "bits":
            from tools.fuzz import few_bits

            return few_bits.wrong(seed)
        case "nnsmith":
            from tools.fuzz import foreign

            return foreign.wrong(seed)
    raise SystemExit(f"got part {part!r}, wanted one of {', '.join(TURN)}")


def cases(part: str, first: int, last: int) -> None:
    """Try seeds and print a line of JSON before and after each one."""
    for seed in range(first, last):
        print(json.dumps([part, seed, None]), flush=True)
        try:
            reported = one(part, seed)
        except Exception:
            reported = traceback.format_exc()[-2000:]
        print(json.dumps([part, seed, reported]), flush=True)


def failures(part: str, first: int, last: int) -> list[dict[str, object]]:
    """The failures of a part for these seeds."""
    if part == "models":
        file = FOLDER / "models.jsonl"
        models.run(range(first, last), file)
        return [
            {"part": part, **r, "cause": causes.cause(r)}
            for r in models.rows(file)
            if first <= r["seed"] < last and r["kind"] != "same"
        ]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {
        **os.environ,
        "ANYRT_CACHE_DIR": str(FOLDER / "cache"),
        "PYTHONFAULTHANDLER": "1",
        "PYTHONPATH": paths,  # the programs are files of the package `tests`
    }
    words = (
        [str(ROOT / "tests" / "fuzz" / PROGRAMS[part])]
        if part in PROGRAMS
        else ["-m", "tools.fuzz", "--cases", part]
    )
    words += [str(first), str(last)] if part in PROGRAMS else ["--first", str(first), "--last", str(last)]
    try:
        limit = 120 + LIMIT * (last - first)
        done = subprocess.run(
            [sys.executable, *words], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired as late:
        return [
            {"part": part, "seed": first, "message": f"not ready within {late.timeout} s, up to seed {last}"}
        ]
    end = f"ended with {done.returncode}: {done.stderr[-1500:]}"
    if part in PROGRAMS:
        lines = [line for line in done.stdout.splitlines() if line]
        died = [end] if done.returncode else []
        return [{"part": part, "seed": first, "message": line} for line in (*lines, *died)]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    ended = {seed for _, seed, reported in rows if reported is not None}
    wrong = [{"part": part, "seed": seed, "message": reported} for _, seed, reported in rows if reported]
    if open_ := [seed for _, seed, reported in rows if reported is None and seed not in ended]:
        wrong.append({"part": part, "seed": open_[0], "message": end})
    elif done.returncode:
        wrong.append({"part": part, "seed": first, "message": end})
    return wrong


def fuzz(parts: list[str], seconds: float) -> int:
    """Run all parts in turn until the time is up; returns the number of failures."""
    FOLDER.mkdir(exist_ok=True)
    state = FOLDER / "seeds.json"
    seeds: dict[str, int] = json.loads(state.read_text()) if state.exists() else {}
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for part in parts:
            if time.monotonic() > end:
                break
            first = seeds.get(part, 0)
            last = first + TURN[part]
            wrong = failures(part, first, last)
            with (FOLDER / "found.jsonl").open("a") as out:
                out.writelines(json.dumps(row) + "\n" for row in wrong)
            odd = [row for row in wrong if not row.get("cause")]
            known = f", and {len(wrong) - len(odd)} of known causes" if len(wrong) > len(odd) else ""
            print(f"{part}: seeds {first} to {last - 1}, {len(odd)} found{known}", flush=True)
            for row in odd:
                print("  ", *(f"{k}={v}" for k, v in row.items() if v and k != "part"), flush=True)
            seeds[part], count = last, count + len(odd)
            write_text(state, json.dumps(seeds))
    print(f"{count} found; next seeds: {seeds}; all failures are in {FOLDER / 'found.jsonl'}")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--parts", default=",".join(TURN))
    parser.add_argument("--cases", help="try seeds of this part only, in this process")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=1)
    options = parser.parse_args()
    if options.cases:
        cases(options.cases, options.first, options.last)
        return 0
    parts = options.parts.split(",")
    if "nnsmith" in parts and importlib.util.find_spec("nnsmith") is None:
        print("nnsmith is not installed; its models are skipped (pip install 'nnsmith[onnx]')")
        parts.remove("nnsmith")
    return 1 if fuzz(parts, options.seconds) else 0


if __name__ == "__main__":
    sys.exit(main())
