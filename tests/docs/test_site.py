"""The documentation site: the reference has every public name, and the built pages need no network."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import anyrt

ROOT = Path(__file__).resolve().parents[2]
STUB = ast.parse((ROOT / "src/anyrt/__init__.pyi").read_text())
CLASSES = [x for x in STUB.body if isinstance(x, ast.ClassDef) and not x.name.startswith("_")]
EXTERNAL = re.compile(r'<(?:script|link|img)[^>]*(?:src|href)="?(?:https?:)?//(?!anyrt)[^>]*>')


@pytest.fixture(scope="module")
def pages():
    sys.path.insert(0, str(ROOT / "tools"))
    from docgen import reference

    yield reference.pages()
    sys.path.remove(str(ROOT / "tools"))


def test_the_reference_has_every_public_name(pages):
    names = [n for n in dir(anyrt) if not n.startswith("_")]
    listed = set(re.findall(r"^\| \[`(\w+)`\]", pages["api/index.md"], re.M))
    assert [n for n in names if n not in listed] == []
    assert [c.name for c in CLASSES if hasattr(anyrt, c.name) and f"api/{c.name}.md" not in pages] == []


def test_the_reference_has_every_public_member_of_every_class(pages):
    def missing(kind):
        page = pages[f"api/{kind.name}.md"]
        members = [x.name for x in kind.body if isinstance(x, ast.FunctionDef) and not x.name.startswith("_")]
        return [f"{kind.name}.{n}" for n in members if f"\n## {n}\n" not in page]

    assert [name for kind in CLASSES if hasattr(anyrt, kind.name) for name in missing(kind)] == []


def test_every_page_of_docs_is_in_the_navigation():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    named = set(re.findall(r"[\w/]+\.md", str(nav)))
    assert {p.name for p in (ROOT / "docs").glob("*.md")} - named == set()


@pytest.mark.skipif(
    find_spec("zensical") is None, reason="zensical is not installed: make site builds the site"
)
def test_the_site_builds_without_warnings_and_loads_nothing_from_the_network():
    assert subprocess.run([sys.executable, str(ROOT / "tools/site.py")], check=False).returncode == 0
    built = [p.read_text() for p in (ROOT / "build/site").rglob("*.html")]
    assert len(built) > 200
    assert [result for text in built for result in EXTERNAL.findall(text)] == []
