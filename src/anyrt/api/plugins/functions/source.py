"""Texts of kernels, and the check that this machine can compile them.

>>> source("docs", b"void f(float *x) {}")
'void f(float *x) {}'
>>> source("docs", ".version 8.0")  # doctest: +ELLIPSIS
Traceback (most recent call last):
anyrt.core.errors.NotSupportedError: [AR901] docs: got PTX, wanted a kernel for the CPU; ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from anyrt.core.errors import NotSupportedError

Launch = Callable[[Sequence[int], Sequence[int]], None]

_BINARIES: Final = {
    b"\x7fELF": "a binary of a GPU (cubin)",
    b"\x50\xed\x55\xba": "a binary of a GPU (fatbin)",
    b"BC\xc0\xde": "LLVM bitcode",
}
_OTHER_TARGET: Final = re.compile(r'^target triple = "(nvptx|amdgcn|spir)', re.M)
_PTX: Final = re.compile(r"^\s*\.(version|target|visible|entry)\b", re.M)


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a kernel of `plugin`, LLVM IR or C. Its parameters are the addresses of `inputs` inputs,
    then `numbers` integers of at most 32 bits, then the addresses of `outputs` outputs."""

    plugin: str = field(compare=False)
    name: str
    code: str
    inputs: int
    numbers: int
    outputs: int


def source(where: str, code: str | bytes) -> str:
    """The text of a kernel that this machine can compile; NotSupportedError AR901 for any other."""
    head = code[:4] if isinstance(code, bytes) else b""
    kind = _BINARIES.get(head, "")
    text = "" if kind else code.decode(errors="replace") if isinstance(code, bytes) else code
    if not kind and (_PTX.search(text) or _OTHER_TARGET.search(text)):
        kind = "PTX" if _PTX.search(text) else "LLVM IR of a GPU"
    if kind:
        do = "pass LLVM IR or C, or write an impl function and add the plug-in with aot=False"
        raise NotSupportedError("AR901", where, kind, "a kernel for the CPU", do)
    return text
