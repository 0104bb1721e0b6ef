"""Engines read whole registers from inputs, but never past their last element."""

import subprocess
import sys
from pathlib import Path

GUARDED = Path(__file__).parent / "guarded.py"
POSITIONS = Path(__file__).parent / "guarded_positions.py"


def test_nothing_behind_an_input_is_read():
    done = subprocess.run([sys.executable, GUARDED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr, set(done.stdout.split())) == (0, "", {"ok"})


def test_positions_that_are_data_lead_nowhere_outside():
    done = subprocess.run([sys.executable, POSITIONS], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", ["ok"] * 4)
