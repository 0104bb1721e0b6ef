"""Kernels in CUDA C++, compiled by nvrtc's stand-in and run in host memory."""

import ctypes
import shutil

import numpy as np
import pytest

from anyrt.compat.cuda import driver, nvrtc
from anyrt.compat.kernels.module import compiled, loaded
from anyrt.core.errors import NotSupportedError
from tests.messages import diagnostic

RESULT, GOOD = nvrtc.nvrtcResult, driver.CUresult.CUDA_SUCCESS
RNG = np.random.default_rng(0)
SCALE = r"""
#include <cuda_fp16.h>
#ifndef FACTOR
#define FACTOR 2
#endif
// __syncthreads() in words is none
__device__ float times(float x) { return FACTOR * x; }
extern "C" __global__ void scale(const float *x, float *y, int n, double shift) {
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < n; i += gridDim.x * blockDim.x) y[i] = times(x[i]) + shift;
}
extern "C" __global__ void narrow(const float *x, half *y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void widen(const __half *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void places(int *seen) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    atomicAdd(seen + block * blockDim.x * blockDim.y * blockDim.z + thread, 1);
}
extern "C" __global__ void nothing() {}
template <typename T> __global__ void fill(T *x, T value) { x[threadIdx.x] = value; }
"""
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


def module(text=SCALE, options=(), names=()):
    """A module compiled from a text, and its program."""
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"test.cu", 0, [], [])
    for name in names:
        assert nvrtc.nvrtcAddNameExpression(program, name) == (RESULT.NVRTC_SUCCESS,)
    assert nvrtc.nvrtcCompileProgram(program, len(options), options) == (RESULT.NVRTC_SUCCESS,)
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    image = b" " * size
    assert nvrtc.nvrtcGetCUBIN(program, image) == (RESULT.NVRTC_SUCCESS,)
    return driver.cuModuleLoadData(np.char.array(image))[1], program


def launch(kernel, grid, block, *arguments, stream=0):
    """Launch with addresses of arrays and NumPy numbers, packed as programs do."""
    held = [np.asarray(x.ctypes.data if np.ndim(x) else x) for x in arguments]
    places = np.array([x.ctypes.data for x in held], np.uint64)
    return driver.cuLaunchKernel(kernel, *grid, *block, 0, stream, places, 0)


@needs_compiler
@pytest.mark.parametrize("n", [1, 255, 257, 3000])
def test_a_kernel_runs_for_every_thread_of_every_block(n):
    _, kernel = driver.cuModuleGetFunction(module()[0], b"scale")
    x, y = RNG.standard_normal(n).astype(np.float32), np.zeros(n + 1, np.float32)
    assert launch(kernel, (3, 1, 1), (256, 1, 1), x, y, np.int32(n), np.float64(0.5)) == (GOOD,)
    assert np.array_equal(y, [*(2 * x + np.float32(0.5)), 0])


@needs_compiler
def test_each_place_is_visited_once():
    _, kernel = driver.cuModuleGetFunction(module()[0], b"places")
    seen = np.zeros(2 * 3 * 2 * 5 * 2 * 3, np.int32)
    assert launch(kernel, (2, 3, 2), (5, 2, 3), seen, stream=np.array([0], np.uint64)) == (GOOD,)
    assert (seen == 1).all()
    assert driver.cuLaunchKernel(
        driver.cuModuleGetFunction(module()[0], b"nothing")[1], *[1] * 6, 0, 0, 0
    ) == (GOOD,)


@needs_compiler
def test_halves_are_rounded_as_numpy_rounds_them():
    loaded, every = module()[0], np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    (_, widen), (_, narrow) = (driver.cuModuleGetFunction(loaded, n) for n in (b"widen", b"narrow"))
    wide, back = np.empty(1 << 16, np.float32), np.empty(1 << 16, np.float16)
    assert launch(widen, (1, 1, 1), (1 << 16, 1, 1), every, wide) == (GOOD,)
    assert np.array_equal(wide, every.astype(np.float32), equal_nan=True)
    bits = np.concatenate(
        [RNG.integers(0, 1 << 32, (1 << 16) - 4, np.uint32), [0x477FF000, 0x33000000, 1, 0x33000001]]
    )
    x = bits.astype(np.uint32).view(np.float32)
    assert launch(narrow, (1, 1, 1), (1 << 16, 1, 1), x, back) == (GOOD,)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        assert np.array_equal(back, x.astype(np.float16), equal_nan=True)


@needs_compiler
def test_arguments_come_with_their_types_and_options_define_names():
    loaded, x, y = (
        module(options=[b"-DFACTOR=3", b"--gpu-architecture=sm_80"])[0],
        np.ones(2, "f4"),
        np.zeros(2, "f4"),
    )
    _, kernel = driver.cuModuleGetFunction(loaded, b"scale")
    values = (driver.CUdeviceptr(x.ctypes.data), y.ctypes.data, 2, 0.25)
    kinds = (None, ctypes.c_void_p, ctypes.c_int, ctypes.c_double)
    assert driver.cuLaunchKernel(kernel, *[1] * 6, 0, driver.CUstream(0), (values, kinds), 0) == (GOOD,)
    assert y.tolist() == [3.25, 3.25]
    few = (values[:2], kinds[:2])
    assert driver.cuLaunchKernel(kernel, *[1] * 6, 0, 0, few)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE


@needs_compiler
def test_templates_are_made_by_expressions():
    loaded, program = module(names=[b"fill<double>"])
    assert nvrtc.nvrtcGetLoweredName(program, b"fill<int>")[0] is RESULT.NVRTC_ERROR_INVALID_INPUT
    _, kernel = driver.cuModuleGetFunction(loaded, nvrtc.nvrtcGetLoweredName(program, b"fill<double>")[1])
    x = np.zeros(3)
    assert launch(kernel, (1, 1, 1), (3, 1, 1), x, np.float64(1.5)) == (GOOD,)
    assert x.tolist() == [1.5] * 3


MACROS = r"""
#define KERNEL(name, type, by) \
    extern "C" __global__ void name##_##type(type *x) { x[threadIdx.x] *= by; }
KERNEL(scale, float, 2)
KERNEL(scale, int, FACTOR)
#define WHOLE(name) extern "C" __global__ void name(int *x)
WHOLE(negate) { x[threadIdx.x] = -x[threadIdx.x]; }
"""


@needs_compiler
def test_kernels_whose_names_a_macro_makes_are_found():
    image, x = loaded(compiled(MACROS, ("-DFACTOR=3",))), np.arange(4, dtype=np.int32)
    at = np.array([x.ctypes.data])
    for name in ("scale_int", "negate"):
        image.kernel(name).launch((1, 1, 1), (4, 1, 1), [at.ctypes.data])
    assert x.tolist() == [0, -3, -6, -9]
    assert image.kernel("scale_float").sizes == (8,)


@needs_compiler
def test_a_captured_kernel_runs_with_the_graph_and_its_arguments_then():
    _, kernel = driver.cuModuleGetFunction(module()[0], b"scale")
    _, stream = driver.cuStreamCreate(0)
    x, y, n = np.ones(2, np.float32), np.zeros(2, np.float32), np.array(2, np.int32)
    driver.cuStreamBeginCapture(stream, 0)
    assert launch(kernel, (1, 1, 1), (1, 1, 1), x, y, n, np.float64(1), stream=stream) == (GOOD,)
    n[...] = 0
    _, graph = driver.cuStreamEndCapture(stream)
    assert y.tolist() == [0, 0]
    driver.cuGraphLaunch(driver.cuGraphInstantiate(graph, 0)[1], stream)
    assert y.tolist() == [3, 3]


@needs_compiler
def test_the_log_reports_errors_of_a_kernel_by_line():
    _, program = nvrtc.nvrtcCreateProgram('\nextern "C" __global__ void f(int *x) { x[0] = y; }', "f.cu")
    assert nvrtc.nvrtcGetCUBINSize(program)[0] is RESULT.NVRTC_ERROR_INVALID_PROGRAM
    assert nvrtc.nvrtcCompileProgram(program, 0, []) == (RESULT.NVRTC_ERROR_COMPILATION,)
    log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    assert nvrtc.nvrtcGetProgramLog(program, log) == (RESULT.NVRTC_SUCCESS,)
    assert b"kernel:2:" in log
    assert nvrtc.nvrtcDestroyProgram(program) == (RESULT.NVRTC_SUCCESS,)
    assert nvrtc.nvrtcDestroyProgram(program) == (RESULT.NVRTC_ERROR_INVALID_PROGRAM,)


@needs_compiler
def test_a_module_that_is_loaded_again_takes_no_more_memory():
    numbers = {int(driver.cuModuleGetFunction(module()[0], b"nothing")[1]) for _ in range(3)}
    assert len(numbers) == 1


@needs_compiler
def test_headers_and_images_in_memory_are_taken():
    text, header = b'#include "two.h"\nextern "C" __global__ void f(int *x) { *x = TWO; }', b"#define TWO 2"
    _, program = nvrtc.nvrtcCreateProgram(text, b"f.cu", 1, [header], [b"two.h"])
    nvrtc.nvrtcCompileProgram(program, 0, [])
    image = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, image)
    _, loaded = driver.cuModuleLoadDataEx(np.frombuffer(image, np.uint8).ctypes.data, 0, [], [])
    x = np.zeros(1, np.int32)
    assert launch(driver.cuModuleGetFunction(loaded, b"f")[1], (1, 1, 1), (1, 1, 1), x) == (GOOD,)
    assert x[0] == 2
    assert driver.cuModuleUnload(loaded) == (GOOD,)
    assert driver.cuModuleGetFunction(loaded, b"f")[0] == driver.CUresult.CUDA_ERROR_INVALID_HANDLE


@needs_compiler
def test_images_of_files_and_libraries_give_kernels(tmp_path):
    name, seen = str(tmp_path / "k.cubin").encode(), np.zeros(4, np.int32)
    (tmp_path / "k.cubin").write_bytes(compiled(SCALE))
    _, loaded = driver.cuModuleLoad(name)
    libraries = [driver.cuLibraryLoadData(compiled(SCALE), [])[1], driver.cuLibraryLoadFromFile(name)[1]]
    kernels = [driver.cuLibraryGetKernel(x, b"places")[1] for x in libraries]
    functions = [kernels[0], driver.cuKernelGetFunction(kernels[1])[1]]
    for f in (*functions, driver.cuModuleGetFunction(loaded, b"places")[1]):
        assert launch(f, (2, 1, 1), (2, 1, 1), seen) == (GOOD,)
    assert seen.tolist() == [3] * 4
    assert driver.cuLibraryUnload(libraries[0]) == (GOOD,)
    assert driver.cuModuleLoad(b"no such file")[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE


@needs_compiler
def test_limits_of_kernels_are_reported_and_need_not_be_raised():
    kind, (_, f) = driver.CUfunction_attribute, driver.cuModuleGetFunction(module()[0], b"nothing")
    room = kind.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert driver.cuFuncSetAttribute(f, room, 1 << 20) == driver.cuFuncSetCacheConfig(f, 0) == (GOOD,)
    assert driver.cuFuncGetAttribute(kind.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f) == (GOOD, 1024)
    assert driver.cuFuncGetAttribute(room, driver.CUfunction(5))[1] is None


@needs_compiler
def test_missing_functions_and_invalid_launches_have_codes():
    wrong = driver.CUresult.CUDA_ERROR_INVALID_VALUE
    loaded = module()[0]
    assert driver.cuModuleGetFunction(loaded, b"other") == (wrong, None)
    _, kernel = driver.cuModuleGetFunction(loaded, b"nothing")
    assert driver.cuLaunchKernel(kernel, 0, 1, 1, 1, 1, 1, 0, 0, 0) == (wrong,)
    assert driver.cuLaunchKernel(driver.CUfunction(3), *[1] * 6, 0, 0, 0) == (
        driver.CUresult.CUDA_ERROR_INVALID_HANDLE,
    )
    assert driver.cuModuleLoadData(0) == (wrong, None)
    _, scale = driver.cuModuleGetFunction(loaded, b"scale")
    assert driver.cuLaunchKernel(scale, *[1] * 6, 0, 0, 0) == (wrong,)


@pytest.mark.parametrize("image", [b"\x7fELF" + bytes(60), b".version 8.0\n.target sm_80"])
def test_machine_code_of_gpus_is_rejected(image):
    with pytest.raises(NotSupportedError, match=r"AR901.*a module of kernels.*nvrtc"):
        driver.cuModuleLoadData(image)


TOGETHER = r"""
#define TILE 8
extern "C" __global__ void product(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
extern "C" __global__ void total(const int *x, long long *sums, int n) {
    extern __shared__ __align__(16) long long parts[];
    long long sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffff, sum, by);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
extern "C" __global__ void lanes(int *y) {
    int lane = threadIdx.x % 32, half = lane < 16 ? 0xffff : 0xffff0000;
    y[threadIdx.x * 5] = __shfl_sync(~0u, lane, 3);
    y[threadIdx.x * 5 + 1] = __shfl_up_sync(~0u, lane, 2, 16);
    y[threadIdx.x * 5 + 2] = lane < 16 ? __shfl_xor_sync(half, lane, 1) : -1;
    y[threadIdx.x * 5 + 3] = __ballot_sync(~0u, lane % 5 == 0);
    y[threadIdx.x * 5 + 4] = __any_sync(half, lane == 3) + 2 * __all_sync(half, lane > 15);
}
extern "C" __global__ void apart(int *x) {
    if (threadIdx.x < 8) __syncthreads();
    else __syncwarp();
    *x = 1;
}
"""


@needs_compiler
@pytest.mark.parametrize("n", [8, 40])
def test_threads_that_share_tiles_wait_for_each_other(n):
    _, kernel = driver.cuModuleGetFunction(module(TOGETHER)[0], b"product")
    a, b = RNG.integers(-9, 9, (2, n, n)).astype(np.float32)
    c = np.zeros((n, n), np.float32)
    assert launch(kernel, (n // 8, n // 8, 1), (8, 8, 1), a, b, c, np.int32(n)) == (GOOD,)
    assert np.array_equal(c, a @ b)


@needs_compiler
@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_sums_over_lanes_and_warps_are_those_of_numpy(threads):
    _, kernel = driver.cuModuleGetFunction(module(TOGETHER)[0], b"total")
    x, sums = RNG.integers(-(1 << 30), 1 << 30, (3, 5000), np.int32), np.zeros(3, np.int64)
    held = [np.asarray(v) for v in (x.ctypes.data, sums.ctypes.data, np.int32(5000))]
    places = np.array([v.ctypes.data for v in held], np.uint64)
    assert driver.cuLaunchKernel(kernel, 3, 1, 1, threads, 1, 1, 8 * threads // 32, 0, places, 0) == (GOOD,)
    assert np.array_equal(sums, x.sum(1, dtype=np.int64))


@needs_compiler
def test_lanes_exchange_values():
    _, kernel = driver.cuModuleGetFunction(module(TOGETHER)[0], b"lanes")
    y, lane = np.zeros((64, 5), np.int32), np.arange(64) % 32
    assert launch(kernel, (1, 1, 1), (64, 1, 1), y) == (GOOD,)
    up = np.where(lane % 16 < 2, lane, lane - 2)
    fifths = sum(1 << k for k in range(0, 32, 5))
    reported = np.where(lane < 16, 1, 2)
    want = [np.full(64, 3), up, np.where(lane < 16, lane ^ 1, -1), np.full(64, fifths), reported]
    assert np.array_equal(y.T, want)


@needs_compiler
def test_threads_that_never_meet_fail_the_launch_and_the_next_works():
    loaded, x = module(TOGETHER)[0], np.zeros(1, np.int32)
    _, kernel = driver.cuModuleGetFunction(loaded, b"apart")
    assert launch(kernel, (1, 1, 1), (16, 1, 1), x) == (driver.CUresult.CUDA_ERROR_LAUNCH_FAILED,)
    assert launch(kernel, (1, 1, 1), (8, 1, 1), x) == (GOOD,)
    assert x[0] == 1


@pytest.mark.parametrize("name", ["__shfl_down", "__activemask", "__syncthreads_count", "cooperative_groups"])
def test_features_without_meaning_on_the_host_are_rejected_by_name(name):
    with pytest.raises(NotSupportedError, match=diagnostic("AR901", "nvrtc", name)):
        compiled(f"__global__ void f() {{ {name}(1); }}")


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotSupportedError, match=r"AR901.*nvrtc.*c\+\+ on PATH"):
        compiled("__global__ void g() {}")
