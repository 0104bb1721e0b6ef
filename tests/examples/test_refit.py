"""The example of a plan whose weights are set after loading."""

import runpy
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "refit.py"


def test_a_stripped_plan_computes_what_plans_with_weights_do(capsys):
    runpy.run_path(str(PROGRAM))["main"]()
    sizes, lacks, *same = capsys.readouterr().out.splitlines()
    assert same == ["same as with weights: True", "same as built again: True"]
    assert lacks == "lacks ['kernel', 'bias', 'dense']"
    assert int(sizes.rpartition(" ")[2].replace(",", "")) < 32 * 1024
