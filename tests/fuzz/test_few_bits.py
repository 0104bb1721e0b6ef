"""Products with weights of few bits agree with the interpreter, and touch nothing beyond their memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulated import MISSING, unicorn
from tests.sampling import sample
from tools.fuzz.few_bits import MACHINES, cases

ROOT = Path(__file__).parents[2]


@pytest.mark.here
@pytest.mark.parametrize("machine", MACHINES)
def test_products_of_codes_agree_and_stay_in_their_memory(machine, tmp_path):
    if machine == "neon" and unicorn is None:
        pytest.skip(MISSING)
    lines = "".join(json.dumps(case) + "\n" for case in sample(cases((machine,)), 40))
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "ANYRT_CACHE_DIR": str(tmp_path), "PYTHONPATH": path.rstrip(os.pathsep)}
    command = [sys.executable, "-m", "tools.fuzz.few_bits"]
    limit = 120 + lines.count("\n")
    done = subprocess.run(
        command, env=environment, input=lines, capture_output=True, text=True, timeout=limit, cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout[:3000] + done.stderr[-3000:]
