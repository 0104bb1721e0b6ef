"""The description of a machine: detected properties, and those that a file overrides."""

import os
from dataclasses import replace

import pytest

from anyrt.core.errors import ArgumentError
from anyrt.core.flags import Flags, read_flags
from anyrt.core.machine import REFERENCE, Costs, Machine, detected_caches, parse_machine, this_machine
from tests.messages import diagnostic

NAMES = ("type", "level", "size", "coherency_line_size", "shared_cpu_list")
KB, MB = 1 << 10, 1 << 20


def tables(folder, *caches):
    """The system's tables of caches: type, level, size, line, sharing processors."""
    for n, cache in enumerate(caches):
        (folder / f"index{n}").mkdir(parents=True)
        for name, value in zip(NAMES, cache, strict=True):
            (folder / f"index{n}" / name).write_text(f"{value}\n")
    return folder


def test_caches_are_those_of_one_core(tmp_path):
    result = detected_caches(
        tables(
            tmp_path,
            ("Data", 1, "32K", 128, "0,8"),  # two threads of a core
            ("Instruction", 1, "64K", 64, "0,8"),
            ("Unified", 2, "4096K", 128, "0-3,8-11"),  # four cores
            ("Unified", 3, "16384K", 128, "0-15"),
        )
    )
    sizes = (result.l1_bytes, result.l2_bytes, result.last_bytes, result.line_bytes)
    assert sizes == (32 * KB, MB, 16 * MB, 128)


def test_a_huge_shared_cache_counts_as_a_usual_one(tmp_path):
    caches = [("Data", 1, "48K", 64, "0"), ("Unified", 2, "2M", 64, "0"), ("Unified", 3, "480M", 64, "0-1")]
    assert detected_caches(tables(tmp_path, *caches)) == replace(REFERENCE, l2_bytes=2 * MB)


def test_without_a_third_level_the_second_is_the_last(tmp_path):
    caches = [("Data", 1, "128K", 128, "0"), ("Unified", 2, "12288K", 128, "0-3")]
    result = detected_caches(tables(tmp_path, *caches))
    assert (result.l2_bytes, result.last_bytes) == (3 * MB, 12 * MB)


@pytest.mark.parametrize(
    "values",
    [
        (),
        [("Data", 1, "0K", 0, "0")],
        [("Data", 1, "", "", "")],
        [("Data", 1, "48 kilobytes", 64, "all")],
        [("Unified", 3, "7K", 48, "0")],
    ],
    ids=["none", "nothing", "empty", "words", "unlikely"],
)
def test_tables_that_make_no_sense_leave_the_reference(tmp_path, values):
    assert detected_caches(tables(tmp_path, *values)) == REFERENCE


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3, 5}, raising=False)
    assert this_machine(Flags()).cores == 3


def test_a_description_reads_back():
    machine = Machine(l1_bytes=32 * KB, permutes=(2, 4), has_fma=False, costs=Costs(wake=5000))
    assert parse_machine(str(machine), REFERENCE, "a file") == machine


def test_a_file_changes_what_it_names(tmp_path):
    path = tmp_path / "machine.json"
    path.write_text('{"cores": 12, "costs": {"gather": 9}}')
    result, plain = this_machine(read_flags({"ANYRT_MACHINE": str(path)})), this_machine(Flags())
    assert result == replace(plain, cores=12, costs=replace(plain.costs, gather=9))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("48 KB", ("Extra data: line 1",)),
        ("[" * 100000, (65536, "JSON")),
        ("[]", ("[]", "l1_bytes", "l2_bytes")),
        ('{"l4_bytes": 1}', ("'l4_bytes'", "l1_bytes")),
        ('{"l1_bytes": 1.5}', ("l1_bytes", 1.5, 4096, 16777216)),
        ('{"l1_bytes": 0}', ("l1_bytes", 0, 4096, 16777216)),
        ('{"cores": true}', ("cores", True, 1, 4096)),
        ('{"vector_bits": 384}', ("vector_bits", 384, 128, 2048)),
        ('{"has_fma": 1}', ("has_fma", 1, "true", "false")),
        ('{"permutes": [3]}', ("permutes", "(3,)", 1, 4)),
        ('{"costs": {"gather": -1}}', ("costs, gather", -1)),
        ('{"costs": 5}', ("costs", 5, "move")),
    ],
)
def test_a_bad_file_gives_a_named_error(tmp_path, text, values):
    path = tmp_path / "machine.json"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=diagnostic("AR304", "machine.json", "ANYRT_MACHINE", *values)):
        this_machine(Flags(machine=path))


def test_a_path_that_is_no_file_raises_an_error_with_a_code(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "bytes").write_bytes(b"\xff")
    (tmp_path / "large").write_text(" " * (1 << 17))
    for name in ("fifo", "bytes", "large", "missing"):
        with pytest.raises(ArgumentError, match=f"AR304.*{name} of ANYRT_MACHINE"):
            this_machine(Flags(machine=tmp_path / name))
