"""Memory over many small requests, measured by the command that does it for a million of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sampling import FUZZ

pytest.importorskip("granian", reason="the extra serve is not installed: make programs runs this")

pytestmark = pytest.mark.programs
ROOT = Path(__file__).parents[2]


def test_memory_does_not_grow_with_requests():
    count = 100_000 if FUZZ else 5_000
    command = [sys.executable, "-m", "benchmarks", "serve", "--only", "growth", "--small", str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    report = re.search(r"memory over (\d+) small requests.* ([+-]\d+) kB", done.stdout)
    assert int(report[1]) >= count
    assert int(report[2]) < 3_000  # pools of the allocator fill up to 2 MB, once
