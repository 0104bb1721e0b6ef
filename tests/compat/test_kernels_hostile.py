"""Kernels that use too many resources, and images from unknown compilers."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from anyrt.api.plugins.functions.compiled import compiled as compiled_c
from anyrt.api.plugins.functions.source import Text
from anyrt.compat.cuda import driver, nvrtc
from anyrt.compat.kernels.module import Module, Rejected, compiled, loaded
from anyrt.core.errors import NotSupportedError, PluginError
from tests.messages import diagnostic

INVALID = driver.CUresult.CUDA_ERROR_INVALID_VALUE
pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
TEXT = 'extern "C" __global__ void k(%s *x) { %s }'
DEEP = """__device__ int deep(int n, volatile int *to) {
    volatile char room[3000];
    room[n %% 3000] = 1;
    return n ? deep(n - 1, to) + room[1] : 0;
}
extern "C" __global__ void k(int *x) { x[0] = deep(%d, x); __syncthreads(); }"""


def launched(text, x, block=1):
    """`x` after the kernel k has run."""
    place = np.array([x.ctypes.data], np.uint64)
    loaded(compiled(text)).kernel("k").launch((1, 1, 1), (block, 1, 1), [place.ctypes.data])
    return x


@pytest.mark.parametrize("elements", [17000, 100_000])
def test_a_thread_that_waits_has_large_arrays(elements):
    lines = f"float a[{elements}]; for (int i = 0; i < {elements}; i++) a[i] = i + x[0] * 0;"
    lines += "__syncthreads(); x[threadIdx.x] = a[threadIdx.x + 1000] + a[threadIdx.x];"
    x = launched(TEXT % ("float", lines), np.zeros(64, np.float32), 64)
    np.testing.assert_array_equal(x, 1000 + 2 * np.arange(64))


@pytest.mark.parametrize("wait", ["", "__syncthreads();"])
def test_a_thread_with_more_than_cuda_gives_is_rejected(wait):
    text = TEXT % (
        "float",
        f"volatile float a[140000]; for (int i = 0; i < 140000; i++) a[i] = i; {wait} x[0] = a[5];",
    )
    with pytest.raises(Rejected, match=r"frame size of 56\d+ bytes is larger than 528384 bytes"):
        compiled(text)


def test_calls_that_go_too_deep_end_in_a_signal_and_write_nowhere():
    assert launched(DEEP % 100, np.full(1, 7, np.int32)) == 1
    program = f"{Path(__file__).read_text()}\nlaunched(DEEP % 10_000_000, np.ones(1, np.int32))\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -signal.SIGSEGV


def test_images_run_on_every_machine_of_this_kind():
    text = "#ifdef __AVX__\n#define IS 1\n#else\n#define IS 0\n#endif\n" + TEXT % ("int", "x[0] = IS;")
    assert launched(text, np.full(1, 7, np.int32)) == 0


def test_an_image_that_was_changed_is_not_loaded():
    image = compiled(TEXT % ("int", "x[0] = 5;"))
    at = image.index(b"anyrt_launch_k")
    changed = image[:at] + b"ANYRT" + image[at + 5 :]
    for bad in (changed, image[:-1] + bytes([image[-1] ^ 1]), b"\x7fELF" + image):
        with pytest.raises(NotSupportedError, match=r"AR901.*a module of kernels.*nvrtc in this process"):
            Module(bad)
    assert Module(image + b"\0\0rest").kernel("k").name == "k"


def test_an_image_of_another_process_is_not_loaded(tmp_path, golden_text):
    text = TEXT % ("int", "x[0] = 6;")
    lines = f"from anyrt.compat.kernels.module import *; open('i', 'wb').write(compiled({text!r}))"
    subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, check=True)
    with pytest.raises(NotSupportedError) as caught:
        driver.cuModuleLoad(str(tmp_path / "i"))
    golden_text(caught.value)


@pytest.mark.parametrize("address", [12345, 1 << 47])
def test_an_image_at_an_address_without_memory_is_rejected(address):
    assert driver.cuModuleLoadData(address)[0] == INVALID


@pytest.mark.parametrize("which", ["all", "one"])
def test_arguments_of_a_kernel_at_an_address_without_memory_are_rejected(which):
    _, module = driver.cuModuleLoadData(compiled(TEXT % ("int", "x[0] = 5;")))
    _, kernel = driver.cuModuleGetFunction(module, b"k")
    places = np.array([12345], np.uint64)
    values = 12345 if which == "all" else places.ctypes.data
    assert driver.cuLaunchKernel(kernel, *[1] * 6, 0, 0, values) == (INVALID,)


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A compiler that starts an endless program; the file that holds the number of its process."""
    for name in ("c++", "cc"):
        (tmp_path / name).write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/number\nwait\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("ANYRT_COMPILER_SECONDS", "1")
    return tmp_path / "number"


def is_gone(file):
    state = Path(f"/proc/{file.read_text().strip()}/stat")
    for _ in range(100):
        if not state.exists() or state.read_text().split()[2] == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_compiler_that_does_not_end_is_ended(slow):
    _, program = nvrtc.nvrtcCreateProgram(TEXT % ("int", "x[0] = 9;"))
    assert nvrtc.nvrtcCompileProgram(program, 0, []) == (nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION,)
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    assert b"no answer after 1 s (ANYRT_COMPILER_SECONDS)" in log
    assert is_gone(slow)


def test_a_compiler_of_a_plugins_kernel_that_does_not_end_is_ended(slow):
    with pytest.raises(PluginError, match=diagnostic("AR822", "p: k", 1, "ANYRT_COMPILER_SECONDS")):
        compiled_c(Text("p", "k", "void k(float *x, float *y) {}", 1, 0, 1))
    assert is_gone(slow)


BITS = {
    "__float_as_int(1.5f)": 0x3FC00000,
    "__float_as_uint(-0.0f)": -(1 << 31),
    "int(__int_as_float(0x40490fdb) * 1000)": 3141,
    "int(__uint_as_float(0x3f000000u) * 8)": 4,
    "int(__double_as_longlong(2.0) >> 52)": 1024,
    "int(__longlong_as_double(0x4008000000000000ll))": 3,
    "__double2hiint(2.0)": 1 << 30,
    "int(__hiloint2double(__double2hiint(7.25), __double2loint(7.25)) * 4)": 29,
    "__half_as_ushort(__half(1.0f))": 0x3C00,
    "int(float(__ushort_as_half(0x4000)))": 2,
    "__ldg(x + 1) + __ldcg(x + 1)": 14,
    "__umulhi(1u << 31, 6u)": 3,
    "__brev(1u) == 1u << 31": 1,
    "__popcll(0xffull << 40)": 8,
    "int(__fmaf_rn(2.0f, 3.0f, 4.0f))": 10,
    "make_uchar4(1, 2, 3, 4).w + int(make_uint2(5, 6).y)": 10,
    "__float2int_rd(-1.5f)": -2,
}


@pytest.mark.parametrize("wait", ["__syncthreads();", ""], ids=["together", "alone"])
def test_bits_and_fences_are_those_of_cuda(wait):
    lines = [f"x[{k + 2}] = {text};" for k, text in enumerate(BITS)]
    fences = "__threadfence(); __threadfence_block(); __threadfence_system();"
    x = np.zeros(len(BITS) + 2, np.int32)
    x[1] = 7
    launched(TEXT % ("int", f"{fences} {wait} {' '.join(lines)}"), x)
    assert dict(zip(BITS, x[2:].tolist(), strict=True)) == BITS
