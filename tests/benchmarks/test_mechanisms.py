"""Mechanisms and attempts: each names a case, and switches that are there and make a difference."""

import pytest

from benchmarks.attempts import ATTEMPTS
from benchmarks.cases import CASES
from benchmarks.machine import Machine
from benchmarks.mechanisms import MECHANISMS
from benchmarks.record import Gain, Results, read, write
from benchmarks.report import mechanisms

EVERY = (*MECHANISMS, *ATTEMPTS)


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda m: f"{m.name}, {m.case}")
def test_a_mechanism_can_be_switched(mechanism):
    assert mechanism.case in {c.name for c in CASES}
    assert mechanism.switches
    for switch in mechanism.switches:
        assert getattr(switch.owner, switch.name) != switch.off


def test_what_is_kept_and_what_is_not_stand_in_tables_of_their_own():
    kept = Gain("a", "x.py", "case", 2, 4.0, 3.0, 2.0, 1.0)
    tried = Gain("b", "x.py", "case", 2, 4.0, 3.0, 2.0, 1.0, kept=False)
    one, two = mechanisms([kept, tried])
    assert [r[3:] for r in one.rows] == [("4.00", "2.00", "2.00", "3.00")]
    assert [r[3:] for r in two.rows] == [("2.00", "4.00", "0.500", "0.333")]
    assert len(mechanisms([kept])) == 1


def test_one_attempt_on_two_cases_is_two_lines(tmp_path):
    machine = Machine("a processor", 2, "L1", "avx2", "Linux", "Python", "0.1.0", {}, {})
    found = tuple(Gain("a", "x.py", case, 2, 4.0, 3.0, 2.0, 1.0, kept=False) for case in ("one", "two"))
    write(tmp_path / "lines", Results(machine, (), (), (), found))
    assert read(tmp_path / "lines").gains == found
