"""`python -m tools.replay`: its output and its exit status."""

import pytest

from tests.messages import values_in_order
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
        (
            ["--machines", "avx2,vax"],
            values_in_order("'avx2,vax'", "amx", "avx512", "avx2", "sse2", "neon", "here"),
        ),
        (["--only", "^nothing$"], values_in_order("'^nothing$'", "--list")),
        (["--only", "("], values_in_order("'('", "unterminated subpattern")),
        (
            ["--old", "no such tree", "--only", "."],
            values_in_order("--old no such tree", "not a valid object name", "src/"),
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
