"""What a primitive's attributes hold at any depth: sizes, found and replaced.

>>> from anyrt.core.dims import evaluate
>>> from anyrt.prims.pad import Pad
>>> with_sizes(Pad((Sym("n").dim,), (1,), 0.0), lambda size: evaluate(size, {"n": 3}))
Pad(lo=(3,), hi=(1,), value=0.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace

from anyrt.core.dims import Dim, Expr, Sym
from anyrt.ir.prim import Prim

Change = Callable[[Expr], Dim]


def open_sizes(op: Prim) -> Iterator[Expr]:
    """Every size in the attributes of `op` that is not a number yet."""
    todo: list[object] = [op]
    while todo:
        x = todo.pop()
        if isinstance(x, Expr):
            yield x
        todo += _parts(x)


def with_sizes(op: Prim, change: Change) -> Prim:
    """`op` with `change(size)` in place of every open size; `op` itself when it has none, so that big
    constants are not copied."""
    result = _changed(op, change)
    assert isinstance(result, Prim), f"{op} became {result}"
    return result


def _changed(x: object, change: Change) -> object:
    if isinstance(x, Expr):
        return change(x)
    old = _parts(x)
    new = tuple(_changed(part, change) for part in old)
    if all(a is b for a, b in zip(new, old, strict=True)):
        return x
    if not is_dataclass(x) or isinstance(x, type):
        return new
    return replace(x, **dict(zip((f.name for f in fields(x) if f.init), new, strict=True)))


def _parts(x: object) -> tuple[object, ...]:
    """What a tuple, or a dataclass that is no size itself, is made of."""
    if isinstance(x, tuple):
        return x
    if isinstance(x, Expr | Sym | type) or not is_dataclass(x):
        return ()
    return tuple(getattr(x, f.name) for f in fields(x) if f.init)
