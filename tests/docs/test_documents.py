"""Generated documents and the type stub are current; names and links in documents exist."""

import re
from pathlib import Path

import pytest

from anyrt.ops import ALL_OPS
from anyrt.prims.table import PRIMITIVES

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)#:]+)\)")
PRINTED = re.compile(r"^```.*?^```", re.M | re.S)


def test_generated_tables_are_current():
    from docgen.tables import codes, missing, scalars, supported
    from docgen.trouble import pages

    for name, text in {**codes(), **scalars(), **missing(), **supported(), **pages()}.items():
        assert (ROOT / name).read_text() == text, f"run `make docs`: {name}"


def test_stub_is_current():
    from docgen.stubs import stub

    for name, text in stub().items():
        assert (ROOT / name).read_text() == text, f"run `make docs`: {name}"


def test_every_operator_has_a_page():
    from docgen import parts
    from docgen.operators import page_name

    pages = {p.stem for p in (ROOT / "docs/operators").glob("*.md")} - {"index"}
    assert pages == {*(page_name(op) for op in ALL_OPS), *parts.PAGES}


@pytest.mark.parametrize(
    ("sentence", "pages"),
    [
        (
            "int8 stands for real numbers:",
            "activation convolution deconvolution elementwise fully_connected matrix_multiply parametric_relu"
            " pooling reduce resize scale unary",
        ),
        (
            "int8 elements are moved as they are",
            "concatenation dist_collective gather identity one_hot padding pooling resize reverse_sequence"
            " scatter select shuffle slice squeeze unsqueeze",
        ),
        ("int8 codes are converted as integers", "cast"),
    ],
)
def test_pages_say_what_becomes_of_int8(sentence, pages):
    results = [p.stem for p in sorted((ROOT / "docs/operators").glob("*.md")) if sentence in p.read_text()]
    assert results == pages.split()


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.stem
)
def test_links_lead_somewhere(path):
    reported = PRINTED.sub("", path.read_text())
    assert [link for link in LINK.findall(reported) if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md"])
def test_files_and_folders_that_are_named_exist(name):
    named = re.findall(r"`((?:src/anyrt/)?[a-z_]+/(?:[a-z_]+/)*(?:[a-z_]+\.py)?)`", (ROOT / name).read_text())
    places = {n: [ROOT / n, ROOT / "src/anyrt" / n] for n in named}
    absent = {"ops/softmax.py", "backends/cuda/"}  # listed as missing
    assert {n for n, result in places.items() if not any(p.exists() for p in result)} <= absent


def test_architecture_names_every_primitive():
    text = (ROOT / "docs/architecture.md").read_text()
    assert [p.__name__ for p in PRIMITIVES if f"`{p.__name__}`" not in text] == []
    assert len(PRIMITIVES) == 27, "the page says twenty-seven"
