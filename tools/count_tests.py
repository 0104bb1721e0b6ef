"""Compares the numbers of test cases with tests/counts.txt, so that none are lost.

python tools/count_tests.py            compare; exit status 1 if there are fewer than in the file
python tools/count_tests.py --renew    rewrite the file, after cases were added

It collects the tests of `make long`, and prints how many of these today's third omits.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "counts.txt"
RENEW = "`.venv/bin/python tools/count_tests.py --renew` writes tests/counts.txt anew"
os.environ["ANYRT_FUZZ"] = "1"
os.chdir(ROOT)
sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402

from anyrt.plan.disk import write_text  # noqa: E402
from tests import sampling  # noqa: E402


class Collector:
    """Counts the tests that pytest collects, by file."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}
        self.left_out = 0

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if item.get_closest_marker("static") is None:  # `make check` runs these
            self.cases[item.nodeid.split("::")[0]] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped[report.nodeid] = reason.removeprefix("Skipped: ")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.left_out += sum(sampling.waits(item) for item in items)


def collected() -> Collector:
    result = Collector()
    with redirect_stdout(StringIO()) as output:
        status = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider"], [result])
    if status is not pytest.ExitCode.OK:
        raise SystemExit(
            f"{output.getvalue()[-3000:]}\ntests cannot be collected: pytest ends with {status!r}"
        )
    return result


def wrong(actual: Collector, expected: dict[str, int]) -> list[str]:
    """The missing cases, a line for each file; prints new and unavailable ones."""
    messages = []
    for name in sorted({*expected, *actual.cases}):
        have, want = actual.cases[name], expected.get(name, 0)
        if name in actual.skipped:
            print(f"{name}: {want} cases are not here: {actual.skipped[name]}")
        elif have < want:
            messages.append(f"{name}: {want - have} of {want} cases are gone")
        elif have > want:  # as after an extra was installed
            print(f"{name}: {have - want} cases are new, beside {want}; {RENEW}")
    return messages


def main() -> int:
    """Returns 0 if all cases are present."""
    result = collected()
    if sys.argv[1:] == ["--renew"]:
        kept = {n: c for n, c in read().items() if n in result.skipped}
        lines = sorted({**kept, **result.cases}.items())
        write_text(FILE, "".join(f"{name} {count}\n" for name, count in lines))
        return 0
    if reported := wrong(result, read()):
        print(*reported, f"If that is meant: {RENEW}.", sep="\n")
        return 1
    count = result.cases.total()
    if sampling.THIRD:
        runs = count - result.left_out
        print(
            f"Third {sampling.THIRD} of 0, 1, 2: {runs} of {count} cases run, {result.left_out} on other days"
        )
    return 0


def read() -> dict[str, int]:
    """Path and number of cases of each file."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return {name: int(count) for name, count in (line.rsplit(" ", 1) for line in lines)}


if __name__ == "__main__":
    sys.exit(main())
