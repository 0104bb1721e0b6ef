"""CUDA's runtime and driver by ctypes, as small scripts load them."""

import ctypes
import ctypes.util

import numpy as np


def load():
    for name in ("libcudart.so", "libcudart.so.12", "libcudart.so.11.0"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return None


lib = load()
lib.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
lib.cudaMalloc.restype = ctypes.c_int
lib.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
lib.cudaGetErrorString.restype = ctypes.c_char_p


def check(c):
    if c:
        raise RuntimeError(lib.cudaGetErrorString(c).decode())


cu = ctypes.CDLL("libcuda.so.1")
n = ctypes.c_int()
assert cu.cuInit(0) == 0
assert cu.cuDeviceGetCount(ctypes.byref(n)) == 0
assert n.value >= 1
name = ctypes.create_string_buffer(100)
dev = ctypes.c_int()
assert cu.cuDeviceGet(ctypes.byref(dev), 0) == 0
assert cu.cuDeviceGetName(name, 100, dev) == 0
print(name.value)
cc = ctypes.c_int()
assert cu.cuDeviceGetAttribute(ctypes.byref(cc), 75, dev) == 0
print(cc.value)
p = ctypes.c_void_p()
a = np.arange(10, dtype=np.float32)
b = np.zeros_like(a)
check(lib.cudaMalloc(ctypes.byref(p), a.nbytes))
check(lib.cudaMemcpy(p, a.ctypes.data, a.nbytes, 1))
check(lib.cudaMemcpy(b.ctypes.data, p, a.nbytes, 2))
assert (a == b).all()
assert lib.cudaFree(p) == 0
try:
    check(lib.cudaFree(ctypes.c_void_p(1234)))
    raise SystemExit("no error")
except RuntimeError as e:
    print(e)
nv = ctypes.CDLL("libnvinfer.so.10")
print(nv.getInferLibVersion())
print("PASSED")
