"""The wheel, and a wheel built from the source distribution, work in fresh environments.

Nothing is downloaded: the environments use the dependencies of the test environment.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
OFFLINE = ("--no-deps", "--no-index")
PROGRAM = """
import numpy as np
import anyrt as trt

print(trt.__file__)
builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
network = builder.create_network()
x = network.add_input("x", trt.float32, (2, 3))
y = network.add_activation(x, trt.ActivationType.RELU).get_output(0)
y.name = "y"
network.mark_output(y)
engine = builder.build_engine_with_config(network, builder.create_builder_config())
print(engine.run(x=np.array([[-1, 0, 1], [2, -3, 4]], np.float32))["y"].tolist())
"""
NETWORK = """
import anyrt as trt


def define(network):
    x = network.add_input("x", trt.float32, (2, 3))
    network.mark_output(network.add_activation(x, trt.ActivationType.RELU).get_output(0))
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def only(folder, pattern):
    [path] = folder.glob(pattern)
    return path


pytestmark = pytest.mark.rare  # it takes 15 seconds, and the source seldom changes the packaged files


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The wheel of the tree, the source distribution, and a wheel built from that alone."""
    pytest.importorskip("hatchling", reason="the extra `dev` installs hatchling, which builds packages")
    folder = tmp_path_factory.mktemp("packages")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), cwd=ROOT)
    wheel, source = only(folder, "*.whl"), only(folder, "*.tar.gz")
    run(*PIP, "wheel", *OFFLINE, "--no-build-isolation", "-w", str(folder / "again"), str(source))
    return {"wheel": wheel, "sdist": only(folder / "again", "*.whl"), "source": source}


@pytest.fixture(params=["wheel", "sdist"])
def environment(request, packages, tmp_path):
    """A fresh environment with AnyRT installed from one of these."""
    run(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env"))
    python = tmp_path / "env/bin/python"
    run(*PIP, "--python", str(python), "install", *OFFLINE, str(packages[request.param]))
    # After the environment's own directory, so that AnyRT comes from there. `.pth` lines in this one are
    # ignored.
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return tmp_path / "env"


def test_an_installed_package_builds_and_runs(environment, tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    env["ANYRT_CACHE_DIR"] = str(tmp_path / "cache")
    place, values = run(environment / "bin/python", "-c", PROGRAM, cwd=tmp_path, env=env).splitlines()
    assert Path(place).is_relative_to(environment)
    assert values == "[[0.0, 0.0, 1.0], [2.0, 0.0, 4.0]]"
    (tmp_path / "net.py").write_text(NETWORK)
    # The report reads files next to the modules.
    run(environment / "bin/anyrt", "report", "net.py", "-o", "report.html", cwd=tmp_path, env=env)
    assert "<style>" in (tmp_path / "report.html").read_text()


def test_packages_have_every_file_of_the_package_and_what_tests_it(packages):
    files = (p for p in (ROOT / "src/anyrt").rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    package = {str(p.relative_to(ROOT / "src")) for p in files}
    assert {"anyrt/py.typed", "anyrt/__init__.pyi", "anyrt/cli/report/page.css"} <= package
    for kind in ("wheel", "sdist"):
        assert package <= set(zipfile.ZipFile(packages[kind]).namelist())
    with tarfile.open(packages["source"]) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "Makefile", "tests/conftest.py"} <= names
