"""The calibrated classifier predicts nearly the classes of float32 with each calibrator."""

import runpy
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "calibrated.py"


def test_classes_are_nearly_those_of_float32(capsys):
    runpy.run_path(str(PROGRAM))["main"]()
    actual = {}
    for line in capsys.readouterr().out.splitlines():
        right, alike = (float(text.split()[-1]) for text in line.split("%")[:2])
        actual[line[:32].strip()] = right, alike
    exact = actual.pop("float32")[0]
    assert exact > 80
    assert len(actual) == 6
    for name, (right, alike) in actual.items():
        least = {"f": 99.5, "b": 99, "i": 97 if "Entropy" in name else 94}[name[0]]
        assert (abs(right - exact) < 2, alike > least) == (True, True), name
