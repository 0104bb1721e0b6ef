"""The API reference of the site, generated from the objects at run time: layer classes are generated, so a
static reader of the source cannot find them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from types import ModuleType

import anyrt
from docgen.operators import table

INDEX = """# API reference

Every public name of `anyrt`, from the objects at run time. AnyRT implements the Python API of TensorRT
{version}; members marked *AnyRT* in their text are its own.

"""
MODULES = ("anyrt", "anyrt.errors", "anyrt.plugin")


def public(owner: object) -> list[str]:
    """The public names of a module or class, sorted."""
    return [n for n in sorted(dir(owner)) if not n.startswith("_")]


def pages() -> dict[str, str]:
    """Path below the site's pages and text of each page of the reference."""
    results = {name: getattr(anyrt, name) for name in public(anyrt)}
    classes = {n: x for n, x in results.items() if isinstance(x, type)}
    texts = {f"api/{name}.md": "".join(_class(name, cls)) for name, cls in classes.items()}
    texts["api/functions.md"] = "".join(_others({n: x for n, x in results.items() if n not in classes}))
    for module in MODULES[1:]:
        texts[f"api/{module.rpartition('.')[2]}_module.md"] = "".join(_module(results[module[6:]]))
    kinds = {name: "enum" if _is_enum(cls) else "class" for name, cls in classes.items()}
    rows = [(f"[`{n}`]({n}.md)", kinds[n], _summary(classes[n])) for n in classes]
    more = [(f"[`{n}`](functions.md)", "", _summary(x)) for n, x in results.items() if n not in classes]
    index = INDEX.format(version=anyrt.__version__) + table(("name", "kind", "summary"), sorted(rows + more))
    return {**texts, "api/index.md": index}


def _is_enum(cls: type) -> bool:
    return issubclass(cls, Enum) or hasattr(cls, "__members__")


def _summary(x: object) -> str:
    text = (inspect.getdoc(x) or "").split("\n\n")[0].replace("\n", " ")
    return text.replace("|", "\\|").replace("<", "&lt;")


def _text(x: object) -> str:
    return (inspect.getdoc(x) or "").replace("<", "&lt;")


def _signature(x: object) -> str:
    try:
        return str(inspect.signature(x))  # type: ignore[arg-type]  # whatever is callable
    except (TypeError, ValueError):
        return "(...)"


def _class(name: str, cls: type) -> Iterator[str]:
    yield f"# {name}\n\n{_text(cls)}\n"
    bases = [b.__name__ for b in cls.__mro__[1:-1] if hasattr(anyrt, b.__name__)]
    if bases:
        yield f"\nBases: {', '.join(f'[{b}]({b}.md)' for b in bases)}\n"
    if _is_enum(cls):
        members = getattr(cls, "__members__", {})
        yield "\n" + table(("member", "value"), [(f"`{n}`", str(int(m))) for n, m in members.items()])
    for member in public(cls):
        if not (_is_enum(cls) and member in getattr(cls, "__members__", {})):
            yield from _member(member, inspect.getattr_static(cls, member), getattr(cls, member, None))


def _member(name: str, static: object, result: object) -> Iterator[str]:
    if isinstance(static, type):
        yield f"\n## {name}\n\nThe class `{static.__name__}`.\n"
    elif callable(result) and not isinstance(static, property):
        yield f"\n## {name}\n\n```python\n{name}{_signature(result)}\n```\n\n{_text(result)}\n"
    else:
        yield f"\n## {name}\n\n*attribute*\n\n{_text(static) if hasattr(static, '__get__') else ''}\n"


def _others(result: dict[str, object]) -> Iterator[str]:
    yield "# Functions, element types and modules\n"
    for name, x in result.items():
        if isinstance(x, ModuleType):
            yield f"\n## {name}\n\nThe module `{x.__name__}`.\n\n{_text(x)}\n"
        elif callable(x):
            yield f"\n## {name}\n\n```python\n{name}{_signature(x)}\n```\n\n{_text(x)}\n"
        else:
            yield f"\n## {name}\n\n`{x}`\n"


def _module(module: ModuleType) -> Iterator[str]:
    yield f"# {module.__name__}\n\n{_text(module)}\n"
    for name in public(module):
        x = getattr(module, name)
        if getattr(x, "__module__", "").startswith("anyrt") and callable(x):
            yield f"\n## {name}\n\n```python\n{name}{_signature(x)}\n```\n\n{_text(x)}\n"
