"""The stand-in for pycuda: objects that own memory, exceptions instead of codes."""

import gc

import numpy as np
import pytest

from anyrt.compat.host.device import DEVICE, DeviceFault
from anyrt.compat.pycuda import autoinit as pycuda_autoinit
from anyrt.compat.pycuda import driver as cuda
from anyrt.compat.pycuda import gpuarray as pycuda_gpuarray


def test_array_goes_to_the_device_and_back_on_a_stream():
    host, back, stream = np.arange(5.0), cuda.pagelocked_empty(5, np.float64), cuda.Stream()
    there = cuda.mem_alloc(host.nbytes)
    cuda.memcpy_htod_async(there, host, stream)
    cuda.memcpy_dtoh_async(back, int(there), stream)
    stream.synchronize()
    assert back.tolist() == [0, 1, 2, 3, 4]


def test_copies_that_do_not_fit_raise_pycudas_error():
    there = cuda.mem_alloc(8)
    with pytest.raises(cuda.LogicError, match="cuMemcpyHtoD failed: invalid argument"):
        cuda.memcpy_htod(there, np.zeros(9, np.uint8))
    with pytest.raises(cuda.LogicError, match="cuMemcpyDtoH failed: invalid argument"):
        cuda.memcpy_dtoh(np.zeros(9, np.uint8), there)
    with pytest.raises(TypeError, match="array or buffer"):
        cuda.memcpy_htod(there, 12345)


def test_too_large_allocation_raises_pycudas_memory_error():
    with pytest.raises(cuda.MemoryError, match="cuMemAlloc failed: out of memory"):
        cuda.mem_alloc(1 << 60)


def test_memory_is_freed_with_its_object():
    there = cuda.mem_alloc(8)
    address = int(there)
    del there
    gc.collect()
    with pytest.raises(DeviceFault):
        DEVICE.release(address)


def test_explicit_free_is_not_repeated_by_the_destructor():
    there = cuda.mem_alloc(8)
    there.free()
    assert int(there) == 0
    with pytest.raises(cuda.LogicError, match="invalid argument"):
        cuda.memcpy_htod(there, np.zeros(8, np.uint8))


def test_events_measure_time_in_milliseconds():
    start, end = cuda.Event().record(), cuda.Event()
    with pytest.raises(cuda.LogicError, match="cuEventElapsedTime failed: invalid resource handle"):
        start.time_till(end)
    end.record(cuda.Stream()).synchronize()
    assert start.time_till(end) == end.time_since(start) >= 0


def test_device_and_context_are_there_from_the_start():
    assert (pycuda_autoinit.device.name(), cuda.Device.count()) == ("AnyRT host memory", 1)
    assert pycuda_autoinit.device.compute_capability() == (8, 0)
    context = cuda.Device(0).make_context()
    context.push()
    cuda.Context.pop()
    with pytest.raises(cuda.LogicError, match="invalid device ordinal"):
        cuda.Device(1)


def test_memory_is_filled_and_copied_within_the_device():
    a, b = cuda.to_device(np.zeros(4, np.uint32)), cuda.mem_alloc(16)
    cuda.memset_d32(a, 0x01020304, 4)
    cuda.memset_d8(a, 255, 4)
    cuda.memcpy_dtod(b, a, 16)
    assert cuda.from_device(b, 4, np.uint32).tolist() == [0xFFFFFFFF, 0x01020304, 0x01020304, 0x01020304]


def test_gpuarray_keeps_shape_and_type():
    x = pycuda_gpuarray.to_gpu(np.arange(6, dtype=np.int16).reshape(2, 3))
    y = pycuda_gpuarray.zeros_like(x)
    assert (x.shape, x.dtype, x.nbytes, len(x)) == ((2, 3), np.int16, 12, 2)
    assert (x.get().tolist(), y.get().tolist()) == ([[0, 1, 2], [3, 4, 5]], [[0, 0, 0], [0, 0, 0]])
    assert x.ptr == int(x.gpudata)
    with pytest.raises(ValueError, match=r"ary is \(6,\) int16, not \(2, 3\) int16"):
        x.set(np.zeros(6, np.int16))
