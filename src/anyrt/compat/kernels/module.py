"""CUDA C++ kernels as host functions. A C++ compiler compiles them, and each is called for every block and
thread in sequence; threads that wait for each other have their own stacks (`kernel.h`).

    image = compiled("extern \\"C\\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }")
    kernel = loaded(image).kernel("twice")
    kernel.launch((1, 1, 1), (n, 1, 1), [x.ctypes.data])

The image of a module is a shared object, which programs load like GPU code. It runs in this process with all
its rights, so only images that this process compiled are loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Final, SupportsInt, cast

import numpy as np

from anyrt.codegen import foreign
from anyrt.codegen.foreign import Late, Rejected
from anyrt.compat.host.device import DeviceFault, Fault
from anyrt.core.errors import NotSupportedError
from anyrt.runtime.reach import lack

HEADER: Final = Path(__file__).with_name("kernel.h")
LAUNCH: Final = "anyrt_launch_"
HEAD: Final = 64  # bytes of the header of an image
MOST: Final = 1 << 30
# Functions that synchronise threads; other forms are not supported.
_TOGETHER: Final = re.compile(
    r"\b(__syncthreads|__syncwarp|__(?:shfl|shfl_up|shfl_down|shfl_xor|ballot|any|all)_sync)\b"
)
_REFUSED: Final = re.compile(
    r"\b(__syncthreads_\w+|__(?:shfl|shfl_up|shfl_down|shfl_xor|ballot|any|all)|__reduce_\w+|__match_\w+|__activemask|cooperative_groups|wmma"
    r"|asm|texture)\b"
)
_ROOM: Final = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\([^)]*\)\s*)?([\w:<>\s]+?)\s+(\w+)\s*\[\s*\]\s*;"
)
_KERNEL: Final = re.compile(
    r"(template\s*<[^>]*>\s*)?(?:extern\s*\"C\"\s*)?__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?"
    r"void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\("
)
_CUDA_HEADER: Final = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"](cuda\w*|device_\w+|math_constants)\.h(pp)?[>\"]", re.M
)
# The name of a kernel in a macro may depend on the arguments of the macro.
_MACRO: Final = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*__global__", re.M)
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
# No flags for one processor, since programs keep images. A frame may have the local memory of a GPU thread,
# which is less than a stack of `kernel.h`.
FRAME: Final = 516 << 10
_FLAGS: Final = ("-std=c++17", "-fno-math-errno", f"-Werror=frame-larger-than={FRAME}")
_COMPILED: Final[set[bytes]] = set()  # digests of images


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that can be launched; `sizes`: the bytes of each argument."""

    name: str
    module: Module
    sizes: tuple[int, ...]
    code: Callable[..., int]

    def launch(
        self, grid: Sequence[int], block: Sequence[int], arguments: Sequence[int], shared: int = 0
    ) -> None:
        """Execute the kernel for all threads; `arguments`: the address of the bytes of each argument."""
        places = (ctypes.c_uint * 7)(*(int(n) for n in (*grid, *block, shared)))
        if self.code(places, (ctypes.c_void_p * len(arguments))(*arguments)):
            raise DeviceFault(Fault.LAUNCH_FAILED)  # a thread waits for threads that have returned

    def copies(self, addresses: Sequence[int]) -> list[bytes]:
        """A copy of the bytes of all arguments, for a graph."""
        if any(lack(a, n, writes=False) for a, n in zip(addresses, self.sizes, strict=True)):
            raise DeviceFault(Fault.INVALID_VALUE)
        return [ctypes.string_at(a, n) for a, n in zip(addresses, self.sizes, strict=True)]


class Module:
    """A loaded image of `compiled`."""

    def __init__(self, image: bytes) -> None:
        if _digest(image) not in _COMPILED:
            do = "compile the source with nvrtc in this process, or use NumPy or ctypes on the same memory"
            raise NotSupportedError("AR901", "a module of kernels", _sort(image), "an image of nvrtc", do)
        self.library = foreign.opened(image)
        self._kernels: dict[str, Kernel] = {}

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name."""
        if name not in self._kernels:
            self._kernels[name] = self._load(name)
        return self._kernels[name]

    def _load(self, name: str) -> Kernel:
        try:
            code, sizes = getattr(self.library, LAUNCH + name), getattr(self.library, f"anyrt_sizes_{name}")
        except AttributeError:
            raise DeviceFault(Fault.INVALID_VALUE) from None
        sizes.restype = ctypes.POINTER(ctypes.c_int64)
        return Kernel(name, self, tuple(takewhile(bool, sizes())), code)


@lru_cache(256)
def loaded(image: bytes) -> Module:
    """Load an image; the result is cached, since programs load their image for every call."""
    return Module(image)


def compiled(code: str, options: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> bytes:
    """Compile a source and return the image, with all its kernels and the template instances of `names`,
    which are called `named_0`, `named_1` …; raises Rejected with the errors of the compiler."""
    bare = _COMMENT.sub(" ", code)
    match_ = _REFUSED.search(bare)
    if match_:
        do = "use __syncthreads, __shfl_sync and similar functions, or NumPy on the same memory"
        raise NotSupportedError("AR901", "nvrtc", f"{match_[0]} in a kernel", "a supported function", do)
    compiler = foreign.find_compiler("c++", "g++", "clang++")
    if compiler is None:
        do = "install a C++ compiler, or use NumPy or ctypes on the same memory"
        raise NotSupportedError("AR901", "nvrtc", "a kernel in C++", "the C++ compiler c++ on PATH", do)
    plain = _CUDA_HEADER.sub("", code)
    seen = _expanded(compiler, plain, _kept(options)) if _MACRO.search(bare) else bare
    kernels = [name for template, name in _KERNEL.findall(seen) if not template]
    offers = [f"ANYRT_KERNEL({name}, {name})" for name in kernels]
    offers += [f"ANYRT_KERNEL(named_{k}, {name})" for k, name in enumerate(names)]
    plain = _ROOM.sub(r"\1 *\2 = anyrt_shared<\1>();", plain)
    text = "\n".join(['#line 1 "kernel"', plain, *offers, ""])
    together = ("-DANYRT_TOGETHER",) if _TOGETHER.search(bare) else ()
    flags = (*_FLAGS, *together, *_kept(options), "-include", str(HEADER))
    try:
        image = foreign.shared_object(compiler, flags, "c++", text)
    except Late as late:
        raise Rejected(str(late)) from None
    _COMPILED.add(_digest(image))
    return image


def _expanded(compiler: str, code: str, options: Sequence[str]) -> str:
    """A source with its macros expanded; unchanged if the preprocessor fails, since the compiler will,
    too."""
    try:
        status, said = foreign.run([compiler, "-E", "-P", *options, "-x", "c++", "-"], code)
    except Late:
        return code
    return code if status else said


def _digest(image: bytes) -> bytes:
    """The digest of an image, independent of extra bytes and of missing zeros at its end."""
    size = _size(image)
    return hashlib.sha256(image[:size].ljust(size, b"\0") if size <= MOST else image).digest()


def _size(head: bytes) -> int:
    """The size of an image, from its header."""
    if head[:4] != b"\x7fELF" or len(head) < HEAD:
        return len(head)
    (sections,) = struct.unpack_from("<Q", head, 40)
    size, count = struct.unpack_from("<HH", head, 58)
    return int(sections + size * count)


def _sort(image: bytes) -> str:
    if LAUNCH.encode() in image:
        return "an image that another process compiled"
    return "GPU machine code" if image[:4] == b"\x7fELF" else "code of another compiler"


def _kept(options: Sequence[str]) -> list[str]:
    """The options that the host compiler understands: macros and include folders."""
    long = {"--define-macro": "-D", "--include-path": "-I"}
    kept, rest = [], iter(options)
    for option in rest:
        name, _, value = option.partition("=")
        if name in long:
            kept.append(long[name] + (value or next(rest, "")))
        elif option.startswith(("-D", "-I")):
            kept.append(option if len(option) > 2 else option + next(rest, ""))
    return kept


def image_at(address: int) -> bytes:
    """The image at an address; its header has its size."""
    if lack(address, HEAD, writes=False):
        raise DeviceFault(Fault.INVALID_VALUE)
    head = ctypes.string_at(address, HEAD)
    size = min(_size(head), MOST)
    if head[:4] != b"\x7fELF" or lack(address, size, writes=False):
        return head[:4]
    return ctypes.string_at(address, size)


def laid_out(values: Sequence[object]) -> list[np.ndarray]:
    """Python arguments as bytes for a kernel: addresses of arrays, and numbers by their types."""
    return [np.array(_plain(v)) for v in values]


def _plain(value: object) -> object:
    if isinstance(value, np.generic | bool | float):
        return value
    if isinstance(value, np.ndarray):
        return np.uint64(value.ctypes.data)
    number = int(cast("SupportsInt", value))
    return np.int64(number) if number < 1 << 63 else np.uint64(number)
