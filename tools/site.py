"""Builds the documentation site: `make site` writes it to build/site, without the network.

The pages are README.md, docs/ and the API reference of docgen/reference.py. Links from these pages to
examples and sources become plain text with the file's name.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from docgen import reference

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "build" / "site-source"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:\s]+)((?:#[^)]*)?)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)


def linked(text: str, place: Path) -> str:
    """`text` of the file at `place` below the root, with links for the site."""

    def moved(result: re.Match[str]) -> str:
        image, title, target, anchor = result.groups()
        path = (ROOT / place.parent / target).resolve()
        if path == ROOT / "README.md":
            path = ROOT / "docs" / "index.md"
        if not path.is_relative_to(ROOT / "docs") or path.is_dir():
            return f"`{path.relative_to(ROOT)}`"
        here = Path("docs") if place.name == "README.md" else place.parent
        up = "../" * (len(here.parts) - 1)
        return f"{image}[{title}]({up}{path.relative_to(ROOT / 'docs')}{anchor})"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def prepare() -> None:
    """Write all pages to build/site-source."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE)
    for path in (ROOT / "docs").rglob("*.md"):
        place = path.relative_to(ROOT)
        (SOURCE / path.relative_to(ROOT / "docs")).write_text(linked(path.read_text("utf-8"), place), "utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    (SOURCE / "index.md").write_text(linked(readme, Path("README.md")), "utf-8")
    (SOURCE / "api").mkdir()
    for name, text in reference.pages().items():
        (SOURCE / name).write_text(text, "utf-8")


def main() -> int:
    """Prepare the pages and build them; warnings are errors."""
    prepare()
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--clean",
        "--strict",
        "-f",
        str(ROOT / "zensical.toml"),
    ]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
