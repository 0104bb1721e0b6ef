"""Runs tests with the lowest and with the newest version of every dependency, each in a fresh environment.

python tools/bounds.py              both
python tools/bounds.py lowest       one
python tools/bounds.py --python /path/to/python3.13 newest

pyproject.toml has the bounds. Each environment is created in a temporary folder, gets the package as users
install it (not editable), and is removed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    *("tests/cli/test_models.py", "tests/cli/test_agree.py", "tests/onnx/test_session.py"),
    *("tests/api/test_run.py", "tests/core", "tests/e2e/test_bad_plans.py"),
)
RUNNERS = ("pytest", "hypothesis", "pillow")


def lowest(requirements: list[str]) -> list[str]:
    """Each requirement at its lower bound.

    >>> lowest(["numpy>=1.26", "rich>=13"])
    ['numpy==1.26', 'rich==13']
    """
    return [text.replace(">=", "==") for text in requirements]


def installed(python: Path, names: list[str]) -> str:
    """The versions installed in an environment."""
    code = (
        f"from importlib.metadata import version; print(*(n + ' ' + version(n) for n in {names}), sep=', ')"
    )
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def run(which: str, base: str) -> int:
    """Create the environment and run the tests in it; returns the exit status."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = project["dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([base, "-m", "venv", folder], check=True)
        python = Path(folder, "bin", "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        chosen = lowest(expected) if which == "lowest" else expected
        subprocess.run([*pip, *(["--upgrade"] if which == "newest" else []), *chosen, *RUNNERS], check=True)
        subprocess.run([*pip, "--no-deps", str(ROOT)], check=True)
        names = [re.match(r"[\w.-]+", text)[0] for text in expected]
        print(f"{which}: {installed(python, names)}", flush=True)
        # Without the source folder on the path, so that tests use the installed package.
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "ANYRT_CACHE_DIR": str(Path(folder, "cache"))}
        return subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], cwd=ROOT, env=environment
        ).returncode


def main() -> int:
    """Test both environments, or those that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "which", nargs="*", default=["lowest", "newest"], help="lowest, newest (default: both)"
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environments")
    args = parser.parse_args()
    return max([run(which, args.python) for which in args.which], default=0)


if __name__ == "__main__":
    sys.exit(main())
