"""The programs in documents (the tour, the README, the pages of operators) print the output shown
below them."""

from pathlib import Path

import pytest

from anyrt.ops import REMOVED
from tests.sampling import sample

ROOT = Path(__file__).resolve().parents[2]
# Programs for an older API run in a separate process (tests/compat/test_api86.py).
WITHOUT = {"index", *(op.layer.name.lower() for op in REMOVED)}
PAGES = sorted(p for p in (ROOT / "docs/operators").glob("*.md") if p.stem not in WITHOUT)
# `make check` regenerates each page of an operator and compares.
PROGRAMS = [ROOT / "docs/tour.md", ROOT / "README.md", *sample(PAGES, 10)]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_print_what_stands_below_them(path):
    from docgen.blocks import programs, with_outputs

    text = path.read_text()
    assert len(list(programs(path))) >= 1
    assert with_outputs(text, path.name) == text
