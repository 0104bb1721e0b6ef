"""`anyrt cache`: warming, exporting, importing, pruning, and a cache that cannot be used."""

import errno
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from anyrt.backends import loader
from anyrt.cli.main import main
from anyrt.compiler import exported
from anyrt.core.errors import AnyrtError
from anyrt.plan.cache import KernelCache, default_directory
from tests.messages import diagnostic

DEVICE = loader.device()


@pytest.fixture
def exported_file(plan, own_cache, capsys) -> Path:
    assert main(["cache", "export", "code.anyrt", plan]) == 0
    capsys.readouterr()
    return Path("code.anyrt")


def out(capsys, *words: str, status: int = 0) -> str:
    assert main(words) == status
    held = capsys.readouterr()
    return held.err if status else held.out


def test_warm_compiles_once(plan, own_cache, capsys):
    assert out(capsys, "cache", "warm", plan).startswith("compiled 1 network, 0 networks compiled before")
    assert out(capsys, "cache", "warm", plan).startswith("compiled 0 networks, 1 network compiled before")


def test_warm_cache_needs_no_compiler(plan, own_cache, capsys):
    out(capsys, "cache", "warm", plan)
    code = (
        "import sys; from pathlib import Path; import numpy as np, anyrt\n"
        "engine = anyrt.Runtime(anyrt.Logger()).deserialize_cuda_engine(Path('net.plan'))\n"
        "assert engine.run(x=np.ones((1, 2, 2, 2), np.float32))['y'].sum() == 16\n"
        "assert 'llvmlite' not in sys.modules, 'compiled'"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_imported_code_is_what_an_engine_runs(plan, exported_file, capsys, monkeypatch, folder):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(folder / "elsewhere"))
    output = out(capsys, "cache", "import", str(exported_file), "--allow-native-code")
    assert output == f"imported 3 entries into {folder}/elsewhere\n"
    assert out(capsys, "cache", "warm", plan).startswith("compiled 0 networks")


def test_import_asks_for_permission(exported_file, capsys, monkeypatch, folder):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(folder / "elsewhere"))
    assert "--allow-native-code" in out(capsys, "cache", "import", str(exported_file), status=2)
    assert not (folder / "elsewhere").exists()


def test_import_of_a_missing_file_does_not_describe_its_content(capsys, own_cache):
    assert (
        out(capsys, "cache", "import", "no.zip", status=2)
        == "anyrt cache: no.zip: No such file or directory\n"
    )


@pytest.mark.parametrize("network", ["net.plan", "net.py"])
def test_warm_fails_with_one_line_if_nothing_can_be_kept(network, plan, capsys, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", "/proc/none")
    with pytest.raises(SystemExit, match="1"):
        main(["cache", "warm", network])
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(
        "anyrt cache: nothing was compiled, since compiled code cannot be kept: [AR803]"
    )
    assert output.err.endswith("set ANYRT_CACHE_DIR to a writable directory\n")
    assert output.err.count("\n") == 1


def test_warm_succeeds_with_a_complete_cache_that_is_closed(plan, own_cache, capsys, monkeypatch):
    out(capsys, "cache", "warm", plan)
    monkeypatch.setattr(os, "access", lambda *args: False)
    assert out(capsys, "cache", "warm", plan).startswith("compiled 0 networks, 1 network")


@pytest.mark.parametrize("network", ["net.plan", "net.py"])
def test_export_fails_with_one_line_if_nothing_can_be_kept(network, plan, folder, capsys, monkeypatch):
    (folder / "shared").mkdir()
    (folder / "shared").chmod(0o777)
    (folder / "shared" / f"{'a' * 64}.kernel").touch()
    for place, do in (("/proc/none", "set ANYRT_CACHE_DIR"), (folder / "shared", "run chmod go-w on it")):
        monkeypatch.setenv("ANYRT_CACHE_DIR", str(place))
        output = out(capsys, "cache", "export", "code.anyrt", network, status=2)
        assert output.startswith(f"anyrt cache: [AR803] {place}: got ")
        assert do in output
        assert output.count("\n") == 1
        assert not (folder / "code.anyrt").exists()


def test_a_problem_of_writing_is_reported_once_by_an_export(plan, own_cache, capsys, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("anyrt.plan.cache.write_atomically", full)
    warning, error = out(capsys, "cache", "export", "code.anyrt", plan, status=2).splitlines()
    assert warning.startswith("anyrt cache: kernel cache not written: [AR803] ")
    assert "got code that was not kept" in error


def test_a_problem_of_writing_is_reported_once_by_an_import(exported_file, capsys, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", "/proc/none")
    with pytest.raises(SystemExit, match="1"):
        main(["cache", "import", str(exported_file), "--allow-native-code"])
    output = capsys.readouterr()
    assert output.out == "imported 0 entries into /proc/none\n"
    assert output.err.count("kernel cache not written: [AR803]") == 1


def test_export_succeeds_with_a_complete_cache_that_is_closed(exported_file, plan, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *args: False)
    assert out(capsys, "cache", "export", "again.anyrt", plan).startswith("again.anyrt: native code of 1")
    assert Path("again.anyrt").read_bytes() == exported_file.read_bytes()


def test_every_changed_byte_is_rejected(exported_file):
    good = exported_file.read_bytes()
    for at in (0, 9, 20, 60, len(good) // 2, len(good) - 1):
        changed = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        with pytest.raises(AnyrtError, match="exported code"):
            exported.read(changed)
    for size in (0, 7, 30, 100, len(good) - 1):
        with pytest.raises(AnyrtError, match="exported code"):
            exported.read(good[:size])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compiler": "0" * 64}, diagnostic("AR806", "exported code")),
        ({"level": "avx2"}, "ANYRT_CPU=avx2"),
        ({"processor": "sparc||Linux|flags\t: vis"}, "code for sparc"),
    ],
)
def test_code_that_would_not_run_here_is_rejected(change, message, own_cache):
    mine = exported.here(DEVICE)
    with pytest.raises(AnyrtError, match=message):
        exported.keep(exported.Exported(replace(mine, **change), ()), DEVICE)


def test_code_for_instructions_that_are_missing_names_them():
    mine = replace(exported.here(DEVICE), processor="x86_64||Linux|flags\t: sse2 avx2")
    built = replace(mine, processor="x86_64||Linux|flags\t: sse2 avx2 avx512f amx_tile")
    with pytest.raises(
        AnyrtError,
        match=diagnostic("AR806", "exported code", "x86_64", "x86_64", "amx_tile", "avx512f", "ANYRT_CPU"),
    ):
        exported.check_runs(built, mine)
    exported.check_runs(mine, built)


def test_prune_removes_what_was_not_used_for_longest(own_cache, capsys, folder):
    cache = KernelCache(default_directory(), print)
    for age, name in enumerate("abc"):
        cache.put_bytes(name * 64, (bytes(10_000),))
        os.utime(default_directory() / f"{name * 64}.kernel", (age, age))
    output = out(capsys, "cache", "prune", "--limit", "15K")
    assert output == f"removed 2 entries, 19.6 KiB; 9.8 KiB left in {folder}/cache\n"
    assert [p.name[0] for p in default_directory().iterdir()] == ["c"]
    assert "500M" in out(capsys, "cache", "prune", "--limit", "much", status=2)


def test_limit_of_the_environment_holds_while_code_is_kept(own_cache, monkeypatch):
    from anyrt.compiler.cached import kernel_cache

    monkeypatch.setenv("ANYRT_CACHE_LIMIT", "64K")
    for n in range(40):
        kernel_cache().put_bytes(f"{n:064}", (bytes(8000),))
    assert sum(p.stat().st_size for p in default_directory().iterdir()) < 96 << 10


@pytest.mark.parametrize("command", ["cache", "info"])
def test_cache_that_cannot_be_used_is_reported_with_its_cure(command, folder, capsys, monkeypatch):
    (folder / "file").touch()
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(folder / "file" / "cache"))
    assert main([command]) == 0
    output = capsys.readouterr().err
    assert "[AR803]" in output
    assert "set ANYRT_CACHE_DIR" in output
    assert str(folder / "file" / "cache") in output


@pytest.mark.parametrize(
    "words", [["warm"], ["export", "x"], ["import"], ["clear", "x"], ["import", "a", "b"]]
)
def test_wrong_number_of_files_is_rejected(words, own_cache, capsys):
    assert re.match("anyrt cache: " + diagnostic("AR304", "cache"), out(capsys, "cache", *words, status=2))
