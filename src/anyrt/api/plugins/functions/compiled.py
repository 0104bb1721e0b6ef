"""Kernels from text, compiled to functions of this machine.

The parameters of a kernel are the addresses of inputs, then numbers, then the addresses of outputs. A kernel
in C that uses `blockIdx` and `threadIdx` is called for each block and thread; otherwise once. A kernel in
LLVM IR is called once. With three more i32 parameters it is called for each block, with six for each thread.

>>> text = "define void @twice(ptr %x, i32 %n, ptr %y) { store i32 %n, ptr %y ret void }"
>>> import numpy as np
>>> out = np.zeros(1, np.int32)
>>> compiled(Text("docs", "twice", text, 1, 1, 1))([0, out.ctypes.data], [1, 1, 1, 1, 1, 1, 7]); out[0]
np.int32(7)
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from anyrt.api.plugins.functions.source import Launch, Text
from anyrt.backends import loader
from anyrt.codegen.foreign import Late, Rejected, find_compiler, opened, shared_object
from anyrt.codegen.llvm import parameters
from anyrt.core.errors import CompileError, NotSupportedError, PluginError

ENTRY: Final = "anyrt_launch"
PLACES: Final = 6  # launch parameters before the kernel's own numbers: blocks and threads along three axes
_TOGETHER: Final = re.compile(r"\b(__shared__|__syncthreads|__syncwarp|__shfl\w*|atomic[A-Z]\w*)")
_IR: Final = re.compile(r"^\s*define\s[^\n]*@", re.M)


@lru_cache(256)
def compiled(text: Text) -> Launch:
    """A function that launches the kernel. Its arguments are the addresses of inputs and outputs, and the
    numbers: blocks and threads along three axes, then the kernel's own numbers."""
    if not re.fullmatch(r"[A-Za-z_]\w*", text.name):
        raise _wrong(text, f"a kernel called {text.name!r}", "the name of a function")
    if _IR.search(text.code):
        address, kept = _of_ir(text)
    else:
        address, kept = _of_c(text)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def launch(addresses: Sequence[int], numbers: Sequence[int]) -> None:
        assert kept is not None, "the code stays in memory"
        function((ctypes.c_void_p * len(addresses))(*addresses), (ctypes.c_int64 * len(numbers))(*numbers))

    return launch


def _of_ir(text: Text) -> tuple[int, object]:
    try:
        types = parameters(text.code, text.name)
        image = loader.target().named(None).compile_text(f"{text.code}\n{_ir_launch(text, types)}")
    except CompileError as error:
        raise _wrong(text, f"{error.where}: {error.got}", "LLVM IR without external calls") from error
    code = loader.device().load(image)
    return code.address(ENTRY), code


def _ir_launch(text: Text, types: Sequence[str] | None) -> str:
    """A function that calls the kernel for each block and thread."""
    count = text.inputs + text.numbers + text.outputs
    expected = ["ptr"] * text.inputs + ["int"] * text.numbers + ["ptr"] * text.outputs
    if types is None:
        raise _wrong(text, f"no function {text.name}", "a definition of the kernel")
    kinds = ["int" if re.fullmatch(r"i(8|16|32|64)", t) else t for t in types]
    extra = len(types) - count
    if kinds[:count] != expected or extra not in (0, 3, 6) or types[count:] != ("i32",) * extra:
        got = f"{text.name}({', '.join(types)})"
        raise _wrong(text, got, f"({', '.join(expected)}), and 0, 3 or 6 more i32 for block and thread")
    lines = [f"define void @{ENTRY}(ptr %a, ptr %n) {{", "entry:"]
    for k in range(PLACES):
        lines += [f"%p{k} = getelementptr i64, ptr %n, i64 {k}", f"%d{k} = load i64, ptr %p{k}"]
    arguments, pointers, numbers = [], 0, PLACES
    for k, kind in enumerate(types[:count]):
        if kind == "ptr":
            lines += [f"%q{k} = getelementptr ptr, ptr %a, i64 {pointers}", f"%v{k} = load ptr, ptr %q{k}"]
            pointers += 1
        else:
            # The lowest bytes come first in memory, so that a narrower integer lies at the same address.
            lines += [f"%q{k} = getelementptr i64, ptr %n, i64 {numbers}", f"%v{k} = load {kind}, ptr %q{k}"]
            numbers += 1
        arguments.append(f"{kind} %v{k}")
    # One loop over all blocks and threads: thread indices change fastest.
    axes = [*range(3, extra), *range(min(extra, 3))]
    lines.append("%t = add i64 1, 0")
    total = "%t"
    for k in axes:
        lines.append(f"%t{k} = mul i64 {total}, %d{k}")
        total = f"%t{k}"
    lines += ["br label %loop", "loop:", "%i = phi i64 [ 0, %entry ], [ %next, %loop ]"]
    rest = "%i"
    for k in axes:
        lines += [f"%r{k} = urem i64 {rest}, %d{k}", f"%s{k} = udiv i64 {rest}, %d{k}"]
        lines.append(f"%x{k} = trunc i64 %r{k} to i32")
        rest = f"%s{k}"
    arguments += [f"i32 %x{k}" for k in range(extra)]
    lines += [f"call void @{text.name}({', '.join(arguments)})", "%next = add i64 %i, 1"]
    lines += [f"%more = icmp ult i64 %next, {total}", "br i1 %more, label %loop, label %end"]
    return "\n".join([*lines, "end:", "ret void", "}"])


# An undeclared function is an error, not a warning.
_MISTAKES: Final = ("-Werror=implicit-function-declaration", "-Werror=incompatible-pointer-types")
_FLAGS: Final = ("-march=native", "-std=gnu11", *_MISTAKES)
_PRELUDE: Final = """#include <stdint.h>
typedef struct { int x, y, z; } anyrt_place;
static _Thread_local anyrt_place gridDim, blockDim, blockIdx, threadIdx;
#define __global__
#define __device__ static
#line 1 "kernel"
"""


def _of_c(text: Text) -> tuple[int, object]:
    together = _TOGETHER.search(text.code)
    if together:
        do = "write a kernel without barriers"
        raise NotSupportedError("AR901", text.plugin, f"{together[0]} in a kernel", "independent threads", do)
    compiler = find_compiler("cc")
    if compiler is None:
        do = "install a C compiler, or pass LLVM IR"
        raise NotSupportedError("AR901", text.plugin, "a kernel in C", "the C compiler cc on PATH", do)
    code = re.sub(r'extern\s+"C"', "", text.code)
    whole = f"{_PRELUDE}{code}\n{_c_launch(text)}"
    try:
        library = opened(shared_object(compiler, _FLAGS, "c", whole, ("-lm",)))
    except Late as late:
        raise _wrong(text, str(late), "C that compiles within the time limit") from None
    except Rejected as rejected:
        lines = str(rejected).splitlines()
        first = next((line for line in lines if "error" in line), lines[0])
        raise _wrong(text, first.strip(), "C that compiles") from None
    except OSError as error:
        raise _wrong(text, str(error).partition(": ")[2], "functions that the libraries define") from error
    return ctypes.cast(getattr(library, ENTRY), ctypes.c_void_p).value or 0, library


def _c_launch(text: Text) -> str:
    """A function that calls the kernel for each block and thread."""
    inputs = [f"a[{k}]" for k in range(text.inputs)]
    numbers = [f"n[{PLACES + k}]" for k in range(text.numbers)]
    outputs = [f"a[{text.inputs + k}]" for k in range(text.outputs)]
    call = f"{text.name}({', '.join((*inputs, *numbers, *outputs))});"
    for name, k in (("threadIdx", 3), ("blockIdx", 0)):
        if re.search(rf"\b{name}\b", text.code):
            call = (
                f"for ({name}.z = 0; {name}.z < n[{k + 2}]; {name}.z++)"
                f" for ({name}.y = 0; {name}.y < n[{k + 1}]; {name}.y++)"
                f" for ({name}.x = 0; {name}.x < n[{k}]; {name}.x++) {{ {call} }}"
            )
    sizes = "gridDim = (anyrt_place){n[0], n[1], n[2]}; blockDim = (anyrt_place){n[3], n[4], n[5]};"
    return f"void {ENTRY}(void **a, const int64_t *n) {{ {sizes} {call} }}\n"


def _wrong(text: Text, got: str, wanted: str) -> PluginError:
    return PluginError("AR822", f"{text.plugin}: {text.name}", got, wanted, "correct the kernel")
