"""Compiled code as a flat, relocated image without symbols: the run side needs only mmap and ctypes.

An ELF object (x86-64 or AArch64, reloc=pic) is laid out section by section, relocations within the image are
applied, and any external symbol (such as a libcall) is rejected. The result is bytes and a table of entry
offsets:

    image, entries = flatten(compile_text(ir, target))

Nothing in an image is written at run time: sections with writable data are rejected, since the image is
mapped read-only and executable. It is mapped at a page: code of AArch64 counts pages (ADRP).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from anyrt.core.errors import CompileError

_MAGIC: Final = b"\x7fELF\x02\x01"
_EM_X86_64, _EM_AARCH64 = 62, 183
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS, _SHT_UNWIND = 2, 4, 8, 0x70000001
_SHF_WRITE, _SHF_ALLOC = 1, 2
_STT_FUNC: Final = 2
_STB_LOCAL: Final = 0
_ALIGNMENT: Final = 64
PAGE: Final = 4096  # images are mapped at pages, so no section can require more
_DO: Final = (
    "define functions and constants whose address is taken as internal, or LLVM asks for a table of addresses"
)


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    target: int
    align: int

    @property
    def is_code_or_constant(self) -> bool:
        """True for sections that must be in memory; unwind tables are not, since nothing throws."""
        unwinding = self.kind == _SHT_UNWIND or self.title.startswith(".eh_frame")
        return bool(self.flags & _SHF_ALLOC) and self.size > 0 and not unwinding


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    kind: int
    binding: int
    section: int
    value: int


def flatten(obj: bytes) -> tuple[bytes, dict[str, int]]:
    """An ELF object as (image, offset by function); CompileError AR806 if it needs anything external."""
    try:
        return _flatten(obj)
    except (struct.error, IndexError, ValueError) as error:
        raise CompileError("AR806", "object file", got=f"a malformed file ({error})") from None


def _flatten(obj: bytes) -> tuple[bytes, dict[str, int]]:
    sections = _sections(obj)
    image, base = _place(obj, sections)
    symbols, patches = _symbols(obj, sections), _PATCHES[_processor(obj)]
    for section in sections:
        if section.kind == _SHT_RELA and section.target in base:
            _relocate(obj, section, image, base, symbols, patches)
    exported = [s for s in symbols if s.section in base and s.kind == _STT_FUNC and s.binding != _STB_LOCAL]
    return bytes(image), {s.name: base[s.section] + s.value for s in exported}


def _sections(obj: bytes) -> list[_Section]:
    if obj[:6] != _MAGIC or _processor(obj) not in _PATCHES:
        wanted = "ELF for x86-64 or AArch64"
        raise CompileError("AR806", "object file", got=f"{bytes(obj[:20])!r}", wanted=wanted)
    (table,) = struct.unpack_from("<Q", obj, 0x28)
    size, count, names = struct.unpack_from("<HHH", obj, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", obj, table + i * size) for i in range(count)]
    strings = rows[names][4]
    return [
        _Section(_text(obj, strings + name), kind, flags, offset, length, link, target, max(align, 1))
        for name, kind, flags, _, offset, length, link, target, align, _ in rows
    ]


def _processor(obj: bytes) -> int:
    (number,) = struct.unpack_from("<H", obj, 0x12)
    return int(number)


def _text(obj: bytes, at: int) -> str:
    return bytes(obj[at : obj.index(b"\0", at)]).decode()


def _place(obj: bytes, sections: list[_Section]) -> tuple[bytearray, dict[int, int]]:
    """The image before relocation, and the place of each section in it by section number."""
    image, base = bytearray(), {}
    for i, section in enumerate(sections):
        if not section.is_code_or_constant:
            continue
        is_variable = section.flags & _SHF_WRITE and not section.title.startswith(".data.rel.ro")
        if is_variable or section.kind == _SHT_NOBITS or section.align > PAGE:
            raise CompileError(
                "AR806", f"section {section.title}", got="data that can change", wanted="constants only"
            )
        image += bytes(-len(image) % max(_ALIGNMENT, section.align))
        base[i] = len(image)
        image += obj[section.offset :][: section.size]
    return image, base


def _symbols(obj: bytes, sections: list[_Section]) -> list[_Symbol]:
    table = next((s for s in sections if s.kind == _SHT_SYMTAB), None)
    if table is None:
        raise CompileError("AR806", "object file", got="no table of symbols")
    strings = sections[table.link].offset
    rows = (struct.unpack_from("<IBBHQQ", obj, table.offset + 24 * i) for i in range(table.size // 24))
    return [
        _Symbol(_text(obj, strings + name), how & 15, how >> 4, section, value)
        for name, how, _, section, value, _ in rows
    ]


# The arguments of a relocation: the image, the place to patch, the target.
_Patch = Callable[[bytearray, int, int], None]


def _distance(form: str) -> _Patch:
    def patch(image: bytearray, at: int, to: int) -> None:
        struct.pack_into(form, image, at, to - at)

    return patch


def _branch(image: bytearray, at: int, to: int) -> None:
    """B and BL: so many instructions from here."""
    _insert(image, at, 0, 26, _signed((to - at) >> 2, 26))


def _page(image: bytearray, at: int, to: int) -> None:
    """ADRP: so many pages from this one; the two lowest bits lie apart."""
    pages = _signed(to // PAGE - at // PAGE, 21)
    _insert(image, at, 29, 2, pages & 3)
    _insert(image, at, 5, 19, pages >> 2)


def _in_page(size: int) -> _Patch:
    """ADD (size 1), and loads and stores of so many bytes: the offset in the page."""

    def patch(image: bytearray, at: int, to: int) -> None:
        place = to % PAGE
        if place % size:
            raise ValueError(f"{size} bytes at {to:#x}")
        _insert(image, at, 10, 12, place // size)

    return patch


def _signed(number: int, bits: int) -> int:
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{number} in {bits} bits")
    return number & (1 << bits) - 1


def _insert(image: bytearray, at: int, low: int, bits: int, number: int) -> None:
    (word,) = struct.unpack_from("<I", image, at)
    mask = (1 << bits) - 1 << low
    struct.pack_into("<I", image, at, word & ~mask | number << low)


# By processor and number. System V ABI for AMD64, table 4.9: PC32, PLT32, PC64. ELF for the Arm 64-bit
# Architecture, 5.7: ADR_PREL_PG_HI21, ADD_ABS_LO12_NC, LDST8, JUMP26, CALL26, LDST16, 32, 64 and 128.
_PATCHES: Final[Mapping[int, Mapping[int, _Patch]]] = {
    _EM_X86_64: {2: _distance("<i"), 4: _distance("<i"), 24: _distance("<q")},
    _EM_AARCH64: {
        275: _page,
        277: _in_page(1),
        278: _in_page(1),
        282: _branch,
        283: _branch,
        284: _in_page(2),
        285: _in_page(4),
        286: _in_page(8),
        299: _in_page(16),
    },
}


def _relocate(
    obj: bytes,
    table: _Section,
    image: bytearray,
    base: dict[int, int],
    symbols: list[_Symbol],
    patches: Mapping[int, _Patch],
) -> None:
    for k in range(table.size // 24):
        offset, number, addend = struct.unpack_from("<QQq", obj, table.offset + 24 * k)
        symbol, how = symbols[number >> 32], number & 0xFFFFFFFF
        if symbol.section not in base:
            raise CompileError(
                "AR806", "compiled code", got=f"the undefined symbol {symbol.name!r}", wanted="none"
            )
        if how not in patches:
            where = f"compiled code, reference to {symbol.name or 'a section'!r}"
            known = ", ".join(map(str, patches))
            raise CompileError(
                "AR806", where, got=f"relocation type {how}", wanted=f"one within the image ({known})", do=_DO
            )
        patches[how](image, base[table.target] + offset, base[symbol.section] + symbol.value + addend)
