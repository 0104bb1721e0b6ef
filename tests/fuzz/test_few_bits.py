"""Products with few-bit weights agree with the interpreter, and access only their own memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from tests.emulated import MISSING, unicorn
from tools.fuzz.few_bits import MACHINES, Case, _is_endless, cases

ROOT = Path(__file__).parents[2]
PARTS = 90  # of the cases of a machine, a process each


@pytest.mark.here
@pytest.mark.thirds
@pytest.mark.sampled(PARTS)
@pytest.mark.parametrize("place", [f"{machine} {part}" for machine in MACHINES for part in range(PARTS)])
def test_products_of_codes_agree_and_stay_in_their_memory(place, tmp_path):
    machine, part = place.split()
    if machine == "neon" and unicorn is None:
        pytest.skip(MISSING)
    every = cases((machine,))
    Random(0).shuffle(every)  # so that each part has all kinds
    lines = "".join(json.dumps(case) + "\n" for case in every[int(part) :: PARTS])
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "ANYRT_CACHE_DIR": str(tmp_path), "PYTHONPATH": path.rstrip(os.pathsep)}
    command = [sys.executable, "-m", "tools.fuzz.few_bits"]
    limit = 120 + lines.count("\n")
    done = subprocess.run(
        command, env=environment, input=lines, capture_output=True, text=True, timeout=limit, cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout[:3000] + done.stderr[-3000:]


@pytest.mark.parametrize(
    ("got", "expected", "level", "excused"),
    [
        ("inf", "nan", 4, True),
        ("inf", "nan", 0, False),
        ("6.4346e-38", "6.4349e-38 ± 2.8e-42", 4, False),
        ("5.0", "0.0 ± 0", 4, False),
        ("nan", "1.0 ± 0", 4, False),
    ],
)
def test_only_what_infinite_scales_make_is_excused(got, expected, level, excused):
    element = SimpleNamespace(got=got, expected=expected)
    case = Case("avx512", 4, 32, 1, None, False, level)
    assert _is_endless(case, SimpleNamespace(element=element)) is excused
