"""LLVM's spelling of machine types, literals and instructions."""

from __future__ import annotations

import re
import struct

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Op

NAMES = {
    Scalar.BOOL: "i1",
    Scalar.I8: "i8",
    Scalar.U8: "i8",
    Scalar.I16: "i16",
    Scalar.I32: "i32",
    Scalar.I64: "i64",
    Scalar.U64: "i64",
    Scalar.F16: "half",
    Scalar.BF16: "i16",
    Scalar.F32: "float",
    Scalar.F64: "double",
}
BYTES = {
    Scalar.I8: 1,
    Scalar.U8: 1,
    Scalar.I16: 2,
    Scalar.I32: 4,
    Scalar.I64: 8,
    Scalar.U64: 8,
    Scalar.F16: 2,
    Scalar.BF16: 2,
    Scalar.F32: 4,
    Scalar.F64: 8,
}
FLOAT_OPS = {Op.ADD: "fadd", Op.SUB: "fsub", Op.MUL: "fmul", Op.DIV: "fdiv"}
INT_OPS = {
    Op.ADD: "add",
    Op.SUB: "sub",
    Op.MUL: "mul",
    Op.AND: "and",
    Op.OR: "or",
    Op.XOR: "xor",
    Op.SHL: "shl",
    Op.SHR: "ashr",
    Op.LSHR: "lshr",
}
FLOAT_COMPARES = {Op.LT: "olt", Op.LE: "ole", Op.EQ: "oeq", Op.NE: "une"}
INT_COMPARES = {Op.LT: "slt", Op.LE: "sle", Op.EQ: "eq", Op.NE: "ne"}
INTRINSICS = {
    Op.SQRT: "sqrt",
    Op.FLOOR: "floor",
    Op.CEIL: "ceil",
    Op.RINT: "roundeven",
    Op.TRUNC: "trunc",
    Op.ABS: "fabs",
    Op.MIN: "minimum",
    Op.MAX: "maximum",
    Op.FMA: "fma",
}
QUOTED = '"\\'
INT_INTRINSICS = {Op.MIN: "smin", Op.MAX: "smax"}
UNSIGNED_COMPARES = {**INT_COMPARES, Op.LT: "ult", Op.LE: "ule"}
UNSIGNED_INTRINSICS = {Op.MIN: "umin", Op.MAX: "umax"}


def vector(type: Scalar, lanes: int) -> str:
    """`<16 x float>`, or the plain type for lanes = 1."""
    return NAMES[type] if lanes == 1 else f"<{lanes} x {NAMES[type]}>"


def suffix(type: Scalar, lanes: int) -> str:
    """The spelling of the type in the name of an intrinsic: `v16f32`, `i32`."""
    base = {"half": "f16", "float": "f32", "double": "f64"}.get(NAMES[type], NAMES[type])
    return base if lanes == 1 else f"v{lanes}{base}"


def literal(value: float | int | bool, type: Scalar) -> str:
    """A scalar constant; floats are spelled by their bits, so that no digit is lost."""
    if type is Scalar.F32 or type is Scalar.F64:
        bits = struct.pack(">f", value) if type is Scalar.F32 else struct.pack(">d", value)
        wide = struct.unpack(">f", bits)[0] if type is Scalar.F32 else struct.unpack(">d", bits)[0]
        return "0x" + struct.pack(">d", wide).hex().upper()
    if type is Scalar.F16:
        return "0xH" + struct.pack(">e", value).hex().upper()
    if type is Scalar.BOOL:
        return "true" if value else "false"
    return str(int(value))


def splat(value: float | int | bool, type: Scalar, lanes: int) -> str:
    """A constant in every lane."""
    one = literal(value, type)
    if lanes == 1:
        return one
    return "<" + ", ".join([f"{NAMES[type]} {one}"] * lanes) + ">"


def symbol(name: str) -> str:
    """A function's name as it stands behind `@`. A byte 1, which LLVM does not print, precedes names that
    begin like LLVM's own intrinsics, so that they are not taken for one."""
    name = f"\1{name}" if name.startswith("llvm.") else name
    if re.fullmatch(r"[A-Za-z$._-][\w$.-]*", name, re.ASCII):
        return name
    return f'"{"".join(c if c.isprintable() and c not in QUOTED else _escaped(c) for c in name)}"'


def _escaped(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode())
