"""Checksums: equal from NumPy and native code, on any number of threads; different after any damage."""

import hashlib
import random
import struct

import numpy as np
import pytest

from anyrt.api.run.source import mixer
from anyrt.backends.cpu.device import CpuDevice
from anyrt.backends.cpu.mix import compile_mix, mix_text
from anyrt.backends.cpu.processors import Level, choose, forced, host
from anyrt.codegen.llvm import compile_text
from anyrt.compiler import cached
from anyrt.core.enums import DataType
from anyrt.core.errors import PlanError, ResourceError
from anyrt.plan import checksum, crew
from anyrt.plan.checksum import BLOCK_ROWS, FACTOR, MIX, ROW_BYTES, SCALE, SHORT_BYTES, checksums, mix
from anyrt.plan.file import map_plan, write_plan
from anyrt.plan.plan import Plan, lay_out

LEVELS = [None, *(x for x in ("avx2", "sse2") if host().level is not Level.SSE2 or x == "sse2")]
BLOCK = BLOCK_ROWS * ROW_BYTES
SIZES = (0, 1, SHORT_BYTES, SHORT_BYTES + 1, BLOCK - 1, BLOCK, BLOCK + ROW_BYTES + 7, 9 * BLOCK + 5)
WEIGHTS = np.random.default_rng(3).standard_normal((2 * BLOCK + 3 * ROW_BYTES + 8) // 4, np.float32).tobytes()


def sha(content):
    return hashlib.sha256(content).digest()


def lanes_of(block):
    """The definition, in Python integers."""
    lanes = [(k + 1) * 0x165667B19E3779F9 % 2**64 for k in range(64)]
    for at in range(0, len(block), 512):
        for k, word in enumerate(struct.unpack_from("<64Q", block, at)):
            x = (lanes[k] + word * SCALE) % 2**64
            lanes[k] = (x << 31 | x >> 33) * FACTOR % 2**64
    return struct.pack("<64Q", *lanes)


def sums(content, mixer=checksum.portable):
    return checksums([memoryview(content)], mixer)[0]


def test_a_short_constant_has_the_sha256_of_its_bytes():
    contents = [b"", b"abc", bytes(range(256)) * 256]
    assert checksums([memoryview(x) for x in contents]) == [sha(x).hex() for x in contents]


@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_a_long_constant_is_mixed_in_blocks(monkeypatch, threads):
    monkeypatch.setenv("ANYRT_NUM_THREADS", threads)
    monkeypatch.setattr(checksum, "BLOCK_ROWS", 3)
    monkeypatch.setattr(checksum, "SHORT_BYTES", 600)
    long = random.Random(1).randbytes(10 * 512 + 9)
    blocks = [long[at : min(at + 3 * 512, 10 * 512)] for at in range(0, 10 * 512, 3 * 512)]
    expected = sha(b"".join(map(lanes_of, blocks)) + long[-9:]).hex()
    contents = [b"abc", long, b"", long] * 4
    assert (
        checksums([memoryview(x) for x in contents])
        == [sha(b"abc").hex(), expected, sha(b"").hex(), expected] * 4
    )


@pytest.mark.parametrize("level", LEVELS)
def test_native_code_mixes_as_numpy_does(level):
    code = CpuDevice().load(compile_mix(choose(level)))
    native = code.function(MIX, 3)
    for count in (0, 1, 2, 77):
        raw = np.random.default_rng(count).integers(0, 256, count * ROW_BYTES + 3, np.uint8)
        rows = np.frombuffer(raw[3:], np.uint64).reshape(-1, 64)  # starts at an odd address
        ours, theirs = np.arange(64, dtype=np.uint64), np.arange(64, dtype=np.uint64)
        mix(rows, ours)
        assert native(rows.ctypes.data, len(rows), theirs.ctypes.data) == 0
        assert ours.tolist() == theirs.tolist()


def test_mixing_is_written_for_other_processors_too():
    assert compile_text(mix_text(), forced(Level.NEON))


def test_whoever_mixes_checksums_are_the_same():
    contents = [memoryview(random.Random(n).randbytes(n)) for n in SIZES]
    assert mixer() is not mix
    assert checksums(contents, mixer) == checksums(contents)


def test_checksums_need_no_thread_to_start(monkeypatch):
    before = sums(WEIGHTS)

    def refuse(nbytes, where):
        raise ResourceError("AR802", where)

    monkeypatch.setattr(crew, "require_room", refuse)
    assert sums(WEIGHTS) == before


@pytest.mark.parametrize("error", [ResourceError("AR802", "memory for code"), ImportError("no LLVM")])
def test_numpy_mixes_where_there_can_be_no_code(monkeypatch, tmp_path, error):
    def refuse():
        raise error

    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    assert cached.mixer(CpuDevice(), refuse) is mix


def flipped(*places):
    """With bit 7 of these bytes flipped: the signs of float32 where they are the last of four."""

    def damage(x):
        for at in places:
            x[at] ^= 0x80

    return damage


def moved(at, size, by):
    def damage(x):
        x[at + by : at + by + size] = bytes(x[at : at + size])

    return damage


def swapped(a, b, size):
    def damage(x):
        x[a : a + size], x[b : b + size] = bytes(x[b : b + size]), bytes(x[a : a + size])

    return damage


def zeroed(at, size):
    def damage(x):
        x[at : at + size] = bytes(size)

    return damage


DAMAGE = {
    "first byte": flipped(0),
    "last byte": flipped(-1),
    "last byte of the last row": flipped(2 * BLOCK + 3 * ROW_BYTES - 1),
    "first byte of the second block": flipped(BLOCK),
    "signs of two numbers side by side": flipped(3, 7),
    "signs of two numbers in a column": flipped(7, ROW_BYTES + 7),
    "signs of three numbers in a column": flipped(7, ROW_BYTES + 7, ROW_BYTES + 3),
    "signs in two blocks": flipped(7, BLOCK + 7),
    "two words swapped": swapped(0, 8, 8),
    "two rows swapped": swapped(0, ROW_BYTES, ROW_BYTES),
    "two pages swapped": swapped(4096, 5 * 4096, 4096),
    "two blocks swapped": swapped(0, BLOCK, BLOCK),
    "shifted by a byte": moved(4096, 8192, 1),
    "shifted by a cache line": moved(4096, 8192, 64),
    "shifted by a row": moved(4096, 8192, ROW_BYTES),
    "shifted by a page": moved(4096, 8192, 4096),
    "a zeroed sector": zeroed(3 * 512, 512),
    "a zeroed page": zeroed(7 * 4096, 4096),
    "a zeroed tail": zeroed(BLOCK, BLOCK + 3 * ROW_BYTES + 8),
}


@pytest.fixture(scope="module")
def large():
    """A plan of one long constant between two short ones."""
    blobs = [("a", DataType.FLOAT, 3), ("w", DataType.FLOAT, len(WEIGHTS) // 4), ("b", DataType.FLOAT, 3)]
    plan = Plan("large", "graph", blobs=lay_out(blobs))
    data = write_plan(plan, [bytes(12), WEIGHTS, bytes(12)])
    return data, len(data) - plan.blob_bytes + plan.blobs[1].offset


def write(folder, data):
    (folder / "net.plan").write_bytes(data)
    return folder / "net.plan"


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_weights_are_rejected_by_the_name_of_their_constant(large, tmp_path, damage):
    data, at = bytearray(large[0]), large[1]
    assert map_plan(write(tmp_path, data), mixer=mixer).plan.name == "large"
    damage(weights := bytearray(WEIGHTS))
    data[at : at + len(weights)] = weights
    with pytest.raises(PlanError, match=r"AR602.* constant 'w'"):
        map_plan(write(tmp_path, data), mixer=mixer)


@pytest.mark.parametrize("lost", [1, 4096, BLOCK, len(WEIGHTS) // 2])
def test_a_file_that_lost_its_end_is_rejected(large, tmp_path, lost):
    with pytest.raises(PlanError, match="AR601"):
        map_plan(write(tmp_path, large[0][:-lost]), mixer=mixer)


def test_each_bit_of_a_row_counts():
    content = bytearray(WEIGHTS[: SHORT_BYTES + ROW_BYTES])
    results = {sums(content, mixer)}
    for bit in range(8 * ROW_BYTES):
        content[bit // 8] ^= 1 << bit % 8
        results.add(sums(content, mixer))
        content[bit // 8] ^= 1 << bit % 8
    assert len(results) == 8 * ROW_BYTES + 1
