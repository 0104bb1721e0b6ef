"""Images of engines: the executor, the kernels that the host program calls, and the program itself.

Each function is code that LLVM compiled from one text and that needs nothing external (image.py), so linking
places them side by side; the program holds the kernels' places as distances. Code is identified by its text:
no two engines compile it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anyrt.backends.cpu.bytecode import Encoded, encode
from anyrt.codegen.emit import NAME, Function
from anyrt.core.machine import Machine
from anyrt.ir.kernel import Kernel
from anyrt.ir.program import Module
from anyrt.plan import abi


@dataclass(frozen=True, slots=True)
class Image:
    """Code without symbols, and where its functions begin."""

    code: bytes
    entries: Mapping[str, int]


def link(
    module: Module,
    executor: Image,
    functions: Mapping[int, Function],
    compiled: Mapping[str, Image],
    machine: Machine,
    alignment: int,
) -> tuple[bytes, tuple[tuple[str, int], ...], Encoded]:
    """(image, entries, program): `functions` by the identity of a kernel, `compiled` by their texts, each at
    a multiple of `alignment` bytes."""
    start = abi.align(len(executor.code), alignment)
    used = list(dict.fromkeys(functions[id(k)].module for k in module.distinct))

    def encoded(places: Mapping[str, int]) -> Encoded:
        def entry(kernel: Kernel) -> int:
            return places[functions[id(kernel)].module]

        return encode(module, lambda kernel: functions[id(kernel)].frame, entry, machine)

    # The program's length does not depend on the places in it.
    at = abi.align(8 * len(encoded(dict.fromkeys(used, 0)).words), alignment)
    places: dict[str, int] = {}
    for text in used:
        places[text] = at + compiled[text].entries[NAME]
        at = abi.align(at + len(compiled[text].code), alignment)
    program = encoded(places)
    parts = (executor.code, program.bytes, *(compiled[text].code for text in used))
    return _joined(parts, alignment), (*executor.entries.items(), (abi.CODE, start)), program


def _joined(parts: Iterable[bytes], alignment: int) -> bytes:
    image = bytearray()
    for content in parts:
        image += bytes(-len(image) % alignment)
        image += content
    return bytes(image)
