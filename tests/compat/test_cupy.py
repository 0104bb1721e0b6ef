"""The stand-in for CuPy: host arrays in borrowed memory, kernels, streams."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from anyrt.compat.cupy import arrays as cp
from anyrt.core.errors import NotSupportedError
from tests.messages import values_in_order

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
ADD = """
extern "C" __global__ void add(const float *x, const float *y, float *z, int n, float more) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i] + more;
}
template <class T> __global__ void one(T *x) { x[threadIdx.x] = 1; }
"""


def test_arrays_lie_in_memory_that_is_lent():
    held = np.arange(6, dtype=np.float32)
    pointer = cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(held.ctypes.data, held.nbytes, held), 4)
    x = cp.ndarray((2, 2), np.float32, memptr=pointer)
    x += 10
    assert held.tolist() == [0, 11, 12, 13, 14, 5]
    assert (x.data.ptr, x.data.mem.size, x.device.id) == (held.ctypes.data + 4, 16, 0)
    rows = cp.ndarray(3, np.float32, cp.cuda.MemoryPointer(pointer.mem, 0), strides=(8,))
    assert rows.get().tolist() == [0, 12, 14]
    assert cp.ndarray((0, 3), memptr=pointer).size == 0


def test_functions_of_numpy_give_arrays_that_can_be_got():
    x = cp.arange(6, dtype=cp.float32).reshape(2, 3)
    for y, want in (
        (cp.sum(x), 15),
        (x.T @ x, x.get().T @ x.get()),
        (cp.linalg.norm(x), np.sqrt(np.float32(55))),
    ):
        assert isinstance(y, cp.ndarray | np.generic)
        assert np.array_equal(cp.asnumpy(y), want)
    halves = cp.split(x, 3, axis=1)
    assert [type(h) is cp.ndarray for h in halves] == [True] * 3
    assert type(x.get()) is type(cp.asnumpy(x)) is np.ndarray
    assert (cp.pi, cp.dtype("f2").itemsize, cp.float16) == (np.pi, 2, np.float16)
    assert (cp.get_array_module(x), cp.get_array_module(x.get())) == (cp, np)


def test_copies_are_copies_and_views_are_views():
    held = np.zeros(3)
    x = cp.asarray(held)
    x[1] = 4
    got = x.get()
    cp.copyto(x, cp.full(3, 7.0))
    assert (held.tolist(), got.tolist()) == ([7, 7, 7], [0, 4, 0])
    x.set([1, 2, 3])
    assert x.get(out=got) is got
    assert got.tolist() == [1, 2, 3]


def test_arrays_of_other_libraries_are_shared():
    held = np.arange(3, dtype=np.int32)

    reported = {"data": (held.ctypes.data, False), "shape": (3,), "typestr": "<i4", "version": 3}
    cp.asarray(SimpleNamespace(__cuda_array_interface__=reported))[0] = 5
    assert held.tolist() == [5, 1, 2]


@needs_compiler
def test_kernels_run_on_the_stream_that_is_used():
    add, n = cp.RawKernel(ADD, "add"), 300
    x, y = cp.arange(n, dtype=cp.float32), cp.ones(n, cp.float32)
    z = cp.zeros_like(x)
    with cp.cuda.Stream(non_blocking=True) as stream:
        add((2,), (256,), (x, y, z, n, np.float32(0.5)))
        stream.synchronize()
    assert np.array_equal(z.get(), x.get() + 1.5)
    with pytest.raises(TypeError, match=values_in_order("add", 5, 2)):
        add((1,), (1,), (x, y))
    one = cp.RawModule(code=ADD, name_expressions=["one<int>"]).get_function("one<int>")
    one((1,), (3,), (result := cp.zeros(4, cp.int32),))
    assert result.tolist() == [1, 1, 1, 0]


def test_memory_streams_and_events_are_those_of_the_device():
    memory, (start, end) = cp.cuda.alloc(16), (cp.cuda.Event(), cp.cuda.Event())
    cp.cuda.runtime.memset(memory.ptr, 1, 16)
    with cp.cuda.Device(0), cp.cuda.Stream() as stream:
        start.record()
        cp.cuda.runtime.memcpyAsync(memory.ptr + 8, np.int64([5]).ctypes.data, 8, 1, stream.ptr)
        stream.record(end)
        assert cp.cuda.get_current_stream() is stream
    assert cp.cuda.get_elapsed_time(start, end) >= 0
    assert cp.ndarray(2, np.int64, memory).tolist() == [0x0101010101010101, 5]
    assert cp.cuda.get_current_stream() is cp.cuda.Stream.null
    assert np.frombuffer(cp.cuda.alloc_pinned_memory(8), np.float32, 2).size == 2


def test_functions_that_need_a_gpu_compiler_are_rejected():
    with pytest.raises(NotSupportedError, match=r"AR901.*ElementwiseKernel"):
        cp.ElementwiseKernel("T x", "T y", "y = x", "f")
    with pytest.raises(AttributeError):
        _ = cp.nothing_of_numpy
