"""`python -m tools.replay`: its output and its exit status."""

import pytest

from tools import replay

NAME = "layers/scale_c_L1_1x4x32x32"
ONE = ["--full", "--only", f"^{NAME}$", "--jobs", "1", "--machines", "avx2"]


def test_networks_are_listed_by_family_and_case(capsys):
    assert replay.main(["--list", "--full", "--only", "product_512x512x512"]) == 0
    listed = capsys.readouterr().out.split()
    assert "contractions/product_512x512x512_bf16" in listed
    assert listed == sorted(listed)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--machines", "avx2,vax"], "got 'avx2,vax', wanted some of amx, avx512, avx2, sse2, neon, here"),
        (["--only", "^nothing$"], r"got '\^nothing\$', wanted a pattern that a network's name matches"),
        (["--only", "("], "got '\\(', wanted a regular expression"),
        (
            ["--old", "no such tree", "--only", "."],
            "--old no such tree: got .*wanted a folder with src/, or a commit",
        ),
    ],
)
def test_invalid_arguments_are_named(arguments, said):
    with pytest.raises(SystemExit, match=said):
        replay.main(arguments)


def test_renewed_digests_match_and_changes_are_named(tmp_path, monkeypatch, capsys):
    file = tmp_path / "replay.txt"
    monkeypatch.setattr(replay, "FILE", file)
    assert replay.main([*ONE, "--renew"]) == 0
    assert replay.main(ONE) == 0
    assert "every kernel is as the file says" in capsys.readouterr().out
    line = file.read_text()
    file.write_text(line[:-2] + ("0" if line[-2] != "0" else "1") + "\n")
    assert replay.main(ONE) == 1
    output = capsys.readouterr().out
    assert f"{NAME}: LLVM text, of the same loops (avx2)" in output
    assert "python -m tools.replay --old HEAD~1 --only NAME" in output
