"""The kernel cache finds its entries and survives damage, concurrent processes and a full disk."""

import errno
import os
import re
import signal
import threading

import pytest

from anyrt.backends import loader
from anyrt.compiler.cached import obtain_pool
from anyrt.core.dims import Sym
from anyrt.plan.cache import KernelCache, cache_key, default_directory
from anyrt.plan.program import Compiled, Program
from tests.messages import values_in_order

N = Sym("n", 1, 8)
SYMBOLS = {"n": N}
CODE = Compiled(Program((N.dim * 4,), 0, N.dim, 0, 64, ("k",), (("run", 3),)), b"\x90\x90\x90\xc3")
KEY = cache_key("net", "avx2")


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def cache(tmp_path, warnings):
    return KernelCache(tmp_path / "cache", warnings.append)


@pytest.fixture
def impatient():
    def waited(number, frame):
        raise AssertionError("waited for an entry")

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(5)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def terminal(path):
    _, end = os.openpty()
    path.symlink_to(os.ttyname(end))


def enormous(path):
    path.touch()
    os.truncate(path, 1 << 40)


def refuse():
    raise AssertionError("must not compile")


def test_stored_entries_are_found(cache, warnings):
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


def test_entries_that_changed_places_are_misses(cache, warnings):
    other, image = cache_key("net", "sse2"), b"\xcc\xcc\xcc\xc3"
    cache.put(KEY, CODE)
    cache.put(other, Compiled(CODE.program, image))
    first, second = (cache.directory / f"{key}.kernel" for key in (KEY, other))
    first.rename(cache.directory / "swap")
    second.rename(first)
    (cache.directory / "swap").rename(second)
    assert cache.get(KEY, SYMBOLS) is None
    assert cache.get(other, SYMBOLS) is None
    assert cache.obtain(KEY, SYMBOLS, lambda: CODE) == CODE
    assert ["damaged" in w for w in warnings] == [True, True, True]


def test_bytes_are_kept_under_a_key_of_their_own(cache, warnings):
    assert cache.get_bytes("k") is None
    assert cache.put_bytes("k", (b"ab", memoryview(b"c"), b""))
    assert cache.get_bytes("k") == b"abc"
    assert cache.put_bytes("empty", ())
    assert cache.get_bytes("empty") == b""
    assert warnings == []


@pytest.mark.parametrize("content", [b"", bytes(7), bytes(8), b"\x09" + bytes(7), b"\2" + bytes(7) + b"[]"])
def test_bytes_that_are_no_program_are_a_miss(cache, warnings, content):
    cache.put_bytes(KEY, (content,))
    assert cache.get(KEY, SYMBOLS) is None
    assert len(warnings) == 1


def test_a_put_does_not_look_at_the_other_entries(cache, monkeypatch):
    monkeypatch.setattr("os.scandir", lambda path: pytest.fail("the directory was scanned"))
    assert all(cache.put_bytes(cache_key(str(i)), (b"small",)) for i in range(100))


@pytest.mark.parametrize("odd", [os.mkfifo, terminal, enormous])
def test_an_entry_that_is_no_plausible_file_is_a_miss_and_is_replaced(cache, warnings, impatient, odd):
    cache.directory.mkdir(mode=0o700)
    odd(cache.directory / f"{KEY}.kernel")
    assert cache.obtain(KEY, SYMBOLS, lambda: CODE) == CODE
    values = (1 << 40, 1 << 30) if odd is enormous else ({os.mkfifo: "prw-", terminal: "crw-"}[odd],)
    assert re.search(values_in_order(*values), warnings[0])
    assert cache.obtain(KEY, SYMBOLS, refuse) == CODE


def test_a_folder_in_an_entrys_place_is_a_warning(cache, warnings, impatient):
    (cache.directory / f"{KEY}.kernel").mkdir(mode=0o700, parents=True)
    assert cache.obtain(KEY, SYMBOLS, lambda: CODE) == CODE
    assert len(warnings) == 2


def test_a_fifo_in_the_pools_place_does_not_hang_a_load(tmp_path, monkeypatch, impatient):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    warnings = []
    code = obtain_pool(loader.device(), loader.target, warnings.append)
    (entry,) = tmp_path.iterdir()
    entry.unlink()
    os.mkfifo(entry)
    assert obtain_pool(loader.device(), loader.target, warnings.append) == code
    assert entry.is_file()
    assert "prw-r--r--" in warnings[0]


def test_only_what_the_cache_wrote_is_removed(tmp_path, warnings):
    mine, left = tmp_path / "letter", tmp_path / f".{KEY}.0123456789abcdef"
    for path in (mine, left):
        path.write_bytes(bytes(5000))
    KernelCache(tmp_path, warnings.append, limit=2000).put(KEY, CODE)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{KEY}.kernel", "letter"]


def test_a_directory_that_others_may_write_is_not_used(cache, warnings):
    cache.put(KEY, CODE)
    cache.directory.chmod(0o770)
    assert cache.get(KEY, SYMBOLS) is None
    assert "AR803" in warnings[0]
    cache.put(KEY, CODE)
    assert len(warnings) == 2


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path, warnings):
    (tmp_path / "file").touch()
    cache = KernelCache(tmp_path / "file" / "cache", warnings.append)
    assert cache.obtain(KEY, SYMBOLS, lambda: CODE) == CODE
    assert warnings
    assert all("kernel cache not" in w for w in warnings)


def test_a_cache_on_a_read_only_file_system_is_read(cache, warnings, monkeypatch):
    def refused(*args, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    cache.put_bytes(KEY, (b"code",))
    monkeypatch.setattr(os, "utime", refused)
    assert (cache.get_bytes(KEY), warnings) == (b"code", [])


def test_the_least_recently_used_entry_goes_first(tmp_path, warnings):
    cache = KernelCache(tmp_path, warnings.append, limit=3800)
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
            result = cache.get(KEY, SYMBOLS)
            assert result is not None
            assert result.image == bytes(len(result.image))

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
