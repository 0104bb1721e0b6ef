"""Kernels in CUDA's C++ as functions of this machine: a C++ compiler makes them, and each is called for every
block and thread, one after the other; threads that wait for each other have stacks of their own (`kernel.h`).

    image = compiled("extern \\"C\\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }")
    kernel = loaded(image).kernel("twice")
    kernel.launch((1, 1, 1), (n, 1, 1), [x.ctypes.data])

The image of a module is a shared object, which programs load as they do with code of a GPU. It runs as code
of this process, so that only what this process has compiled is loaded, no image that another one kept.
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
# What has threads wait for each other; other forms of it are not here.
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
# Kernels in a macro have the names that it makes of its arguments.
_MACRO: Final = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*__global__", re.M)
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
# For every machine of this kind, as programs keep images. A frame holds what a thread of a GPU may have, less
# than a stack of `kernel.h`.
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
        """Call it for every place; `arguments`: an address for each, where its bytes lie."""
        places = (ctypes.c_uint * 7)(*(int(n) for n in (*grid, *block, shared)))
        if self.code(places, (ctypes.c_void_p * len(arguments))(*arguments)):
            raise DeviceFault(Fault.LAUNCH_FAILED)  # threads wait for others that have ended

    def copies(self, addresses: Sequence[int]) -> list[bytes]:
        """The bytes of all arguments, which a graph keeps."""
        if any(lack(a, n, writes=False) for a, n in zip(addresses, self.sizes, strict=True)):
            raise DeviceFault(Fault.INVALID_VALUE)
        return [ctypes.string_at(a, n) for a, n in zip(addresses, self.sizes, strict=True)]


class Module:
    """What `compiled` gave, loaded."""

    def __init__(self, image: bytes) -> None:
        if _digest(image) not in _COMPILED:
            do = "compile the source with nvrtc in this process, or use NumPy or ctypes on the same memory"
            raise NotSupportedError(
                "AR901", "a module of kernels", _sort(image), "the result of nvrtc in this process", do
            )
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
    """A module of an image; the same one each time, since programs load theirs for every call."""
    return Module(image)


def compiled(code: str, options: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> bytes:
    """The image of a module with all kernels of a text, and with those that `names` make of templates, which
    are called `named_0` and on; Rejected with what the compiler says."""
    bare = _COMMENT.sub(" ", code)
    match_ = _REFUSED.search(bare)
    if match_:
        do = "use __syncthreads, __shfl_sync and similar functions, or NumPy on the same memory"
        raise NotSupportedError("AR901", "nvrtc", f"{match_[0]} in a kernel", "CUDA's plain C++", do)
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
    """A text with its macros written out; the text itself where the compiler refuses, as it will again."""
    try:
        status, said = foreign.run([compiler, "-E", "-P", *options, "-x", "c++", "-"], code)
    except Late:
        return code
    return code if status else said


def _digest(image: bytes) -> bytes:
    """Of an image without what programs have behind it, or with the zeros at its end that they lack."""
    size = _size(image)
    return hashlib.sha256(image[:size].ljust(size, b"\0") if size <= MOST else image).digest()


def _size(head: bytes) -> int:
    """How long an image is, as its header says."""
    if head[:4] != b"\x7fELF" or len(head) < HEAD:
        return len(head)
    (sections,) = struct.unpack_from("<Q", head, 40)
    size, count = struct.unpack_from("<HH", head, 58)
    return int(sections + size * count)


def _sort(image: bytes) -> str:
    if LAUNCH.encode() in image:
        return "what another process compiled"
    return "machine code of a GPU" if image[:4] == b"\x7fELF" else "code of another compiler"


def _kept(options: Sequence[str]) -> list[str]:
    """The options that mean the same here: definitions, and folders of headers."""
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
    """The image that lies at an address; its header says how long it is."""
    if lack(address, HEAD, writes=False):
        raise DeviceFault(Fault.INVALID_VALUE)
    head = ctypes.string_at(address, HEAD)
    size = min(_size(head), MOST)
    if head[:4] != b"\x7fELF" or lack(address, size, writes=False):
        return head[:4]
    return ctypes.string_at(address, size)


def laid_out(values: Sequence[object]) -> list[np.ndarray]:
    """Arguments of Python as a kernel takes them: addresses of arrays, and numbers by their types."""
    return [np.array(_plain(v)) for v in values]


def _plain(value: object) -> object:
    if isinstance(value, np.generic | bool | float):
        return value
    if isinstance(value, np.ndarray):
        return np.uint64(value.ctypes.data)
    number = int(cast("SupportsInt", value))
    return np.int64(number) if number < 1 << 63 else np.uint64(number)
