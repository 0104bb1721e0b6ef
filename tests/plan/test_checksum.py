"""Checksums of constants: the same on any number of threads, of pieces where a constant is long."""

import hashlib

import pytest

from anyrt.core.errors import ResourceError
from anyrt.plan import checksum
from anyrt.plan.checksum import checksums


def sha(content):
    return hashlib.sha256(content).digest()


@pytest.fixture
def short_pieces(monkeypatch):
    monkeypatch.setattr(checksum, "PIECE_BYTES", 4)


@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_a_long_constant_has_the_checksum_of_its_pieces_checksums(short_pieces, monkeypatch, threads):
    monkeypatch.setenv("ANYRT_NUM_THREADS", threads)
    contents = [b"", b"abcd", b"abcdefgh", b"abcdefghi"] * 9
    long = [sha(sha(b"abcd") + sha(b"efgh")), sha(sha(b"abcd") + sha(b"efgh") + sha(b"i"))]
    assert checksums([memoryview(x) for x in contents]) == [
        x.hex() for x in [sha(b""), sha(b"abcd"), *long] * 9
    ]


def test_checksums_need_no_thread_to_start(short_pieces, monkeypatch):
    def refuse(nbytes, where):
        raise ResourceError("AR802", where)

    monkeypatch.setattr(checksum, "require_room", refuse)
    assert checksums([memoryview(b"abcd" * 10)]) == [sha(sha(b"abcd") * 10).hex()]
