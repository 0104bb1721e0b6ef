"""The server is an extra: no other module imports it, and the command names the package to install."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/anyrt"


def test_import_of_anyrt_and_its_commands_loads_nothing_of_serving():
    code = "import anyrt, anyrt.cli.main as m, sys; anyrt.Predictor; m.all_commands(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    tops = {"starlette", "granian", "grpc", "prometheus_client", "pyarrow", "mpi4py", "ray", "opentelemetry"}
    assert not tops & {name.split(".")[0] for name in loaded}
    assert not [name for name in loaded if name.startswith(("anyrt.serve", "anyrt.integrations"))]


def test_serving_and_integrations_do_not_import_each_other():
    for package, other in (("serve", "anyrt.integrations"), ("integrations", "anyrt.serve")):
        assert [p.name for p in (SOURCE / package).rglob("*.py") if other in p.read_text()] == []


@pytest.mark.skipif(find_spec("granian") is not None, reason="the extra serve is installed")
def test_command_without_the_extra_says_what_to_install(tmp_path):
    command = [sys.executable, "-m", "anyrt", "serve", str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install anyrt[serve]" in done.stderr
