"""Devices, streams, events and buffers of cuda.core over host memory."""

import ctypes
import shutil

import numpy as np
import pytest

from anyrt.compat.cuda import core, driver
from anyrt.core.errors import NotSupportedError
from tests.messages import diagnostic, values_in_order

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


def test_bytes_go_from_buffer_to_buffer():
    stream = core.Device().create_stream(options=core.StreamOptions(nonblocking=True))
    a, b = core.Device(0).allocate(4, stream=stream), core.LegacyPinnedMemoryResource().allocate(4)
    a.fill(7, stream=stream)
    b.copy_from(a, stream=stream)
    copied = a.copy_to(stream=stream)
    assert [ctypes.string_at(int(x.handle), 4) for x in (b, copied)] == [b"\7" * 4] * 2
    assert [(x.is_device_accessible, x.is_host_accessible) for x in (a, b)] == [(True, False), (True, True)]
    with pytest.raises(ValueError, match=r"mismatch between src and dst \(4 and 8\)"):
        a.copy_to(core.Device().allocate(8), stream=stream)


def test_buffers_and_streams_end_when_they_are_closed():
    stream, buffer = core.Stream(), core.Device().allocate(8)
    handles = int(stream), int(buffer.handle)
    for thing in (stream, buffer, stream, buffer):
        thing.close()
    assert driver.cuStreamQuery(handles[0])[0].name == "CUDA_ERROR_INVALID_HANDLE"
    assert driver.cuMemFree(handles[1])[0].name == "CUDA_ERROR_INVALID_VALUE"


def test_buffers_around_memory_of_others_leave_it():
    _, address = driver.cuMemAlloc(8)
    core.Buffer.from_handle(address, 8).close()
    assert driver.cuMemFree(address)[0].name == "CUDA_SUCCESS"


def test_events_with_time_are_subtracted():
    stream, timed = core.Device().create_stream(), core.EventOptions(enable_timing=True)
    first, last = stream.record(options=timed), stream.record(options=timed)
    stream.wait(first)
    stream.wait(core.Stream())
    stream.sync()
    assert (last - first >= 0, last.is_done, last.is_timing_disabled) == (True, True, False)
    with pytest.raises(RuntimeError, match="created with timing enabled"):
        stream.record() - first


def test_streams_of_other_libraries_are_taken():
    class Other:
        def __cuda_stream__(self):
            return (0, int(driver.cuStreamCreate(0)[1]))

    stream = core.Device().create_stream(Other())
    assert (stream.sync(), stream.__cuda_stream__()) == (None, (0, int(stream)))
    assert core.Stream.from_handle(0).handle == core.Device().default_stream.handle == 0


def test_device_reports_its_attributes():
    device = core.Device()
    assert (tuple(device.compute_capability), device.arch, device.device_id) == ((8, 0), "80", 0)
    assert (device.properties.warp_size, device.name) == (32, "AnyRT host memory")
    assert (core.system.num_devices, device.set_current(), device.sync()) == (1, None, None)
    with pytest.raises(core.CUDAError, match="INVALID_DEVICE"):
        core.Device(1)


AXPY = """
#ifndef SIGN
#define SIGN 1
#endif
template <typename T> __global__ void axpy(const T a, const T *x, T *y, size_t n) {
    size_t i = threadIdx.x + size_t(blockIdx.x) * blockDim.x;
    if (i < n) y[i] += SIGN * a * x[i];
}
extern "C" __global__ void one(int *x) { *x = SIGN; }
"""


@needs_compiler
def test_kernels_of_a_program_are_launched():
    device = core.Device()
    options = core.ProgramOptions(std="c++17", arch="sm_80", define_macro=[("SIGN", -1)])
    names = ("axpy<float>", "axpy<double>")
    code = core.Program(AXPY, "c++", options).compile("cubin", name_expressions=names)
    stream, n = device.create_stream(), 1000
    for kind, name in zip((np.float32, np.float64), names, strict=True):
        x, y = np.arange(n, dtype=kind), np.ones(n, kind)
        memory = device.allocate(x.nbytes, stream=stream)
        ctypes.memmove(int(memory.handle), x.ctypes.data, x.nbytes)
        config = core.LaunchConfig(grid=-(-n // 256), block=256)
        core.launch(stream, config, code.get_kernel(name), kind(0.5), memory, y.ctypes.data, n)
        assert np.array_equal(y, 1 - x / 2)


@needs_compiler
def test_object_code_is_loaded_again():
    device = core.Device()
    image, result = core.Program(AXPY, "c++").compile("cubin").code, np.zeros(1, np.int32)
    kernel = core.ObjectCode.from_cubin(image).get_kernel(b"one")
    core.launch(device.default_stream, core.LaunchConfig(), kernel, result.ctypes.data)
    assert result[0] == 1
    with pytest.raises(TypeError, match=values_in_order("one", 1, 0)):
        core.launch(device.default_stream, core.LaunchConfig(), kernel)
    with pytest.raises(NotSupportedError, match=r"AR901.*code_type='ptx'"):
        core.Program(".version 8.0", "ptx")


@pytest.mark.parametrize("name", ["Linker", "GraphBuilder"])
def test_code_for_gpus_is_rejected_by_name(name):
    with pytest.raises(NotSupportedError, match=diagnostic("AR901", name, "GPU", "CPU")):
        getattr(core, name)("__global__ void f() {}", options=core.ProgramOptions(arch="sm_80"))
