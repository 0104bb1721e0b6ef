"""Images: accepted and rejected object files, and mapped images."""

import ctypes
import mmap
import random
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from anyrt.backends.cpu import codepages, executor
from anyrt.backends.cpu.image import _page, flatten
from anyrt.backends.cpu.mix import mix_text
from anyrt.backends.cpu.pool import pool_text
from anyrt.backends.cpu.processors import Level, choose, forced, host
from anyrt.codegen import llvm
from anyrt.codegen.llvm import assembly, compile_text, optimised
from anyrt.core.errors import CompileError
from anyrt.plan.program import Compiled, Program
from tests.messages import diagnostic

TABLE = """
@table = private constant [4 x i32] [i32 10, i32 20, i32 30, i32 40]
define internal i32 @twice(i32 %x) noinline {
  %y = mul i32 %x, 2
  ret i32 %y
}
define i32 @get(i64 %i) {
  %p = getelementptr i32, ptr @table, i64 %i
  %v = load i32, ptr %p
  %w = call i32 @twice(i32 %v)
  ret i32 %w
}
"""


def refusal(text):
    with pytest.raises(CompileError) as caught:
        flatten(compile_text(text, host()))
    return str(caught.value)


@pytest.mark.parametrize("level", [Level.AVX512, Level.AVX2, Level.SSE2])
def test_code_with_constants_and_calls_runs(device, level):
    image, entries = flatten(compile_text(TABLE, forced(level)))
    code = device.load(Compiled(Program((), 0, 0, 0, 0, (), tuple(entries.items())), image))
    assert [code.function("get", 1)(i) for i in range(4)] == [20, 40, 60, 80]
    assert list(entries) == ["get"]


def test_undefined_symbols_are_rejected_by_name():
    text = "declare float @outside()\ndefine float @f() {\n %y = call float @outside()\n ret float %y\n}"
    assert "AR806" in refusal(text)
    assert "outside" in refusal(text)


def test_variables_are_rejected():
    text = "@v = global i32 4\ndefine i32 @f() {\n store volatile i32 5, ptr @v\n ret i32 0\n}"
    assert "data that can change" in refusal(text)


@pytest.mark.parametrize(("level", "number"), [(Level.SSE2, 42), (Level.NEON, 311)])
def test_references_that_need_a_table_of_addresses_are_rejected(level, number):
    text = "define void @g() {\n ret void\n}\ndefine ptr @f() {\n ret ptr @g\n}"
    with pytest.raises(CompileError, match=diagnostic("AR806", "'g'", number)):
        flatten(compile_text(text, forced(level)))


def test_tables_of_pointers_are_rejected():
    text = (
        "define internal void @g() {\n ret void\n}\n@t = internal constant [2 x ptr] [ptr @g, ptr null]\n"
        "define ptr @f(i64 %i) {\n %p = getelementptr ptr, ptr @t, i64 %i\n"
        " %v = load ptr, ptr %p\n ret ptr %v\n}"
    )
    assert "relocation type 1" in refusal(text)


def test_objects_for_other_processors_are_not_flattened():
    obj = bytearray(compile_text(TABLE, host()))
    obj[0x12:0x14] = (243).to_bytes(2, "little")  # RISC-V
    with pytest.raises(CompileError, match=diagnostic("AR806", "ELF", "x86-64", "AArch64")):
        flatten(bytes(obj))


def test_code_of_aarch64_refers_to_pages_and_places_in_them():
    text = """
@table = internal constant [3 x i64] [i64 1, i64 2, i64 3]
define i64 @get(i64 %i) {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}"""
    image, entries = flatten(compile_text(text, forced(Level.NEON)))
    # adrp x8, this page; add x8, x8, #64; ldr x0, [x8, x0, lsl #3]; ret
    code = [0x90000008, 0x91010108, 0xF8607900, 0xD65F03C0]
    assert (entries, struct.unpack_from("<4I", image)) == ({"get": 0}, tuple(code))
    assert struct.unpack_from("<3q", image, 64) == (1, 2, 3)


@pytest.mark.parametrize(("to", "word"), [(0x5008, 0xB0000000), (0x3010, 0xF0FFFFE0), (0x9000, 0xB0000020)])
def test_pages_are_counted_from_that_of_the_instruction(to, word):
    image = bytearray(0x4004)
    struct.pack_into("<I", image, 0x4000, 0x90000000)
    _page(image, 0x4000, to)
    assert struct.unpack_from("<I", image, 0x4000) == (word,)


@pytest.fixture
def apple(monkeypatch):
    """The processor that a program on Apple silicon is compiled for."""
    reported = ("arm64-apple-darwin24.0.0", "apple-m1", {"neon": True})
    monkeypatch.setattr(llvm, "this_processor", lambda: reported)
    return host.__wrapped__()


def test_code_for_apple_silicon_leaves_a_register_to_the_system(apple):
    texts = [mix_text(), TABLE, *(pool_text(apple), executor.text(apple))]
    codes = ["".join(assembly(text, how) for text in texts) for how in (apple, forced(Level.NEON))]
    assert [bool(re.search(r"\b[xw]18\b", code)) for code in codes] == [False, True]
    assert flatten(compile_text(pool_text(apple), apple))[1].keys() == {"parallel", "worker", "stop"}
    assert "svc" not in pool_text(apple)


def test_pages_on_apple_silicon_are_writable_to_their_writer_alone(monkeypatch):
    """The text of the code; it is never run."""
    calls, system = [], SimpleNamespace()
    for name in ("pthread_jit_write_protect_np", "sys_icache_invalidate"):
        setattr(system, name, lambda *values, name=name: calls.append((name, bytes(pages[:2]), *values[:1])))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: system)
    pages = mmap.mmap(-1, mmap.PAGESIZE)
    codepages._write_on_apple(pages, b"\xc0\x03", 4096)
    assert [c[:2] for c in calls] == [
        ("pthread_jit_write_protect_np", b"\0\0"),
        ("pthread_jit_write_protect_np", b"\xc0\x03"),
        ("sys_icache_invalidate", b"\xc0\x03"),
    ]
    assert [c[2] for c in calls[:2]] == [0, 1]


def test_damaged_objects_are_rejected_not_crashed_on():
    chance, obj = random.Random(1), compile_text(TABLE, host())
    for _ in range(300):
        broken = bytearray(obj)
        broken[chance.randrange(len(obj))] = chance.randrange(256)
        try:
            image, _ = flatten(bytes(broken[: chance.randrange(len(obj))]))
        except CompileError:
            continue
        assert len(image) < 1 << 20


def test_threads_may_compile_at_once():
    with ThreadPoolExecutor(4) as pool:
        objects = set(pool.map(lambda _: compile_text(TABLE, host()), range(16)))
    assert objects == {compile_text(TABLE, host())}


def test_broken_text_is_rejected_with_its_line():
    with pytest.raises(CompileError, match=r"AR808.*line 2 column 6 \(ret i64 0\)"):
        compile_text("define i32 @f() {\n ret i64 0\n}", host())


def test_text_can_be_seen_optimised_and_as_assembly():
    assert "@get" in optimised(TABLE, host())
    assert "get:" in assembly(TABLE, host())
    assert "ldr" in assembly(TABLE, forced(Level.NEON))


def test_a_level_that_is_unknown_or_missing_is_rejected():
    assert choose(None) == host()
    assert choose("sse2").vector_bits == 128
    with pytest.raises(CompileError, match="AR809"):
        choose("mmx")
    with pytest.raises(CompileError, match="AR809"):
        choose("neon")


def test_entries_outside_the_image_are_rejected(device):
    with pytest.raises(CompileError, match="outside"):
        device.load(Compiled(Program((), 0, 0, 0, 0, (), (("run", 99),)), b"\xc3"))
