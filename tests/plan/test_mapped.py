"""Mapped files: changes after opening are detected, and only regular files are opened."""

import mmap
import os
import re

import pytest

from anyrt.core.errors import PlanError
from anyrt.plan.checksum import checksums
from anyrt.plan.file import map_plan, read_plan
from anyrt.plan.mapped import map_file, watch
from tests.messages import diagnostic


@pytest.fixture
def path(tmp_path, data):
    (tmp_path / "net.plan").write_bytes(data)
    os.utime(tmp_path / "net.plan", (1, 1))
    return tmp_path / "net.plan"


def shorten(path):
    os.truncate(path, path.stat().st_size - 1)


def overwrite(path):
    with open(path, "r+b") as file:
        file.write(b"!")


def replace(path):
    new = path.with_name("new")
    new.write_bytes(b"another")
    new.rename(path)


@pytest.mark.parametrize(("change", "intact"), [(shorten, False), (overwrite, False), (replace, True)])
def test_a_mapped_file_knows_whether_it_was_changed(path, change, intact):
    file = map_plan(path)
    assert file.is_intact()
    change(path)
    assert file.is_intact() is intact


def test_a_file_that_changes_while_it_is_read_is_rejected(path, monkeypatch):
    monkeypatch.setattr("anyrt.plan.file.checksums", lambda *args: overwrite(path) or checksums(*args))
    with pytest.raises(PlanError, match="AR608"):
        map_plan(path)


def test_a_mapped_file_is_closed_with_its_last_view(path):
    before = os.listdir("/proc/self/fd")
    file = map_plan(path)
    assert len(os.listdir("/proc/self/fd")) > len(before)
    del file
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_mapping_of_the_caller_is_watched_for_its_length(path):
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    file = read_plan(mapped)
    assert (file.in_place, file.is_intact()) == (True, True)
    shorten(path)
    assert not file.is_intact()
    assert watch(mmap.mmap(-1, 100)) is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_special_files_are_rejected_without_waiting(tmp_path, make):
    make(tmp_path / "odd")
    with pytest.raises(PlanError, match=diagnostic("AR604", "plan", re.compile("[dp]rw"))):
        map_file(tmp_path / "odd", "plan")


def test_buffers_are_used_in_place_only_when_nobody_writes_to_them(data):
    assert read_plan(data).in_place
    assert not read_plan(bytearray(data)).in_place
    assert read_plan(memoryview(bytearray(data)).toreadonly()).in_place
