"""The three commands of README's section "Serve it"."""

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

pytest.importorskip("tritonclient.http", reason="tritonclient is not installed: make programs runs this")
pytest.importorskip("granian", reason="the extra serve is not installed: make programs runs this")

pytestmark = pytest.mark.programs
README = (Path(__file__).parents[2] / "README.md").read_text()


def test_commands_of_serve_it_do_what_they_say(serving, tmp_path):
    section = README[README.index("## Serve it") :].split("\n## ")[0]
    serve, curl, client = re.findall(r"```sh\n(.*?)```", section, re.S)
    text = re.search(r'text = """(.*?)"""', README, re.S)[1]
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    assert serve.split() == ["anyrt", "serve", "model.onnx"]
    server = serving(tmp_path / "model.onnx")
    there = {"cwd": tmp_path, "shell": True, "capture_output": True, "text": True, "check": True}
    path = {"env": {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}}
    answers = [
        subprocess.run(c.replace("8000", str(server.http)), **there, **path).stdout for c in (curl, client)
    ]
    assert '"data":[0.0,0.0,1.0]' in answers[0]
    assert answers[1].split() == ["[[0.", "0.", "1.]]"]
