"""Files that are whole or not there."""

import pytest

from anyrt.core.errors import ResourceError
from anyrt.plan.disk import write_atomically


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
