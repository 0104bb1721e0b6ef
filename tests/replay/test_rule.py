"""Commit messages and their statements about kernels."""

import subprocess

import pytest

from tools.replays.rule import FILE, Commit, last


@pytest.mark.parametrize(
    ("message", "touched", "part"),
    [
        ("Move tiles [same]", "", ""),
        ("Move tiles [same]", "M", "ends in [same]"),
        ("Widen tiles", "", ""),
        ("Widen tiles", "M", 'no line "times: …"'),
        ("Widen tiles\n\ntimes: product_512 10.2 → 9.8 µs, 0.961 ± 0.010", "M", ""),
        ("Widen tiles\n\ntimes: none, only NEON's text changed", "M", ""),
        ("Widen tiles\n\ntimes: none", "M", 'no line "times: …"'),
        ("Hold digests of kernels", "A", ""),
    ],
)
def test_a_commit_says_what_it_does_to_kernels(message, touched, part):
    fault = Commit("1a2b", message, touched).fault
    assert part in fault
    assert bool(part) == bool(fault)


def test_the_last_commits_are_read_with_what_they_touch(tmp_path):
    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / FILE).parent.mkdir()
    for text, message in (("1", "Begin"), ("2", "Change [same]"), ("2", "Leave [same]")):
        (tmp_path / FILE).write_text(text)
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", message)
    results = list(last(3, tmp_path))
    assert [(c.message, c.touched) for c in results] == [
        ("Leave [same]", ""),
        ("Change [same]", "M"),
        ("Begin", "A"),
    ]
