"""Small plans and networks that demand much memory: loads and builds take only as much memory as the input
justifies."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HOSTILE = Path(__file__).parent / "hostile.py"
MEGABYTES = 64  # LLVM takes about 20 for a kernel, the longest of the plans 40 with its copies

REFUSED = {
    "header of 2^60 bytes": "AR604",
    "constants of 2^60 bytes": "AR601",
    "a constant of 2^61 elements": "AR604",
    "a rank of 100000": "AR605",
    "JSON 10 million deep": "AR605",
    "a size 60000 deep": "AR605",
    "a product of sums": "AR605",
    "a size squared 20 times": "AR901",
    "a length extended 30 times": "AR901",
}
ACCEPTED = [
    "as it was",
    "a profile up to 2^31",
    "a sum of 2^31 numbers",
    "60 squares",
    "4096 threads",
    "an outer sum of constants",
    "a constant resized",
    "a constant padded",
    "giant tensors",
]


@pytest.fixture(scope="module")
def outcomes(cache_dir):
    """The outcome, the codes of errors and the megabytes of every case."""
    done = subprocess.run([sys.executable, HOSTILE], check=True, capture_output=True, timeout=120)
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_plans_are_rejected_without_taking_memory(name, outcomes):
    answer, codes, megabytes = outcomes[name]
    assert (answer, codes) == ("refused", [REFUSED[name]])
    assert megabytes < MEGABYTES


@pytest.mark.parametrize("name", ACCEPTED)
def test_engines_that_need_memory_only_at_run_time_take_none_before(name, outcomes):
    answer, codes, megabytes = outcomes[name]
    assert (answer, codes) == ("made", [])
    assert megabytes < MEGABYTES


def test_every_case_is_looked_at(outcomes):
    assert outcomes.keys() == {*REFUSED, *ACCEPTED}
