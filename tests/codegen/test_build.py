"""Functions built in Python become text that computes the same; every access to shared words is atomic."""

import ctypes
import re

import pytest

from anyrt.backends.cpu.device import CpuDevice
from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.processors import host
from anyrt.codegen.build import Shared, function
from anyrt.codegen.llvm import compile_text
from anyrt.plan.program import Compiled, Program


def ran(text, *values):
    """The return value of a function called `f`."""
    image, entries = flatten(compile_text(text, host()))
    code = CpuDevice().load(Compiled(Program((), 0, 0, 0, 0, (), tuple(entries.items())), image))
    return code.function("f", len(values))(*values)


def test_iterations_run_until_one_leaves_the_loop():
    """The sum of the odd numbers below 100 up to the argument."""

    def write(f, most):
        total = f.variable(0)
        with f.each(1, 100, 2) as k:
            with f.when(k.is_("ugt", most)):
                f.give(total.value.to("trunc", "i32"))
            total.value = total.value + k
        f.give(-1)

    text = function("define i32 @f", "i64 most", write)
    assert [ran(text, n) for n in (0, 1, 8, 98, 99)] == [0, 1, 1 + 3 + 5 + 7, 49 * 49, -1]


def test_a_loop_may_start_its_next_iteration_early():
    def write(f, n):
        at, total = f.variable(n), f.variable(0)
        with f.loop() as loop:
            now = at.value
            with f.when(now.is_("eq", 0)):
                loop.leave()
            at.value = now - 1
            with f.when((now & 1).is_("eq", 0)):
                loop.next()
            total.value = total.value + now
        f.give(total.value.to("trunc", "i32"))

    assert ran(function("define i32 @f", "i64 n", write), 9) == 1 + 3 + 5 + 7 + 9


def test_a_switch_writes_what_stands_for_its_number_and_goes_on():
    def write(f, n):
        result = f.variable(7)

        def put(value):
            result.value = value

        f.switch(n, {2: lambda: put(20), 3: lambda: f.give(33), 4: lambda: put(n * n)})
        f.give((result.value + 1).to("trunc", "i32"))

    text = function("define i32 @f", "i64 n", write)
    assert [ran(text, n) for n in range(6)] == [8, 8, 21, 33, 17, 8]


def test_a_condition_picks_and_is_kept():
    def write(f, a, b):
        less = f.variable(False)
        with f.when(a.is_("slt", b)):
            less.value = True
        f.give(less.value.pick(a, b).to("trunc", "i32"))

    text = function("define i32 @f", "i64 a, i64 b", write)
    assert [ran(text, 3, 5), ran(text, 5, 3), ran(text, -2, 1)] == [3, 3, -2]


def test_words_that_threads_share_change_at_once_and_say_what_they_order():
    def write(f, at):
        word = Shared(at)
        old = word.change("add", 5, "acq_rel")
        with f.when(word.swap(12, 40, "acquire")):
            word.store(word.load("monotonic") + old, "release")
        f.give(word.load("seq_cst").to("trunc", "i32"))

    text, word = function("define i32 @f", "ptr at", write), ctypes.c_int64(7)
    assert ran(text, ctypes.addressof(word)) == word.value == 47
    accesses = [line for line in text.splitlines() if line.startswith(" ") and "ptr %at" in line]
    assert [bool(re.search("atomic|cmpxchg", line)) for line in accesses] == [True] * 5


def test_nothing_is_written_behind_the_end_of_a_block():
    def write(f, n):
        f.give(n.to("trunc", "i32"))
        f.run("@never", n)

    with pytest.raises(AssertionError, match="nothing gets here: call void @never"):
        function("define i32 @f", "i64 n", write)


def test_floats_are_compared_as_floats_and_kept_in_room_on_the_stack():
    def write(f, n):
        last = f.room("float", n).at(n - 1, "float")
        last.store(n.to("sitofp", "float").do("fdiv", f.number(2).to("sitofp", "float")), align=4)
        f.give(last.load("float", align=4).is_("ogt", f.number(1).to("sitofp", "float")).to("zext", "i32"))

    assert [ran(function("define i32 @f", "i64 n", write), n) for n in (1, 2, 3)] == [0, 0, 1]
