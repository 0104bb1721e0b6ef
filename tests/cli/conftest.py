"""A small network as a file and as a plan, an input for it, and a cache of its own."""

from pathlib import Path

import numpy as np
import pytest

from anyrt.cli.script import build_script

NETWORK = """
import numpy as np
import anyrt as trt


def define(network):
    x = network.add_input("x", trt.float32, (1, 2, 2, 2))
    scale = network.add_scale(x, trt.ScaleMode.UNIFORM, scale=np.array([2], np.float32))
    scale.name = "double"
    relu = network.add_activation(scale.get_output(0), trt.ActivationType.RELU)
    relu.name = "relu"
    relu.get_output(0).name = "y"
    network.mark_output(relu.get_output(0))


def dynamic(network, config):
    x, y = (network.add_input(name, trt.float32, (-1, 8)) for name in "xy")
    total = network.add_elementwise(x, y, trt.ElementWiseOperation.SUM)
    total.name = "total"
    network.mark_output(total.get_output(0))
    profile = network.builder.create_optimization_profile()
    for name in "xy":
        profile.set_shape(name, (1, 8), (64, 8), (512, 8))
    config.add_optimization_profile(profile)


def wrong(network):
    network.add_input("x", trt.float32, (1, 2))
    network.nonsense


def refused(network):
    x = network.add_input("x", trt.float32, (1, 2))
    network.mark_output(network.add_scale(x, trt.ScaleMode.UNIFORM).get_output(0))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "cache"))
    Path("net.py").write_text(NETWORK)
    np.save("x.npy", np.float32([-1, 1, -2, 2, -3, 3, -4, 4]).reshape(1, 2, 2, 2))
    return tmp_path


@pytest.fixture
def plan(folder: Path) -> str:
    (folder / "net.plan").write_bytes(build_script(folder / "net.py", "define"))
    return "net.plan"
