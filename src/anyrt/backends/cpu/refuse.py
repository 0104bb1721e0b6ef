"""What kernels may hold and LLVM text is not written for yet, refused by name in this one place."""

from __future__ import annotations

from anyrt.core.dims import Sym, depends
from anyrt.core.errors import NotSupportedError
from anyrt.ir.kernel import For, Kernel, Let, Loop, MultiReduction, Stmt
from anyrt.ir.statements import allocations, folds
from anyrt.ir.visit import statements


def refuse(kernel: Kernel) -> None:
    """Raises for the first statement that cannot be emitted."""
    for found in filter(None, map(_unwritten, statements(kernel.body))):
        raise NotSupportedError(
            "AR901", f"kernel {kernel.name}", got=found, wanted="what LLVM text is written for"
        )


def _unwritten(stmt: Stmt) -> str | None:
    match stmt:
        case For(var=var, body=body, registers=registers) if registers > 1 and _folds_outside(body):
            return f"loop {var}, which folds vectors of {registers} registers"
        case For(var=var, kind=Loop.VECTOR, body=body):
            return next(filter(None, (_in_lanes(s, var) for s in statements(body))), None)
        case For(var=var, kind=Loop.BLOCK | Loop.THREAD as kind):
            return f"{kind.value} loop {var}"
        case MultiReduction():
            return "a fold of several registers at once"
        case _:
            return None


def _folds_outside(body: tuple[Stmt, ...]) -> bool:
    """True when something is folded that begins before the loop."""
    inside = {s.buffer for s in allocations(body)}
    return any(s.buffer not in inside for s in folds(body))


def _in_lanes(stmt: Stmt, var: Sym) -> str | None:
    """The lanes of a vector loop take the same turns of what stands inside."""
    match stmt:
        case Let():
            return f"a let in vector loop {var}"
        case For(var=inner, kind=Loop.VECTOR):
            return f"vector loop {inner} in vector loop {var}"
        case For(var=inner) if depends(inner.extent or 0, var):
            return f"loop {inner} of another length in each turn of vector loop {var}"
        case _:
            return None
