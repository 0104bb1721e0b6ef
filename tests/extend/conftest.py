"""A copy of the project's source to extend, and functions that run programs against it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Copy:
    """A copy of src and tools; `run` runs Python in it, `anyrt` the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "src/anyrt"
        unwanted = shutil.ignore_patterns("*.pyc.*")  # files that are being written
        for name in ("src", "tools"):
            shutil.copytree(ROOT / name, folder / name, ignore=unwanted)

    def run(self, *words: str, status: int = 0) -> str:
        """The output of a program; its exit status must be `status`."""
        paths = os.pathsep.join(str(self.folder / name) for name in ("src", "tools", "."))
        environ = {**os.environ, "PYTHONPATH": paths, "ANYRT_CACHE_DIR": str(self.folder / "cache")}
        done = subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=environ, capture_output=True, text=True
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def tests(self, *words: str) -> str:
        """The output of pytest for the project's own tests, run in the copy."""
        shutil.copytree(ROOT / "tests", self.folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        return self.run("-m", "pytest", "-q", "-rpf", "-p", "no:cacheprovider", *words)

    def anyrt(self, *words: str) -> str:
        """The output of the command `anyrt`."""
        return self.run("-m", "anyrt", *words)

    def replace(self, name: str, old: str, new: str) -> None:
        """Edit a file of the package in one place."""
        text = (self.package / name).read_text()
        assert text.count(old) == 1, f"{name} has {text.count(old)} of {old!r}"
        (self.package / name).write_text(text.replace(old, new))


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)
