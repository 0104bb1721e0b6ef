"""Tables: plain text in pipes, drawn on a terminal."""

import re
import sys

from anyrt.cli.show import print_heading, print_table, print_text
from anyrt.core.units import byte_count


def test_plain_tables_have_aligned_columns(capsys):
    print_table(("a", "long"), [("1", "2"), ("333", "")])
    assert capsys.readouterr().out == "a    long\n1    2\n333\n"


def test_no_rows_print_nothing(capsys):
    print_table(("a",), [])
    assert capsys.readouterr().out == ""


def test_terminals_get_the_same_cells(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(("name", "note"), [("x[0]", ":smile: [b]")])
    plain = re.sub("\x1b[^m]*m", "", capsys.readouterr().out)
    assert plain.split() == ["name", "note", "x[0]", ":smile:", "[b]"]


def test_terminals_get_no_line_that_is_wider(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    print_table(("name", "problem"), [("a/long/name/of/a/layer" * 3, "words " * 30)])
    print_text("  " + "words " * 30)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[-1].startswith("    words")
    assert sum(line.count("words") for line in lines) == 60


def test_headings_are_underlined(capsys):
    print_heading("graph")
    assert capsys.readouterr().out == "\ngraph\n-----\n"


def test_sizes_are_read_by_people():
    assert [byte_count(n) for n in (0, 1023, 1024, 3 << 29)] == ["0 B", "1023 B", "1.0 KiB", "1.5 GiB"]
