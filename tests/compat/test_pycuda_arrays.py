"""Arrays of pycuda: host memory with an address, arithmetic, pools, and kernels on them."""

import shutil

import ml_dtypes
import numpy as np
import pytest

from anyrt.compat.pycuda import compiler as pycuda_compiler
from anyrt.compat.pycuda import driver, gpuarray, tools
from anyrt.core.errors import NotSupportedError
from tests.messages import diagnostic, values_in_order

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4), 5])
def test_page_locked_arrays_have_an_address_on_the_device(shape, dtype, order):
    array = driver.pagelocked_empty(shape, dtype, order, mem_flags=driver.host_alloc_flags.DEVICEMAP)
    plain = np.empty(shape, dtype, order)
    assert (array.shape, array.dtype) == (plain.shape, plain.dtype)
    assert array.size == 0 or array.strides == plain.strides
    array[...] = 1
    assert array.astype(float).sum() == plain.size


def test_the_base_of_a_page_locked_array_is_its_memory():
    array = driver.pagelocked_zeros((2, 3), np.float32)
    assert np.intp(array.base.get_device_pointer()) == array.ctypes.data
    there = driver.mem_alloc(24)
    driver.memcpy_htod(there, np.ones(6, np.float32))
    driver.memcpy_dtoh(array, there)
    assert array.tolist() == [[1] * 3] * 2


def test_memory_of_a_page_locked_array_lives_as_long_as_its_views():
    row = driver.pagelocked_zeros((2, 3), np.int32)[1]
    others = [driver.pagelocked_empty((2, 3), np.int32) for _ in range(20)]
    for other in others:
        other[...] = 9
    assert row.tolist() == [0, 0, 0]


def test_aligned_and_registered_memory_is_the_programs_own():
    array = driver.aligned_zeros((3, 2), np.int16, "F", alignment=512)
    assert (array.ctypes.data % 512, array.flags.f_contiguous, array.sum()) == (0, True, 0)
    registered = driver.register_host_memory(array, driver.mem_host_register_flags.DEVICEMAP)
    registered[...] = 4
    assert (array.min(), registered.base.get_device_pointer()) == (4, array.ctypes.data)
    assert driver.managed_zeros(2, np.int8, mem_flags=driver.mem_attach_flags.GLOBAL).tolist() == [0, 0]


def test_arrays_compute_as_numpy_does():
    a, b = np.float32([[1, -2], [3, 4]]), np.float32([[2, 2], [1, 3]])
    x, y = gpuarray.to_gpu(a), gpuarray.to_gpu(b)
    for ours, theirs in (
        *((2 * x + 1 - y / 2, 2 * a + 1 - b / 2), (-x, -a), (abs(x), abs(a)), (1 - x, 1 - a), (x**2, a**2)),
        *((x > y, a > b), (x.T, a.T), (x[:, 1], a[:, 1]), (x.ravel(), a.ravel())),
        *((gpuarray.sum(x), a.sum()), (gpuarray.max(x), a.max()), (gpuarray.min(x), a.min())),
        *((gpuarray.dot(x, y), np.vdot(a, b)), (gpuarray.maximum(x, 0), np.maximum(a, 0))),
        *((x.astype(np.int8), a.astype(np.int8)), (x.view(np.int32), a.view(np.int32))),
    ):
        np.testing.assert_array_equal(ours.get(), theirs)
        assert (ours.shape, ours.dtype) == (np.shape(theirs), np.asarray(theirs).dtype)


def test_slices_share_the_memory_of_their_array():
    x = gpuarray.zeros((2, 3), np.int32)
    row, column = x[1], x[:, 0]
    row.fill(5)
    column.set(np.int32([7, 8]))
    x += 1
    assert (x.get().tolist(), row.ptr - x.ptr) == ([[8, 1, 1], [9, 6, 6]], 12)
    x[0] = 0
    assert (column.get().tolist(), x.reshape(6).ptr, len(x)) == ([0, 9], x.ptr, 2)


def test_arrays_take_memory_of_pools_and_of_others():
    pool, locked = tools.DeviceMemoryPool(), tools.PageLockedMemoryPool()
    x = gpuarray.ones(4, np.float32, allocator=pool.allocate)
    other = gpuarray.GPUArray((2,), np.float32, gpudata=int(x.gpudata) + 8)
    other.fill(3)
    assert (x.get().tolist(), locked.allocate(2, np.int8).shape) == ([1, 1, 3, 3], (2,))
    none = gpuarray.empty((0, 2), np.int8).get()
    assert (gpuarray.arange(3).get().tolist(), none.shape) == ([0, 1, 2], (0, 2))
    pool.free_held()


def test_device_and_contexts_have_the_values_that_programs_print():
    device = tools.get_default_device()
    assert (device.pci_bus_id(), device.can_access_peer(device)) == ("0000:00:00.0", False)
    assert device.get_attributes()[driver.device_attribute.WARP_SIZE] == 32
    assert tools.make_default_context().get_api_version() == 12080
    assert bytes(driver.to_device(b"abc").as_buffer(2, 1)) == b"bc"


def test_memory_of_other_libraries_is_held_by_derived_classes():
    array = np.arange(3, dtype=np.int32)

    class Holder(driver.PointerHolderBase):
        def get_pointer(self):
            return array.ctypes.data

    x = gpuarray.GPUArray((3,), np.int32, gpudata=Holder())
    x += 1
    assert (int(Holder()), array.tolist()) == (array.ctypes.data, [1, 2, 3])


SCALED = """
__global__ void scaled(const float *x, float *y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
__global__ void doubled(double *x) { x[threadIdx.x] *= 2; }
"""


@needs_compiler
def test_kernels_of_a_source_module_take_arrays_memory_and_numbers():
    scaled = pycuda_compiler.SourceModule(SCALED).get_function("scaled")
    x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    there, back = gpuarray.to_gpu(x), driver.mem_alloc(x.nbytes)
    numbers = np.float32(1.5), np.int32(300)
    scaled(there, driver.Out(y), *numbers, block=(128, 1, 1), grid=(3, 1))
    scaled(driver.In(x), back, *numbers, block=(100, 1, 1), grid=(3, 1), stream=driver.Stream())
    assert np.array_equal(y, 1.5 * x)
    assert np.array_equal(driver.from_device(back, (300,), np.float32), y)
    with pytest.raises(TypeError, match="which has the type"):
        scaled(there, back, 1.5, 300, block=(1, 1, 1))
    with pytest.raises(TypeError, match=values_in_order("scaled", 4, 1)):
        scaled(there, block=(1, 1, 1))


@needs_compiler
def test_prepared_kernels_take_plain_numbers():
    module = driver.module_from_buffer(pycuda_compiler.compile(SCALED))
    scaled, x = module.get_function("scaled").prepare("PPfi"), gpuarray.to_gpu(np.ones(3, np.float32))
    y = gpuarray.zeros(3, np.float32)
    scaled.prepared_call((1, 1), (3, 1, 1), x.gpudata, y.gpudata, 2.5, 3)
    assert y.get().tolist() == [2.5] * 3
    doubled, values = module.get_function("doubled"), np.ones(2)
    doubled.prepare([np.intp]).prepared_async_call((1,), (2,), None, driver.InOut(values))
    assert values.tolist() == [2, 2]
    with pytest.raises(driver.LogicError, match="cuModuleGetFunction failed"):
        module.get_function("none")
    with pytest.raises(driver.LogicError, match="cuLaunchKernel failed"):
        doubled(driver.In(values), block=(0, 1, 1))


@needs_compiler
def test_a_text_that_is_no_kernel_says_where():
    with pytest.raises(driver.CompileError, match="kernel:2:"):
        pycuda_compiler.SourceModule("__global__ void f(int *x) {\n  x[0] = nothing;\n}")


@pytest.mark.parametrize(("home", "name"), [(driver, "module_from_file"), (pycuda_compiler, "DynamicModule")])
def test_functions_for_gpu_files_are_rejected_by_name(home, name):
    with pytest.raises(NotSupportedError, match=diagnostic("AR901", name, "GPU", "CPU")):
        getattr(home, name)(b"image")
