"""The kernel cache: finds what was kept, survives damage, neighbours and a full disk."""

import os
import threading

import pytest

from anyrt.core.dims import Sym
from anyrt.plan.cache import KernelCache, cache_key, default_directory
from anyrt.plan.program import Compiled, Program

N = Sym("n", 1, 8)
SYMBOLS = {"n": N}
CODE = Compiled(Program((N.dim * 4,), N.dim, 0, 64, ("k",), (("run", 3),)), b"\x90\x90\x90\xc3")
KEY = cache_key("net", "avx2")


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def cache(tmp_path, warnings):
    return KernelCache(tmp_path / "cache", warnings.append)


def refuse():
    raise AssertionError("must not compile")


def test_what_was_put_is_found(cache, warnings):
    assert cache.get(KEY, SYMBOLS) is None
    cache.put(KEY, CODE)
    assert cache.get(KEY, SYMBOLS) == CODE
    assert cache.obtain(KEY, SYMBOLS, refuse) == CODE
    assert warnings == []


def test_the_directory_is_private(cache):
    cache.put(KEY, CODE)
    assert cache.directory.stat().st_mode & 0o777 == 0o700


def test_keys_depend_on_all_parts_and_their_borders():
    keys = {cache_key("ab", "c"), cache_key("a", "bc"), cache_key("abc"), cache_key("abc", "")}
    assert len(keys) == 4
    assert cache_key("a") == cache_key(b"a")


def test_every_changed_byte_is_a_miss_and_is_replaced(cache, warnings):
    cache.put(KEY, CODE)
    path = next(cache.directory.iterdir())
    good = path.read_bytes()
    for i in range(len(good)):
        path.write_bytes(good[:i] + bytes([good[i] ^ 4]) + good[i + 1 :])
        assert cache.get(KEY, SYMBOLS) is None
        path.write_bytes(good[:i])
        assert cache.get(KEY, SYMBOLS) is None
    assert cache.obtain(KEY, SYMBOLS, lambda: CODE) == CODE
    assert path.read_bytes() == good
    assert "damaged" in warnings[0]


def test_a_directory_that_others_may_write_is_not_used(cache, warnings):
    cache.put(KEY, CODE)
    cache.directory.chmod(0o770)
    assert cache.get(KEY, SYMBOLS) is None
    assert "writable by you only" in warnings[0]
    cache.put(KEY, CODE)
    assert len(warnings) == 2


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path, warnings):
    (tmp_path / "file").touch()
    cache = KernelCache(tmp_path / "file" / "cache", warnings.append)
    assert cache.obtain(KEY, SYMBOLS, lambda: CODE) == CODE
    assert warnings
    assert all("kernel cache not" in w for w in warnings)


def test_the_least_recently_used_entry_goes_first(tmp_path, warnings):
    cache = KernelCache(tmp_path, warnings.append, limit=3500)
    big = Compiled(CODE.program, bytes(1000))
    for i, name in enumerate("abc"):
        cache.put(name, big)
        os.utime(tmp_path / f"{name}.kernel", (i, i))
    assert cache.get("a", SYMBOLS) == big
    cache.put("d", big)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.kernel", "c.kernel", "d.kernel"]


def test_writers_at_once_leave_a_good_entry(cache, warnings):
    def work(size):
        for _ in range(20):
            cache.put(KEY, Compiled(CODE.program, bytes(size)))
            found = cache.get(KEY, SYMBOLS)
            assert found is not None
            assert found.image == bytes(len(found.image))

    threads = [threading.Thread(target=work, args=(1000 * (i + 1),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings == []
    assert [p.name for p in cache.directory.iterdir()] == [f"{KEY}.kernel"]


def test_the_environment_chooses_the_directory():
    assert str(default_directory({"ANYRT_CACHE_DIR": "/a/b"})) == "/a/b"
    assert str(default_directory({"XDG_CACHE_HOME": "/c"})) == "/c/anyrt"
    assert default_directory({"XDG_CACHE_HOME": "relative"}).parts[-2:] == (".cache", "anyrt")
