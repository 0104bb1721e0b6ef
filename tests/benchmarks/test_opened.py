"""Engines with dynamic dimensions compared with static ones: cases and tables."""

from benchmarks.contractions.forms import inputs
from benchmarks.contractions.opened import ALL, Row, tables
from benchmarks.peers.anyrt import joined


def test_every_case_has_a_name_of_its_own_and_open_axes():
    assert len({c.name for c in ALL}) == len(ALL)
    for case in ALL:
        shapes = [[t.shape for t in inputs(c).values()] for c in case.cases]
        assert any(-1 in joined(of) for of in zip(*shapes, strict=True)), case.name


def test_a_table_has_a_row_for_each_case_and_marks_what_is_slow():
    sizes = (("least", 1.0, 1.3), ("usual", 2.0, 2.0), ("largest", 4.0, 4.2))
    (table,) = tables([Row("c", size, size, 2, *times) for size, *times in sizes])
    assert table.rows == (
        ("c", "usual", "1.00", "1.30", "**1.30**", "2.00", "2.00", "1.00", "4.00", "4.20", "1.05"),
    )
    assert "above 1.10: 1 of 3" in table.note
