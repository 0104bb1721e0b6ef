"""Generates what follows from the records: docs, the README's table, type stubs.

python tools/gen_docs.py            write everything that changed
python tools/gen_docs.py --check    name what is out of date; exit status 1 when anything is
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from docgen import operators, parts, pictures, stubs, tables
from docgen.blocks import with_outputs
from docgen.console import replayed
from docgen.tables import works as generated_table

from anyrt.plan.disk import write_text

ROOT = Path(__file__).resolve().parents[1]
TOUR = "docs/tour.md"
SESSIONS = ("docs/first_hour.md", "docs/walk_convolution.md", "docs/walk_attention.md")
WORKS = re.compile(r"(<!-- begin: what works[^\n]*-->\n).*?(<!-- end: what works -->)", re.S)


def generated() -> dict[str, str]:
    """Path below the root and text of every file that is generated, or has a part that is."""
    found = {**operators.pages(), **tables.codes(), **tables.scalars(), **tables.missing()}
    found |= {**stubs.stub(), **pictures.residual(), **parts.pages()}
    found["docs/operators/index.md"] = operators.index(parts.rows())
    for name in ("README.md", TOUR):
        text = (ROOT / name).read_text(encoding="utf-8")
        text = WORKS.sub(lambda m: f"{m[1]}{generated_table()}{m[2]}", text)
        found[name] = with_outputs(text, name)
    for name in SESSIONS:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = replayed((ROOT / name).read_text(encoding="utf-8"), Path(folder))
    return found


def stale_pages(paths: set[str]) -> list[Path]:
    """Pages of operators that are there no more."""
    return [p for p in (ROOT / "docs/operators").glob("*.md") if str(p.relative_to(ROOT)) not in paths]


def main() -> int:
    """Write or check; 0 when all is well."""
    check = sys.argv[1:] == ["--check"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANYRT_CACHE_DIR"] = folder  # examples are compiled, and leave nothing behind
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
