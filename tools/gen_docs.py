"""Generates documents and type stubs from the operators' records and other tables.

python tools/gen_docs.py            write everything that changed
python tools/gen_docs.py --check    name the outdated files; exit status 1 if there are any
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from docgen import operators, parts, pictures, stubs, tables, trouble
from docgen.blocks import with_outputs
from docgen.console import replayed

from anyrt.plan.disk import write_text

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = (
    "README.md",
    "docs/tour.md",
    "docs/migrating.md",
    "docs/tuning.md",
    "docs/deploying.md",
    "docs/differences.md",
)
EXTENSIONS = re.compile(r"(<!-- begin: extensions[^\n]*-->\n).*?(<!-- end: extensions -->)", re.S)
SESSIONS = (
    "docs/first_hour.md",
    "docs/first_hour_tensorrt.md",
    "docs/first_hour_onnx.md",
    "docs/first_hour_platform.md",
    "docs/migrating.md",
    "docs/walk_convolution.md",
    "docs/walk_attention.md",
)


def generated() -> dict[str, str]:
    """Path below the root and text of every file that is generated wholly or in part."""
    results = {**operators.pages(), **tables.codes(), **tables.scalars(), **tables.missing()}
    results |= tables.supported()
    results |= {**stubs.stub(), **pictures.residual(), **parts.pages()}
    results["docs/operators/index.md"] = operators.index(parts.rows())
    results |= trouble.pages()
    for name in dict.fromkeys(PROGRAMS + SESSIONS):
        results[name] = page(name)
    return results


def page(name: str) -> str:
    """A page whose programs, commands or both are run, with their output."""
    text = (ROOT / name).read_text(encoding="utf-8")
    text = EXTENSIONS.sub(lambda m: f"{m[1]}{tables.extensions()}{m[2]}", text)
    if name in PROGRAMS:
        text = with_outputs(text, name)
    if name in SESSIONS:
        with tempfile.TemporaryDirectory() as folder:
            text = replayed(text, Path(folder))
    return text


def stale_pages(paths: set[str]) -> list[Path]:
    """Pages of operators that no longer exist."""
    return [p for p in (ROOT / "docs/operators").glob("*.md") if str(p.relative_to(ROOT)) not in paths]


def main() -> int:
    """Write or check; returns 0 if all files are current."""
    check = sys.argv[1:] == ["--check"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANYRT_CACHE_DIR"] = folder  # examples are compiled, and leave no files behind
        files = generated()
    old = [name for name, text in files.items() if _read(ROOT / name) != text]
    gone = stale_pages(set(files))
    if check:
        for name in [*old, *(str(p.relative_to(ROOT)) for p in gone)]:
            print(f"{name} is out of date; `make docs` writes it anew")
        return 1 if old or gone else 0
    for name in old:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(ROOT / name, files[name])
        print(f"wrote {name}")
    for path in gone:
        path.unlink()
        print(f"removed {path.relative_to(ROOT)}")
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
