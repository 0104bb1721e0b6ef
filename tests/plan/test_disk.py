"""Files are written completely or not at all."""

import errno
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anyrt.core.errors import ResourceError
from anyrt.plan.disk import write_atomically
from tests.messages import diagnostic


def test_a_file_holds_its_parts(tmp_path):
    write_atomically(tmp_path / "net.plan", [b"one", memoryview(b"two")])
    assert (tmp_path / "net.plan").read_bytes() == b"onetwo"


def test_a_failed_write_leaves_the_old_file(tmp_path):
    (tmp_path / "net.plan").write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stop"):
        write_atomically(tmp_path / "net.plan", _interrupted())
    assert [p.name for p in tmp_path.iterdir()] == ["net.plan"]
    assert (tmp_path / "net.plan").read_bytes() == b"old"


def _interrupted():
    yield b"new"
    raise RuntimeError("stop")


def test_a_directory_that_is_not_there_is_a_resource_error(tmp_path):
    with pytest.raises(ResourceError, match="AR803"):
        write_atomically(tmp_path / "no" / "net.plan", [b"new"])


def test_a_full_disk_leaves_the_old_file_and_the_error_names_it(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "net.plan").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError, match=diagnostic("AR803", "net.plan", "No space left on device")):
        write_atomically(tmp_path / "net.plan", [b"new"])
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("net.plan", b"old")]


def test_a_file_that_may_grow_no_more_stays_as_it_was(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    lines = "setrlimit(RLIMIT_FSIZE, (4096, 4096)); w(Path('a'), [b'n' * 9999])"
    head = (
        "from resource import *; from pathlib import Path; from anyrt.plan.disk import write_atomically as w;"
    )
    done = subprocess.run([sys.executable, "-c", head + lines], cwd=tmp_path, capture_output=True, text=True)
    assert re.search(diagnostic("AR803", "a", "File too large"), done.stderr)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]


def test_links_stay_and_lead_to_what_is_written(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "link").symlink_to("../real")
    (tmp_path / "far" / "dangling").symlink_to("../fresh")
    write_atomically(tmp_path / "far" / "link", [b"new"])
    write_atomically(tmp_path / "far" / "dangling", [b"made"])
    assert [(tmp_path / "far" / name).is_symlink() for name in ("link", "dangling")] == [True, True]
    assert [(tmp_path / name).read_bytes() for name in ("real", "fresh")] == [b"new", b"made"]


def test_links_in_a_circle_are_a_resource_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ResourceError, match=diagnostic("AR803", "/a", "Too many levels of symbolic links")):
        write_atomically(tmp_path / "a", [b"new"])


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_a_file_keeps_its_rights(tmp_path, mode):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(mode)
    write_atomically(tmp_path / "a", [b"new"])
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


@pytest.mark.skipif(not os.getuid(), reason="root may write everything")
def test_a_file_that_may_not_be_written_stays(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o444)
    with pytest.raises(ResourceError, match="AR803"):
        write_atomically(tmp_path / "a", [b"new"])
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_fifo_gets_the_bytes(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    writer = threading.Thread(target=write_atomically, args=(tmp_path / "fifo", [b"one", b"two"]))
    writer.start()
    assert (tmp_path / "fifo").read_bytes() == b"onetwo"
    writer.join()
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_writing_to_stdout_continues_its_output(tmp_path):
    lines = "print('a', flush=True); w(Path('/dev/stdout'), [b'b']); print('c')"
    head = "from pathlib import Path; from anyrt.plan.disk import write_atomically as w;"
    with (tmp_path / "log").open("wb") as log:
        subprocess.run([sys.executable, "-c", head + lines], stdout=log, check=True)
    assert (tmp_path / "log").read_bytes() == b"a\nbc\n"


def test_a_full_device_is_named():
    with pytest.raises(ResourceError, match=diagnostic("AR803", "/dev/full", "No space left on device")):
        write_atomically(Path("/dev/full"), [b"new"])


@pytest.mark.parametrize("name", ["n" * 250, "ü" * 120])
def test_long_names_are_written(tmp_path, name):
    write_atomically(tmp_path / name, [b"new"])
    assert (tmp_path / name).read_bytes() == b"new"
