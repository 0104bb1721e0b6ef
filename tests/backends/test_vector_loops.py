"""The form of vector loops depends on the machine; on the measured machine it is the one that was
measured."""

import re
from dataclasses import replace

import pytest

from anyrt.backends.cpu.emit import emit
from anyrt.backends.cpu.transpose import fit
from anyrt.backends.cpu.vectors import strided
from anyrt.backends.cpu.widen import most_chains, peel
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE, Costs, Machine
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import Alloc, Fetch, Fold, For, Kernel, Loop, Op, Store, const, load

P, I = Sym("p", extent=1), Sym("i", extent=4096)  # noqa: E741 - loop variables
X, Y = Buffer("x", DataType.FLOAT, Space.INPUT, 4 * 4096), Buffer("y", DataType.FLOAT, Space.OUTPUT, 4096)
I7 = Sym("i", extent=7)
ACC = Buffer("acc", Scalar.F32, Space.REGISTER)


def text_of(machine: Machine, *body) -> str:
    return emit(Kernel("k", P, body), machine).text


def test_limits_equal_the_measured_ones():
    limits = {f: f(REFERENCE) for f in (most_chains, peel, strided, fit)}
    assert limits == {most_chains: 4, peel: 32, strided: 4, fit: 16}


@pytest.mark.parametrize(("latency", "chains"), [(1, 1), (3, 2), (4, 4), (5, 4), (8, 8)])
def test_a_fold_has_an_accumulator_for_each_cycle_of_an_addition(latency, chains):
    machine = replace(REFERENCE, costs=Costs(latency=latency))
    body = (Alloc(ACC, const(0.0, Scalar.F32)), For(I, Loop.VECTOR, (Fold(ACC, Op.ADD, load(X, I.dim)),)))
    text = text_of(machine, *body, Store(Y, 0, load(ACC, 0)))
    assert len(re.findall("%acc[0-9]+ = alloca", text)) == chains


@pytest.mark.parametrize(("gather", "gathers"), [(4, False), (2, True)])
def test_strides_are_gathered_where_that_costs_less(gather, gathers):
    machine = replace(REFERENCE, costs=Costs(gather=gather))
    text = text_of(machine, For(I, Loop.VECTOR, (Store(Y, I.dim, load(X, I.dim * 3)),)))
    assert ("shufflevector <16 x float>" in text, text.count("masked.gather")) == (not gathers, 2 * gathers)


def test_padded_scratch_is_read_without_a_mask():
    room = Buffer("room", Scalar.F32, Space.SCRATCH, 7 + 16, padded=True)
    loops = [For(I7, Loop.VECTOR, (Store(Y, I7.dim, load(b, I7.dim)),)) for b in (room, X)]
    assert ["masked.load" in text_of(REFERENCE, loop) for loop in loops] == [False, True]


@pytest.mark.parametrize(("line", "prefetches"), [(32, 2), (64, 1)])
def test_every_line_of_a_vector_is_prefetched_once(line, prefetches):
    body = For(I, Loop.VECTOR, (Store(Y, I.dim, load(X, I.dim)), Fetch(X, I.dim)))
    text = text_of(replace(REFERENCE, line_bytes=line), body)
    assert text.count("call void @llvm.prefetch") == prefetches


@pytest.mark.parametrize(("bits", "bytes_"), [(512, 64), (256, 32), (128, 16)])
def test_vectors_that_are_written_past_the_caches_are_those_of_a_register(bits, bytes_):
    past = replace(Y, nontemporal=1)
    text = text_of(
        replace(REFERENCE, vector_bits=bits), For(I, Loop.VECTOR, (Store(past, I.dim, load(X, I.dim)),))
    )
    assert f"align {bytes_}, !nontemporal" in text


def test_bytes_are_gathered_from_the_words_around_them():
    x = Buffer("x", DataType.INT8, Space.INPUT, 9 * 4096)
    y = Buffer("y", DataType.INT8, Space.OUTPUT, 4096)
    text = text_of(REFERENCE, For(I, Loop.VECTOR, (Store(y, I.dim, load(x, I.dim * 9)),)))
    assert re.search(r"call <(\d+) x i32> @llvm.masked.gather.v\1i32", text)
