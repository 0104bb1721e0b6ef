"""Digests as lines, and the messages about their differences."""

import pytest

from tests.messages import values_in_order
from tools.replays import rows
from tools.replays.rows import Row, changes, read, summary, write
from tools.replays.trees import diff
from tools.replays.work import Answer, Kernel

ADD = Row("families/add", "avx2", 1, "aaaa", "bbbb")


def keyed(*result):
    return {row.key: row for row in result}


def answer(*texts, machine="avx2"):
    kernels = tuple(Kernel("k", loops, llvm, loops, llvm) for loops, llvm in texts)
    return Answer("families/add", machine, kernels)


def test_lines_are_sorted_and_read_back(tmp_path):
    results = [Row("layers/b", "neon", refused="AR901"), ADD, Row("families/add", "amx", 2, "c", "d")]
    write(tmp_path / "file", results)
    text = (tmp_path / "file").read_text()
    assert text.splitlines() == sorted(text.splitlines())
    assert read(text, "file") == keyed(*results)


def test_a_line_that_a_merge_left_is_named():
    with pytest.raises(SystemExit, match=values_in_order("file, line 2", "'<<<<<<< HEAD'")):
        read(f"{ADD}\n<<<<<<< HEAD\n", "file")


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (Row("families/add", "avx2", 1, "aaaa", "cccc"), "LLVM text, of the same loops"),
        (Row("families/add", "avx2", 1, "cccc", "dddd"), "loops"),
        (Row("families/add", "avx2", 3, "cccc", "dddd"), "1 kernels became 3"),
        (Row("families/add", "avx2", refused="AR901"), "was lowered, is refused (AR901)"),
    ],
)
def test_a_change_says_what_it_is(new, said):
    assert changes(keyed(ADD), keyed(new)) == [f"families/add: {said} (avx2)"]


def test_networks_that_come_and_go_are_named():
    assert changes({}, keyed(ADD)) == ["families/add: has no line yet (avx2)"]
    assert changes(keyed(ADD), {}) == ["families/add: is no longer lowered (avx2)"]
    assert changes(keyed(ADD), keyed(ADD)) == []


def test_of_many_changes_the_first_ones_are_named_and_all_counted():
    reported = summary([f"layers/{n}: loops (avx2)" for n in range(rows.SHOWN + 5)])
    assert (
        reported.splitlines()[0]
        == f"{rows.SHOWN + 5} networks have other kernels: {rows.SHOWN + 5} of layers"
    )
    assert reported.splitlines()[-1] == "  … and 5 more"


def test_a_diff_has_the_kernels_that_changed_alone():
    lines = list(diff(answer(("a", "x"), ("b", "y"), ("c", "z")), answer(("a", "x"), ("B", "Y"), ("c", "Z"))))
    assert [x for x in lines if x[0] in "+-" and x[:3] not in ("+++", "---")] == ["-b", "+B", "-z", "+Z"]
    assert "new: k, LLVM text" in " ".join(lines)


def test_a_diff_shows_kernels_that_are_new():
    lines = list(diff(answer(("a", "x")), answer(("a", "x"), ("b", "y"))))
    assert lines[:2] == ["--- (none)", "+++ new: k, loops"]
    assert lines[-1] == "+b"
