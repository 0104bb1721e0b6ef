"""Libraries that programs load with ctypes: identified by the last part of their path, called as C
functions."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import anyrt
from anyrt.compat.ctypes import libraries

EXAMPLE = Path(__file__).parents[2] / "examples/scaled.c"
HEADERS = Path(anyrt.__file__).parent / "plugin"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler, cc")


@pytest.fixture
def load():
    libraries.offer()
    yield ctypes.CDLL
    # Python cannot restore a class without __new__: after one is deleted, the class accepts no arguments.
    ctypes.CDLL.__new__ = staticmethod(lambda kind, *_, **__: object.__new__(kind))
    ctypes.CDLL.__init__ = libraries._OPEN


@pytest.mark.parametrize("path", ["libcudart.so", "/opt/cuda/lib64/libcudart.so.12", "libcudart.so.11.0"])
def test_bytes_go_to_the_device_and_back(load, path):
    cudart, pointer = ctypes.cdll.LoadLibrary(path), ctypes.c_void_p()
    there, back = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    size = ctypes.c_size_t(24)
    codes = [
        cudart.cudaMalloc(ctypes.byref(pointer), size),
        cudart.cudaMemcpyAsync(pointer, there.ctypes.data_as(ctypes.c_void_p), size, 1, None),
        cudart.cudaMemcpy(ctypes.c_void_p(back.ctypes.data), pointer, size, ctypes.c_int(2)),
        cudart.cudaFree(pointer),
    ]
    assert (codes, back.tolist()) == ([0, 0, 0, 0], [0, 1, 2, 3, 4, 5])
    assert cudart.cudaFree(pointer) == 1
    assert isinstance(cudart, ctypes.CDLL)


def test_streams_events_and_numbers_go_where_addresses_say(load):
    cudart = load("libcudart.so")
    stream, first, last, ms = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float(-1)
    free, total, count = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
    codes = [cudart.cudaStreamCreate(ctypes.byref(stream)), cudart.cudaStreamSynchronize(stream)]
    for event in (first, last):
        codes += [cudart.cudaEventCreate(ctypes.byref(event)), cudart.cudaEventRecord(event, stream)]
    codes += [cudart.cudaEventElapsedTime(ctypes.byref(ms), first, last)]
    codes += [cudart.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))]
    codes += [cudart.cudaGetDeviceCount(ctypes.byref(count)), cudart.cudaStreamDestroy(stream)]
    assert set(codes) == {0}
    assert (ms.value >= 0, 0 < free.value <= total.value, count.value) == (True, True, 1)


def test_null_as_a_place_for_results_is_a_code(load):
    cudart = load("libcudart.so")
    assert cudart.cudaMalloc(None, ctypes.c_size_t(8)) == 1
    assert cudart.cudaStreamDestroy(ctypes.c_void_p(12345)) == 400


def test_texts_of_codes_are_c_strings(load):
    name = load("libcudart.so").cudaGetErrorString
    name.restype = ctypes.c_char_p
    assert (name(1), name(12345)) == (b"invalid value", b"unrecognized error code")


def test_tensorrts_own_libraries_report_their_version_and_start_plugins(load):
    plugins = load("/usr/lib/libnvinfer_plugin.so.10", mode=ctypes.RTLD_GLOBAL)
    assert plugins.initLibNvInferPlugins(None, b"") is True
    major, minor, patch = (int(n) for n in anyrt.__version__.split("."))
    number = major * 10000 + minor * 100 + patch
    assert load("libnvinfer.so").getInferLibVersion() == number
    assert load("libnvonnxparser.so.10").getNvOnnxParserVersion() == number
    assert load("libnvinfer.so.10").getInferLibMajorVersion() == major


def test_the_driver_is_called_by_names_of_either_version(load):
    cuda, (name, text) = (
        load("/usr/lib/libcuda.so.1"),
        (ctypes.create_string_buffer(b"-" * 9), ctypes.c_char_p()),
    )
    context, memory, back = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(3)
    major, minor = ctypes.c_int(), ctypes.c_int()
    codes = [
        cuda.cuInit(0),
        cuda.cuDeviceGetName(name, 6, 0),
        cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
    ]
    codes += [cuda.cuMemAlloc_v2(ctypes.byref(memory), 2), cuda.cuMemcpyHtoD(memory, b"ab", 2)]
    codes += [cuda.cuMemcpyDtoH_v2(back, memory, 2), cuda.cuMemFree(memory)]
    codes += [cuda.cuDeviceComputeCapability(ctypes.byref(major), ctypes.byref(minor), 0)]
    codes += [cuda.cuGetErrorName(cuda.cuMemFree(memory), ctypes.byref(text))]
    assert (set(codes), name.raw, back.value) == ({0}, b"AnyRT\0---\0", b"ab")
    assert (major.value, minor.value, text.value) == (8, 0, b"CUDA_ERROR_INVALID_VALUE")
    assert cuda.cuGetErrorString(12345, ctypes.byref(text)) == 1


def test_missing_function_is_named_and_other_libraries_are_loaded(load):
    with pytest.raises(AttributeError, match=r"libcudart\.so\.12: undefined symbol: cudaNothing"):
        load("libcudart.so.12").cudaNothing  # noqa: B018 - looking it up is what fails
    assert load("libm.so.6").abs(-3) == 3
    assert load("libcuda.so.1").cuInit.__name__ == "cuInit"
    with pytest.raises(OSError, match="libmissing"):
        load("libmissing.so")


def compiled(folder, *words):
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{HEADERS}", *words], cwd=folder, check=True)


@needs_cc
def test_plugins_of_a_library_are_registered_as_it_is_loaded(load, tmp_path):
    compiled(tmp_path, str(EXAMPLE), "-o", "libscaled.so")
    registry = anyrt.get_plugin_registry()
    assert registry.get_creator("Scaled", "1", "example") is None
    for _ in range(2):
        load(str(tmp_path / "libscaled.so"), winmode=0)
    assert registry.get_creator("Scaled", "1", "example").name == "Scaled"
    registry.deregister_library(registry._libraries[-1])


@needs_cc
def test_a_library_that_needs_tensorrt_says_what_to_do(load, tmp_path):
    (tmp_path / "none.c").write_text("")
    compiled(tmp_path, "none.c", "-o", "libnvinfer.so.10", "-Wl,-soname,libnvinfer.so.10")
    compiled(tmp_path, "none.c", "-Wl,--no-as-needed", "libnvinfer.so.10", "-o", "libmine.so")
    (tmp_path / "libnvinfer.so.10").unlink()
    with pytest.raises(OSError, match=r"libmine\.so: libnvinfer\.so\.10: .*export its plug-ins with anyrt_"):
        load(str(tmp_path / "libmine.so"))
