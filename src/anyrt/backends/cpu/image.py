"""Compiled code as a flat, relocated, symbol-free image: the run side needs only mmap and ctypes.

An ELF object (x86-64, reloc=pic) is laid out section by section, its PC-relative relocations are applied, and
any symbol from outside (a libcall, say) is refused. What remains is bytes and a table of entry offsets:

    image, entries = flatten(compile_text(ir, target))

Nothing in an image is written at run time: sections with data that may change are refused, since the image is
mapped read-only and executable.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from anyrt.core.errors import CompileError

_MAGIC: Final = b"\x7fELF\x02\x01"
_EM_X86_64: Final = 62
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS, _SHT_UNWIND = 2, 4, 8, 0x70000001
_SHF_WRITE, _SHF_ALLOC = 1, 2
_STT_FUNC: Final = 2
_STB_LOCAL: Final = 0
# Relocation kinds that are differences of two places in the image, and the width they fill in.
_PC32, _PLT32, _PC64 = 2, 4, 24
_WIDTHS: Final = {_PC32: "<i", _PLT32: "<i", _PC64: "<q"}
_ALIGNMENT: Final = 64
_PAGE: Final = 4096  # images are mapped at pages, no section can ask for more
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
        """True for what must be in memory; tables for unwinding are not, nothing throws."""
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
    """An x86-64 ELF object as (image, offset by function); CompileError where it cannot stand alone."""
    try:
        return _flatten(obj)
    except (struct.error, IndexError, ValueError) as error:
        raise CompileError("AR806", "object file", got=f"a malformed file ({error})") from None


def _flatten(obj: bytes) -> tuple[bytes, dict[str, int]]:
    sections = _sections(obj)
    image, base = _place(obj, sections)
    symbols = _symbols(obj, sections)
    for section in sections:
        if section.kind == _SHT_RELA and section.target in base:
            _relocate(obj, section, image, base, symbols)
    exported = [s for s in symbols if s.section in base and s.kind == _STT_FUNC and s.binding != _STB_LOCAL]
    return bytes(image), {s.name: base[s.section] + s.value for s in exported}


def _sections(obj: bytes) -> list[_Section]:
    if obj[:6] != _MAGIC or struct.unpack_from("<H", obj, 0x12)[0] != _EM_X86_64:
        raise CompileError("AR806", "object file", got=f"{bytes(obj[:20])!r}", wanted="ELF for x86-64")
    (table,) = struct.unpack_from("<Q", obj, 0x28)
    size, count, names = struct.unpack_from("<HHH", obj, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", obj, table + i * size) for i in range(count)]
    strings = rows[names][4]
    return [
        _Section(_text(obj, strings + name), kind, flags, offset, length, link, target, max(align, 1))
        for name, kind, flags, _, offset, length, link, target, align, _ in rows
    ]


def _text(obj: bytes, at: int) -> str:
    return bytes(obj[at : obj.index(b"\0", at)]).decode()


def _place(obj: bytes, sections: list[_Section]) -> tuple[bytearray, dict[int, int]]:
    """The image before relocation, and the place of each section in it by section number."""
    image, base = bytearray(), {}
    for i, section in enumerate(sections):
        if not section.is_code_or_constant:
            continue
        is_variable = section.flags & _SHF_WRITE and not section.title.startswith(".data.rel.ro")
        if is_variable or section.kind == _SHT_NOBITS or section.align > _PAGE:
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


def _relocate(
    obj: bytes, table: _Section, image: bytearray, base: dict[int, int], symbols: list[_Symbol]
) -> None:
    for k in range(table.size // 24):
        offset, number, addend = struct.unpack_from("<QQq", obj, table.offset + 24 * k)
        symbol, how = symbols[number >> 32], number & 0xFFFFFFFF
        if symbol.section not in base:
            raise CompileError(
                "AR806", "compiled code", got=f"the undefined symbol {symbol.name!r}", wanted="none"
            )
        if how not in _WIDTHS:
            where = f"compiled code, reference to {symbol.name or 'a section'!r}"
            raise CompileError(
                "AR806", where, got=f"relocation type {how}", wanted="PC-relative ones", do=_DO
            )
        at = base[table.target] + offset
        struct.pack_into(_WIDTHS[how], image, at, base[symbol.section] + symbol.value + addend - at)
